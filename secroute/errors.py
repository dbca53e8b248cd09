"""One error tree for the whole product.

Every error has a stable ``code`` (for programs, logs and the wire) and a message for people that says what was wrong,
where, and what would be right. No message ever carries a secret. Both sides of the trust line use this module.
"""

from __future__ import annotations

from typing import ClassVar


class SecrouteError(Exception):
    """Root of every error that secroute raises on purpose."""

    code: ClassVar[str] = "secroute"


# --- content -----------------------------------------------------------------------------------------------------


class InputError(SecrouteError):
    """A value handed to us is wrong in itself; the caller can fix it."""

    code = "input"


class LimitError(InputError):
    """A bound named in ``secroute.limits`` was exceeded."""

    code = "limit"


class SelectorError(InputError):
    """A selector does not parse or is not allowed; knows where."""

    code = "selector"

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(f"selector:{line}:{column}: {message}")
        self.line = line
        self.column = column


class FileFormatError(InputError):
    """A file does not hold what it should; knows the file and, where it has lines or rows, which one."""

    code = "file-format"

    def __init__(self, path: object, message: str, line: int | None = None) -> None:
        where = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{where}: {message}")
        self.line = line


# --- encoding ----------------------------------------------------------------------------------------------------


class SchemaError(InputError):
    """A schema file or object is not valid."""

    code = "schema"


class ProfileError(InputError):
    """An encoding profile is not valid."""

    code = "profile"


class ProfileMismatchError(SecrouteError):
    """Two sides speak different encoding profiles (or spaces, or epochs); they would be silently deaf to each other."""

    code = "profile-mismatch"


class HardeningError(SecrouteError):
    """A hardening transform is unknown, badly parametrised, or breaks the law of no false negatives."""

    code = "hardening"


class EmptyFilterError(InputError):
    """A filter without bits would match everything; that needs an explicit ``match_all``."""

    code = "empty-filter"


class SealError(SecrouteError):
    """A sealed payload does not open: wrong key, wrong header, or changed on the way."""

    code = "seal"


# --- keyring -----------------------------------------------------------------------------------------------------


class KeyringError(SecrouteError):
    """A keyring, key file or identity cannot be used."""

    code = "keyring"


class PassphraseError(KeyringError):
    """The passphrase is missing or wrong."""

    code = "passphrase"


class GrantError(KeyringError):
    """A grant is not for us, not by the owner we pinned, out of date, or damaged."""

    code = "grant"


# --- opaque, engine ----------------------------------------------------------------------------------------------


class OpaqueError(InputError):
    """Encoded data has the wrong shape, type or scope."""

    code = "opaque"


class EngineError(SecrouteError):
    """The forwarding engine was used wrongly or cannot run here."""

    code = "engine"
