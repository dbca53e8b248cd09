"""What every keyring offers to a client, and how keyrings are loaded, created and changed on disk.

TRUSTED side, I/O. Two kinds: an owner's keyring can grant, a member's holds what it was granted; a client loads
either with ``Keyring.load`` and does not care which it is. One keyring serves one space.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

from secroute import limits
from secroute.encoding.derivation import KeyHandle
from secroute.errors import EpochError, KeyringDamagedError, KeyringError
from secroute.keyring import files
from secroute.keyring.epochs import EpochKeys, Timeline, Window
from secroute.keyring.files import KeyFile, Passphrase, Protection
from secroute.keyring.identity import Identity
from secroute.keyring.records import Record

StatKey = tuple[int, int, int]
_WHOSE = {"owner": "an owner", "member": "a member"}


class Keyring(KeyHandle, ABC):
    """The keys of one space in one pair of hands."""

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Keyring]]] = {}

    space: bytes
    """The space's visible id."""
    name: str
    """The space's name; it never crosses the trust line."""
    identity: Identity
    timeline: Timeline

    def __init_subclass__(cls) -> None:
        Keyring._kinds[cls.kind] = cls

    def __init__(self) -> None:
        self._path: Path | None = None
        self._protection: Protection | None = None
        self._stat: StatKey | None = None

    # --- what clients use ---------------------------------------------------------------------------------------

    def publishing(self, now: float) -> EpochKeys:
        """The epoch to publish under at ``now``."""
        self.require_valid(now)
        return self.timeline.publishing(now)

    def subscribing(self, now: float) -> tuple[EpochKeys, ...]:
        """The epochs to hold filters under at ``now``: two or more during an overlap."""
        self.require_valid(now)
        return self.timeline.subscribing(now)

    def epoch(self, number: int) -> EpochKeys:
        """Any epoch that is held, for opening what was sealed under it."""
        return self.timeline.epoch(number)

    def window(self, number: int) -> Window:
        """When an epoch serves."""
        return self.timeline.window(number)

    def ended(self, now: float) -> tuple[EpochKeys, ...]:
        """Epochs whose window is over."""
        return self.timeline.ended(now)

    def forget(self, number: int, now: float) -> None:
        """Drop a drained epoch's keys; one that still serves is refused."""
        if number not in {epoch.number for epoch in self.ended(now)}:
            self.epoch(number)
            raise EpochError(f"epoch {number} still serves; only an ended epoch can be forgotten")
        self.timeline = Timeline(epoch for epoch in self.timeline.epochs if epoch.number != number)

    @abstractmethod
    def require_valid(self, now: float) -> None:
        """Raise if these keys may not be used for new work at ``now``."""

    # --- files --------------------------------------------------------------------------------------------------

    @abstractmethod
    def to_record(self) -> dict[str, Any]:
        """For key files only: this shows every secret."""

    @classmethod
    @abstractmethod
    def from_record(cls, record: Record) -> Self:
        """The keyring of a key file."""

    @classmethod
    def load(cls, path: str | os.PathLike[str], passphrase: Passphrase = None) -> Self:
        """Load a keyring of this kind (of any kind: ``Keyring.load``)."""
        where = Path(path)
        stat_key = _stat_key(where)
        file = files.read(where, passphrase)
        kind = Keyring._kinds.get(file.kind)
        if kind is None:
            raise KeyringError(f"{where}: holds {file.kind}, not a keyring")
        if not issubclass(kind, cls):
            raise KeyringError(f"{where}: is the keyring of {_WHOSE[file.kind]}; this needs that of {_WHOSE[cls.kind]}")
        keyring = kind.from_record(files.body_record(file, str(where)))
        keyring._path, keyring._protection, keyring._stat = where, file.protection, stat_key
        return keyring

    def create(
        self, path: str | os.PathLike[str], passphrase: bytes | None = None, log2_n: int = files.DEFAULT_LOG2_N
    ) -> None:
        """Write to a new file (also: a backup under a passphrase of its own); never over an existing one."""
        protection = None if passphrase is None else Protection(passphrase, log2_n)
        files.refuse_existing(Path(path))
        files.create(path, files.encode(self._key_file(protection)))

    def _key_file(self, protection: Protection | None) -> KeyFile:
        """What is written, after it was read back: a state that cannot be loaded must never replace one that can."""
        file = files.key_file(self.kind, self.to_record(), protection)
        type(self).from_record(files.body_record(file, "keyring"))
        return file

    @classmethod
    @contextlib.contextmanager
    def edit(cls, path: str | os.PathLike[str], passphrase: Passphrase = None) -> Iterator[Self]:
        """Load under the file's lock, let the caller change, and put the new state in place; on an error, nothing."""
        with files.locked(path):
            keyring = cls.load(path, passphrase)
            yield keyring
            files.replace(path, files.encode(keyring._key_file(keyring._protection)))

    def reloaded(self) -> Self:
        """The keyring as the file has it now; ``self`` if the file has not changed since it was loaded."""
        if self._path is None:
            return self
        if _stat_key(self._path) == self._stat:
            return self
        passphrase = self._protection.passphrase if self._protection else None
        return type(self).load(self._path, passphrase)

    def __repr__(self) -> str:
        numbers = ",".join(str(epoch.number) for epoch in self.timeline.epochs)
        return f"<{type(self).__name__} space={self.space.hex()} epochs={numbers or '-'}>"


def _stat_key(path: Path) -> StatKey | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def read_timeline(record: Record, space: bytes, durable_secret: bytes) -> Timeline:
    """The epochs of a key file."""
    entries = record.records("epochs", limits.KEYRING_EPOCHS_MAX)
    epochs = [EpochKeys.from_record(entry, space, durable_secret) for entry in entries]
    timeline = Timeline(epochs)
    if len(timeline) != len(epochs):
        raise KeyringDamagedError("keyring: an epoch is there twice")
    return timeline
