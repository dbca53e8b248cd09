"""The durable store: one SQLite file in WAL mode, one transaction per group of batches. UNTRUSTED side, I/O.

Work is per batch, never per message: a stored batch is one row (columns as on the wire, and who gets which rows), a
subscription's progress is one small row, the duplicate guard's keys of a batch are one row. Calls may come from any
thread, one at a time. A full or failing disk raises, after a rollback: nothing of that transaction was taken. SQLite
checks its own structure but not what is inside a blob, so every blob has a checksum: a flipped bit in a stored filter
would lose messages silently.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from secroute import limits
from secroute.errors import StoreError, StoreFullError
from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.router.durable_queue import Cursor
from secroute.router.stored import (
    BatchRow,
    DurableRow,
    GapRow,
    Route,
    decode_cursor,
    decode_routes,
    encode_cursor,
    encode_routes,
)
from secroute.wire._generated.opaque_pb2 import Batch
from secroute.wire.columns import batch_from_pb, batch_to_pb
from secroute.wire.frames import GapReason

FORMAT = 2
PAGE_BYTES = (
    32_768  # blobs of a batch span many pages; big ones cost less per byte (measured: 4 KiB takes twice the CPU)
)
_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE durable(id INTEGER PRIMARY KEY, owner TEXT NOT NULL, name BLOB NOT NULL, space BLOB NOT NULL,
    shared INTEGER NOT NULL, ack_timeout_ms INTEGER NOT NULL, tries_max INTEGER NOT NULL, UNIQUE(owner, name));
CREATE TABLE filters(durable INTEGER NOT NULL, epoch INTEGER NOT NULL, profile BLOB NOT NULL, words INTEGER NOT NULL,
    bits BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(durable, epoch)) WITHOUT ROWID;
CREATE TABLE cursor(durable INTEGER PRIMARY KEY, state BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE batch(seq INTEGER PRIMARY KEY, crc INTEGER NOT NULL, routes BLOB NOT NULL, expires BLOB,
    columns BLOB NOT NULL);
CREATE TABLE seen(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, keys BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE pin(space BLOB NOT NULL, epoch INTEGER NOT NULL, profile BLOB NOT NULL, words INTEGER NOT NULL,
    PRIMARY KEY(space, epoch)) WITHOUT ROWID;
CREATE TABLE gap(id INTEGER PRIMARY KEY, durable INTEGER NOT NULL, reason INTEGER NOT NULL, space BLOB NOT NULL,
    epoch INTEGER NOT NULL, messages INTEGER NOT NULL, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL);
"""


@dataclass(slots=True)
class Unit:
    """Everything that one transaction commits."""

    batches: list[BatchRow] = field(default_factory=list)
    seen: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(number, unix ms, keys) of accepted at-least-once messages."""
    forget_seen_before: int = 0
    cursors: dict[int, Cursor] = field(default_factory=dict)
    finished: list[int] = field(default_factory=list)
    gaps: list[GapRow] = field(default_factory=list)
    gaps_noted: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.batches or self.seen or self.cursors or self.finished or self.gaps or self.gaps_noted
            or self.forget_seen_before
        )  # fmt: skip


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        # Only the result code: SQLite's own text may name files, never content, but the code is what operators search.
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        if code in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
            raise StoreFullError(
                f"store: no room to {what} ({code}); free some space, nothing of it was taken"
            ) from None
        raise StoreError(f"store: cannot {what} ({code}: {error})") from None


class Store:
    """The open store. A lock lets one thread in at a time."""

    def __init__(self, path: Path, *, sync: str = "full", bytes_max: int = 0) -> None:
        """Open or create; raises ``StoreError`` if it is in use, damaged, or of another format."""
        self._path = path
        self._mutex = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"store: {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise StoreError(f"store: {path} is in use by another router") from None
        try:
            with _translated("open it"):
                self._db = self._open(sync, bytes_max)
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, sync: str, bytes_max: int) -> sqlite3.Connection:
        new = not self._path.exists() or self._path.stat().st_size == 0
        if new:
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=64)
        db.execute(f"PRAGMA page_size={PAGE_BYTES}")
        db.execute("PRAGMA locking_mode=EXCLUSIVE")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={sync}")
        db.execute(f"PRAGMA wal_autocheckpoint={32 * 1_048_576 // PAGE_BYTES}")
        db.execute("PRAGMA cache_size=-16384")
        if bytes_max:
            db.execute(f"PRAGMA max_page_count={max(16, bytes_max // PAGE_BYTES)}")
        if new or not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            router_id = secrets.token_bytes(limits.ROUTER_ID_BYTES)
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version={FORMAT}; COMMIT;")
            db.execute("INSERT INTO meta VALUES('router_id', ?), ('clean', x'01')", (router_id,))
        self._check(db)
        return db

    def _check(self, db: sqlite3.Connection) -> None:
        found = db.execute("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            raise StoreError(f"store: {self._path} has format {found}, this router reads {FORMAT}")
        verdict = [row[0] for row in db.execute("PRAGMA integrity_check(3)")]
        if verdict != ["ok"]:
            raise StoreError(f"store: {self._path} is damaged ({len(verdict)} findings); restore it or move it away")

    def close(self, clean: bool = True) -> None:
        """Close; ``clean`` says that every cursor is written, so that nothing needs to be marked as redelivered."""
        with suppress(sqlite3.Error):
            if clean:
                self._db.execute("INSERT OR REPLACE INTO meta VALUES('clean', x'01')")
        self._db.close()
        os.close(self._lock)

    # --- what is there at start --------------------------------------------------------------------------------------

    def router_id(self) -> bytes:
        """This router's id, random, made with the store."""
        with _translated("read its id"):
            return bytes(self._db.execute("SELECT value FROM meta WHERE key='router_id'").fetchone()[0])

    def begin_life(self) -> bool:
        """Note that a process uses the store; true if the last one closed it cleanly."""
        with _translated("start"):
            clean = self._db.execute("SELECT value FROM meta WHERE key='clean'").fetchone()[0] == b"\x01"
            self._db.execute("INSERT OR REPLACE INTO meta VALUES('clean', x'00')")
        return bool(clean)

    def durables(self) -> list[DurableRow]:
        """Every durable subscription with its filters, progress and gaps."""
        rows = []
        with _translated("read durable subscriptions"):
            for number, *rest in self._db.execute("SELECT * FROM durable ORDER BY id").fetchall():
                owner, name, space, shared, ack_timeout_ms, tries_max = rest
                query = "SELECT epoch, profile, words, bits, crc FROM filters WHERE durable=?"
                parts = tuple(
                    EncodedFilters(
                        Scope(space, epoch, _checked(profile, crc >> 32, "the profile of a filter")),
                        np.frombuffer(_checked(bits, crc, "a filter"), "<u8").reshape(-1, words),
                    )
                    for epoch, profile, words, bits, crc in self._db.execute(query, (number,)).fetchall()
                )
                state = self._db.execute("SELECT state, crc FROM cursor WHERE durable=?", (number,)).fetchone()
                cursor = (
                    decode_cursor(_checked(state[0], state[1], "the progress of a subscription")) if state else Cursor()
                )
                gaps = tuple(self._gaps(number))
                rows.append(
                    DurableRow(number, owner, name, space, bool(shared), ack_timeout_ms, tries_max, parts, cursor, gaps)
                )
        return rows

    def _gaps(self, durable: int) -> Iterator[GapRow]:
        query = (
            "SELECT id, durable, reason, space, epoch, messages, first_ms, last_ms FROM gap WHERE durable=? ORDER BY id"
        )
        for number, owner, reason, *rest in self._db.execute(query, (durable,)).fetchall():
            yield GapRow(number, owner, GapReason(reason), *rest)

    def batches(self) -> Iterator[tuple[int, int, list[Route], bytes | None]]:
        """(number, bytes, routes, expiry column) of every stored batch, oldest first."""
        with _translated("read batches"):
            query = "SELECT seq, length(columns), routes, expires, crc FROM batch ORDER BY seq"
            for seq, size, routes, expires, crc in self._db.execute(query):
                _checked(routes + (expires or b""), crc >> 32, f"who gets batch {seq}")
                yield seq, size, decode_routes(routes), expires

    def seen(self, since_ms: int) -> Iterator[tuple[int, int, bytes]]:
        """(number, unix ms, keys) of the duplicate guard, oldest first; older ones are deleted."""
        with _translated("read the duplicate guard"):
            self._db.execute("DELETE FROM seen WHERE at_ms < ?", (since_ms,))
            query = "SELECT seq, at_ms, keys, crc FROM seen WHERE at_ms >= ? ORDER BY seq"
            for seq, at_ms, keys, crc in self._db.execute(query, (since_ms,)):
                yield seq, at_ms, _checked(keys, crc, "the duplicate guard")

    def seen_keys(self, seq: int) -> bytes:
        """The keys of one segment of the duplicate guard."""
        with self._mutex, _translated("read the duplicate guard"):
            row = self._db.execute("SELECT keys FROM seen WHERE seq=?", (seq,)).fetchone()
        return bytes(row[0]) if row else b""

    def pins(self) -> list[tuple[Scope, int]]:
        """Every (scope, words) pinned so far."""
        with _translated("read pins"):
            rows = self._db.execute("SELECT space, epoch, profile, words FROM pin").fetchall()
        return [(Scope(space, epoch, profile), words) for space, epoch, profile, words in rows]

    @property
    def nbytes(self) -> int:
        """Bytes of the store's files."""
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    # --- changes -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, what: str) -> Iterator[sqlite3.Connection]:
        with self._mutex, _translated(what):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def commit(self, unit: Unit) -> None:
        """Commit a unit; on an error nothing of it is there."""
        with self._transaction("commit a batch") as db:
            for row in unit.batches:
                columns = batch_to_pb(row.batch).SerializeToString()
                routes = encode_routes(row.routes)
                crc = _two_sums(routes + (row.expires_ms or b""), columns)
                db.execute("INSERT INTO batch VALUES(?,?,?,?,?)", (row.seq, crc, routes, row.expires_ms, columns))
            seen = [(seq, at_ms, keys, zlib.crc32(keys)) for seq, at_ms, keys in unit.seen]
            db.executemany("INSERT INTO seen VALUES(?,?,?,?)", seen)
            if unit.forget_seen_before:
                db.execute("DELETE FROM seen WHERE seq < ?", (unit.forget_seen_before,))
            states = [_cursor_row(number, cursor) for number, cursor in unit.cursors.items()]
            db.executemany("INSERT OR REPLACE INTO cursor VALUES(?,?,?)", states)
            db.executemany("DELETE FROM batch WHERE seq=?", [(seq,) for seq in unit.finished])
            for gap in unit.gaps:
                numbers = (gap.messages, gap.first_ms, gap.last_ms)
                values = (gap.number, gap.durable, int(gap.reason), gap.space, gap.epoch, *numbers)
                db.execute("INSERT OR REPLACE INTO gap VALUES(?,?,?,?,?,?,?,?)", values)
            db.executemany("DELETE FROM gap WHERE id=?", [(number,) for number in unit.gaps_noted])

    def load(self, seqs: Sequence[int]) -> dict[int, EncodedBatch]:
        """The columns of stored batches."""
        found = {}
        for seq in seqs:
            with self._mutex, _translated("read a batch"):
                row = self._db.execute("SELECT columns, crc FROM batch WHERE seq=?", (seq,)).fetchone()
            if row is None:
                raise StoreError(f"store: batch {seq} is missing")
            found[seq] = batch_from_pb(Batch.FromString(_checked(row[0], row[1], f"batch {seq}")))
        return found

    def put_durable(self, row: DurableRow) -> None:
        """Insert or change a durable subscription and its filters."""
        with self._transaction("keep a durable subscription") as db:
            values = (row.number, row.owner, row.name, row.space, row.shared, row.ack_timeout_ms, row.tries_max)
            db.execute("INSERT OR REPLACE INTO durable VALUES(?,?,?,?,?,?,?)", values)
            db.execute("DELETE FROM filters WHERE durable=?", (row.number,))
            db.executemany(
                "INSERT INTO filters VALUES(?,?,?,?,?,?)", [_filter_row(row.number, part) for part in row.filters]
            )
            db.execute("INSERT OR IGNORE INTO cursor VALUES(?,?,?)", _cursor_row(row.number, row.cursor))

    def drop_durable(self, number: int) -> None:
        """Delete a durable subscription; its batches go with the next commit."""
        with self._transaction("delete a durable subscription") as db:
            for table, column in (("durable", "id"), ("filters", "durable"), ("cursor", "durable"), ("gap", "durable")):
                db.execute(f"DELETE FROM {table} WHERE {column}=?", (number,))  # noqa: S608 - our own names

    def put_pin(self, scope: Scope, words: int) -> None:
        """Remember the profile of a (space, epoch)."""
        with self._transaction("pin a profile") as db:
            db.execute("INSERT OR REPLACE INTO pin VALUES(?,?,?,?)", (scope.space, scope.epoch, scope.profile, words))

    def drop_pin(self, scope: Scope) -> None:
        """Forget an epoch."""
        with self._transaction("forget an epoch") as db:
            db.execute("DELETE FROM pin WHERE space=? AND epoch=?", (scope.space, scope.epoch))


def _checked(blob: bytes, crc: int, what: str) -> bytes:
    """The blob, if its checksum (the low 32 bits of ``crc``) is right; else raise."""
    if zlib.crc32(blob) != crc & 0xFFFFFFFF:
        raise StoreError(f"store: {what} is damaged; restore the store or move it away")
    return blob


def _two_sums(high: bytes, low: bytes) -> int:
    """Two checksums in one of SQLite's integers, which are signed."""
    number = zlib.crc32(high) << 32 | zlib.crc32(low)
    return number - (1 << 64) if number >= 1 << 63 else number


def _filter_row(durable: int, part: EncodedFilters) -> tuple[int, int, bytes, int, bytes, int]:
    scope, bits = part.scope, part.bits.tobytes()
    return durable, scope.epoch, scope.profile, part.bits.shape[1], bits, _two_sums(scope.profile, bits)


def _cursor_row(durable: int, cursor: Cursor) -> tuple[int, bytes, int]:
    state = encode_cursor(cursor)
    return durable, state, zlib.crc32(state)
