"""Key files: versioned, mode 0600, written whole or not at all, never overwritten silently, locked, optionally sealed.

TRUSTED side, I/O. A file is a JSON envelope with a checksum over everything (damage is told apart from a wrong
passphrase) around a body that is plain or sealed with scrypt and ChaCha20-Poly1305. Without a passphrase the checksum
finds accidents only: who may write the file may also write another checksum.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from secroute import limits
from secroute.encoding.derivation import KeyHandle
from secroute.errors import KeyringDamagedError, KeyringError, LimitError, PassphraseError
from secroute.keyring.records import Record, blob, canonical

FORMAT = "secroute-keys"
VERSION = 1
DEFAULT_LOG2_N = 17  # 128 MiB and a few tenths of a second per guess
_SCRYPT_R = 8
_SCRYPT_P = 1
_SALT_BYTES = 16
_NONCE_BYTES = 12

Passphrase = bytes | Callable[[], bytes] | None
"""The passphrase, or what asks for it (called only if the file is sealed), or None."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Protection(KeyHandle):
    """How a file is sealed; remembered by a loaded keyring so that an update seals it the same way."""

    passphrase: bytes
    log2_n: int = DEFAULT_LOG2_N

    def __post_init__(self) -> None:
        if not 0 < len(self.passphrase) <= limits.PASSPHRASE_BYTES_MAX:
            raise PassphraseError(f"a passphrase has 1..{limits.PASSPHRASE_BYTES_MAX} bytes")
        if not limits.SCRYPT_LOG2_N_MIN <= self.log2_n <= limits.SCRYPT_LOG2_N_MAX:
            raise PassphraseError(f"scrypt cost 2^{self.log2_n} is outside {limits.SCRYPT_LOG2_N_MIN}..20")

    def aead(self, salt: bytes) -> ChaCha20Poly1305:
        """The cipher under the passphrase and this salt."""
        scrypt = Scrypt(salt=salt, length=32, n=1 << self.log2_n, r=_SCRYPT_R, p=_SCRYPT_P)
        return ChaCha20Poly1305(scrypt.derive(self.passphrase))


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class KeyFile(KeyHandle):
    """The content of a key file."""

    kind: str
    body: bytes
    protection: Protection | None


def encode(file: KeyFile, *, random_bytes: Callable[[int], bytes] = os.urandom) -> bytes:
    """The file's bytes."""
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "kind": file.kind, "seal": None}
    body = file.body
    if file.protection is not None:
        salt = random_bytes(_SALT_BYTES)
        nonce = random_bytes(_NONCE_BYTES)
        head["seal"] = {"kdf": "scrypt", "log2_n": file.protection.log2_n, "salt": blob(salt)}
        body = nonce + file.protection.aead(salt).encrypt(nonce, body, canonical(head))
    envelope = head | {"body": blob(body)}
    envelope["sha256"] = hashlib.sha256(canonical(envelope)).hexdigest()
    data = canonical(envelope) + b"\n"
    if len(data) > limits.KEY_FILE_BYTES_MAX:  # refused now, not when it is read again
        raise LimitError(f"a key file has at most {limits.KEY_FILE_BYTES_MAX} bytes; forget ended epochs")
    return data


def decode(data: bytes, where: str, passphrase: Passphrase = None) -> KeyFile:
    """Check and open a file's bytes."""
    record = Record.parse(data, where)
    if record.text("format", 64) != FORMAT:
        raise KeyringDamagedError(f"{where}: not a secroute key file")
    version = record.number("version", 0, 2**31)
    if version != VERSION:
        raise KeyringError(f"{where}: key file of version {version}; this release reads version {VERSION}")
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "kind": record.text("kind", 32), "seal": None}
    seal = record.record("seal")
    salt, log2_n = b"", 0
    if seal is not None:
        if seal.text("kdf", 32) != "scrypt":
            raise KeyringError(f"{where}: sealed in a way this release does not know")
        log2_n = seal.number("log2_n", limits.SCRYPT_LOG2_N_MIN, limits.SCRYPT_LOG2_N_MAX)
        salt = seal.blob("salt", _SALT_BYTES)
        seal.done()
        head["seal"] = {"kdf": "scrypt", "log2_n": log2_n, "salt": blob(salt)}
    body = record.blob("body", bytes_max=limits.KEY_FILE_BYTES_MAX)
    digest = record.text("sha256", 64)
    record.done()
    if hashlib.sha256(canonical(head | {"body": blob(body)})).hexdigest() != digest:
        raise KeyringDamagedError(f"{where}: damaged or altered: its checksum is wrong; restore it from a backup")
    if seal is None:
        return KeyFile(head["kind"], body, None)
    if callable(passphrase):
        passphrase = passphrase()
    if passphrase is None:
        raise PassphraseError(f"{where}: sealed with a passphrase and none was given")
    protection = Protection(passphrase, log2_n)
    try:
        plain = protection.aead(salt).decrypt(body[:_NONCE_BYTES], body[_NONCE_BYTES:], canonical(head))
    except (InvalidTag, ValueError):
        raise PassphraseError(f"{where}: wrong passphrase") from None
    return KeyFile(head["kind"], plain, protection)


def read(path: str | os.PathLike[str], passphrase: Passphrase = None) -> KeyFile:
    """Load a key file; one that others may read is refused, as its secrets must be taken for lost."""
    where = Path(path)
    return decode(read_bytes(where, limits.KEY_FILE_BYTES_MAX, private=True), str(where), passphrase)


def read_bytes(path: Path, bytes_max: int, *, private: bool) -> bytes:
    """A bounded read; ``private`` also refuses regular files that group or others may touch."""
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            if private and stat.S_ISREG(status.st_mode) and status.st_mode & 0o077:
                mode = stat.S_IMODE(status.st_mode)
                raise KeyringError(
                    f"{path}: mode {mode:04o} lets others at it; chmod 600 it (and think about rotating)"
                )
            data = stream.read(bytes_max + 1)
    except FileNotFoundError:
        raise KeyringError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise KeyringError(f"{path}: is a directory") from None
    if len(data) > bytes_max:
        raise KeyringDamagedError(f"{path}: over {bytes_max} bytes")
    return data


def create(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """Write a new file whole, or not at all; an existing one is never touched."""
    where = Path(path)
    refuse_existing(where)
    with _temporary(where, data, mode) as temporary:
        try:
            os.link(temporary, where)
        except FileExistsError:
            raise KeyringError(f"{where}: exists; key files are never overwritten") from None
    _sync_directory(where.parent)


def replace(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a new state in place of a key file; the caller holds its lock and has read the state it replaces."""
    where = Path(path).resolve()
    with _temporary(where, data, 0o600) as temporary:
        temporary.replace(where)
    _sync_directory(where.parent)


def refuse_existing(*paths: Path) -> None:
    """Raise if any of the paths is taken, before anything is written."""
    for path in paths:
        if path.exists() or path.is_symlink():
            raise KeyringError(f"{path}: exists; key files are never overwritten")
        if not path.parent.is_dir():
            raise KeyringError(f"{path}: there is no directory {path.parent}")


@contextlib.contextmanager
def locked(path: str | os.PathLike[str], wait_s: float = limits.KEY_FILE_LOCK_WAIT_S) -> Iterator[None]:
    """Hold the file's lock (a sidecar that stays in place: removing it would let two writers in)."""
    # Through links to the file itself: two names of one keyring must not become two keyrings.
    where = Path(path).resolve()
    sidecar = where.with_name(f".{where.name}.lock")
    if not where.exists():
        raise KeyringError(f"{where}: no such file")
    descriptor = os.open(sidecar, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise KeyringError(f"{where}: another process is changing it; try again") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _temporary(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    temporary = path.with_name(f".{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def body_record(file: KeyFile, where: str) -> Record:
    """The record inside an opened key file."""
    return Record.parse(file.body, where)


def key_file(kind: str, body: Mapping[str, Any], protection: Protection | None) -> KeyFile:
    """A key file around a record."""
    return KeyFile(kind, canonical(body), protection)
