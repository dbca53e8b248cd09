"""What a router's links must not forget: messages on their way, duplicates, neighbours' pages, numbers. UNTRUSTED, I/O.

A SQLite file beside the store. A message for several neighbours is kept once; after a restart everything kept is
brought into the network anew, so no header needs to be kept. Calls may come from
two threads (the event loop's only reserves numbers); a lock lets one in at a time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute.errors import ConfigError, StoreError, StoreFullError
from secroute.opaque import EncodedBatch
from secroute.wire._generated.opaque_pb2 import Batch
from secroute.wire.columns import batch_from_pb

_RESERVE = 65_536  # numbers taken at a time: a restart skips the rest of them
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS page(origin BLOB NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY(origin, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept(id INTEGER PRIMARY KEY, held_for BLOB, expires_ms INTEGER NOT NULL,
    batch BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS seen(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, keys BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class KeptRow:
    """Messages on disk until every neighbour (or the router they are held for) has them."""

    id: int
    held_for: bytes | None
    """A router's id; empty: whoever wants them once the network is known; None: they are on their way."""
    expires_ms: int
    data: bytes


@dataclass(slots=True)
class LinkUnit:
    """Everything that one transaction commits."""

    kept: list[KeptRow] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    seen: list[tuple[int, int, bytes]] = field(default_factory=list)
    forget_seen_before: int = 0
    pages: list[tuple[bytes, int, bytes]] = field(default_factory=list)
    origins_dropped: list[bytes] = field(default_factory=list)
    error: StoreError | None = None
    """Why nothing of it was committed."""

    def __bool__(self) -> bool:
        parts = (self.kept, self.done, self.seen, self.forget_seen_before, self.pages, self.origins_dropped)
        return any(map(bool, parts))


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        kind = StoreFullError if code in ("SQLITE_FULL", "SQLITE_IOERR_WRITE") else StoreError
        raise kind(f"links: cannot {what} ({code}); nothing of it was taken") from None


class LinkStore:
    """The open file."""

    def __init__(self, path: Path, sync: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _translated("open links.db"):
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(f"PRAGMA synchronous={'FULL' if sync == 'full' else 'NORMAL'}")
            self._db.executescript(_SCHEMA)
        os.chmod(path, 0o600)
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        with self._lock, _translated(what):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def commit(self, unit: LinkUnit) -> None:
        """All of it or nothing."""
        with self._transaction("keep messages") as db:
            db.executemany(
                "INSERT INTO kept VALUES (?, ?, ?, ?)", [(r.id, r.held_for, r.expires_ms, r.data) for r in unit.kept]
            )
            db.executemany("DELETE FROM kept WHERE id = ?", [(one,) for one in unit.done])
            db.executemany("INSERT INTO seen VALUES (?, ?, ?)", unit.seen)
            if unit.forget_seen_before:
                db.execute("DELETE FROM seen WHERE seq < ?", (unit.forget_seen_before,))
            # In this order: the pages of a router that was forgotten and is back are newer.
            db.executemany("DELETE FROM page WHERE origin = ?", [(origin,) for origin in unit.origins_dropped])
            db.executemany("INSERT OR REPLACE INTO page VALUES (?, ?, ?)", unit.pages)

    def kept(self) -> list[tuple[int, bytes | None, int, int]]:
        """(id, held for, expiry, bytes) of everything kept, oldest first."""
        with _translated("read what was kept"):
            return list(self._db.execute("SELECT id, held_for, expires_ms, length(batch) FROM kept ORDER BY id"))

    def load(self, number: int) -> EncodedBatch:
        """The messages of one row."""
        with _translated("read a batch"):
            row = self._db.execute("SELECT batch FROM kept WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise StoreError(f"links: no row {number}")
        return batch_from_pb(Batch.FromString(row[0]))

    def pages(self) -> list[bytes]:
        """Every page, as it was put."""
        with _translated("read pages"):
            return [row[0] for row in self._db.execute("SELECT data FROM page")]

    def seen(self, since_ms: int) -> Iterable[tuple[int, int, bytes]]:
        """Segments of the duplicate guard."""
        with _translated("read seen keys"):
            return list(
                self._db.execute("SELECT seq, at_ms, keys FROM seen WHERE at_ms >= ? ORDER BY seq", (since_ms,))
            )

    def seen_keys(self, segment: int) -> bytes:
        """One segment."""
        with _translated("read seen keys"):
            row = self._db.execute("SELECT keys FROM seen WHERE seq = ?", (segment,)).fetchone()
        return bytes(row[0]) if row else b""

    def reserved(self) -> int:
        """Numbers up to this one may have been used."""
        row = self._db.execute("SELECT value FROM meta WHERE key = 'numbers'").fetchone()
        return int(row[0]) if row else 0

    def reserve(self, upto: int) -> None:
        """From now on numbers up to this one may be used."""
        with self._transaction("reserve numbers") as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('numbers', ?)", (upto,))


class Numbers:
    """Rising numbers that never come again, not even after a crash."""

    def __init__(self, store: LinkStore) -> None:
        self._store = store
        self._last = self._reserved = store.reserved()
        self._lock = threading.RLock()

    @property
    def last(self) -> int:
        """The highest number that may have been used."""
        return self._last

    def next(self, above: int = 0) -> int:
        """A number higher than all before, and than ``above``."""
        with self._lock:
            self.used(max(self._last, above) + 1)
            return self._last

    def used(self, number: int) -> None:
        """A number is about to be used; it is durable when this returns."""
        with self._lock:
            if number > self._reserved:
                self._store.reserve(number + _RESERVE)
                self._reserved = number + _RESERVE
            self._last = max(self._last, number)


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The router's own signing key, made at the first start; its id in the overlay is derived from it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        data = path.read_bytes()
        if len(data) != 32:
            raise ConfigError(f"{path}: a signing key has 32 bytes, not {len(data)}") from None
        return Ed25519PrivateKey.from_private_bytes(data)
    key = Ed25519PrivateKey.generate()
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes_raw())
        file.flush()
        os.fsync(file.fileno())
    return key
