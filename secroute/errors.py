"""One error tree for the whole product.

Every error has a stable ``code`` (for programs, logs and the wire) and a message for people that says what was wrong,
where, and what would be right. No message ever carries a secret. Both sides of the trust line use this module.
"""

from __future__ import annotations

import traceback
from typing import ClassVar


def place_of(error: BaseException) -> str:
    """Where in the code an error arose: what a log may say of an error whose own text may carry a secret."""
    return "".join(traceback.format_tb(error.__traceback__)[-3:])


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


class SealHeaderError(SealError):
    """A sealed payload stands under another message's header (scope, id or bits)."""

    code = "seal-header"


class SealLimitError(SealError):
    """A sealing session has used up its nonces; a new session (a fresh salt) is needed."""

    code = "seal-limit"


class ReplayError(SealError):
    """A payload that was already opened came again."""

    code = "replay"


class ReplayWindowError(ReplayError):
    """A payload is too old for the replay window to tell whether it came before."""

    code = "replay-window"


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


class KeyringDamagedError(KeyringError):
    """A key file or grant is truncated, altered, or holds something other than it says."""

    code = "keyring-damaged"


class EpochError(KeyringError):
    """No epoch of the keyring may be used for this at this time."""

    code = "epoch"


class GrantRecipientError(GrantError):
    """A grant was sealed to somebody else."""

    code = "grant-recipient"


class GrantSignatureError(GrantError):
    """A grant is not signed by the space's owner, or not by the owner we pinned."""

    code = "grant-signature"


class GrantRollbackError(GrantError):
    """A grant is not newer than the one already accepted."""

    code = "grant-rollback"


class GrantExpiredError(GrantError):
    """A grant is outside its validity."""

    code = "grant-expired"


# --- opaque, engine ----------------------------------------------------------------------------------------------


class OpaqueError(InputError):
    """Encoded data has the wrong shape, type or scope."""

    code = "opaque"


class EngineError(SecrouteError):
    """The forwarding engine was used wrongly or cannot run here."""

    code = "engine"


# --- wire, router ------------------------------------------------------------------------------------------------


class WireError(InputError):
    """A frame is malformed: a column has the wrong length, a field is missing or out of bounds."""

    code = "wire"


class VersionError(WireError):
    """The two sides share no protocol version."""

    code = "version"


class ProtocolError(WireError):
    """A well-formed frame that is not allowed at this point of the session."""

    code = "protocol"


class FlowError(ProtocolError):
    """The other side sent more than its window allows."""

    code = "flow"


class ForbiddenError(SecrouteError):
    """The certificate's name has no right to do this."""

    code = "forbidden"


class QuotaError(SecrouteError):
    """A quota of the router's configuration is used up."""

    code = "quota"


class DrainingError(SecrouteError):
    """The router is about to stop and takes nothing new."""

    code = "draining"


class DurableError(SecrouteError):
    """A durable subscription does not exist, belongs to somebody else, or cannot be used like this."""

    code = "durable"


class ConfigError(InputError):
    """A router's configuration is not valid; says which key and what would be right."""

    code = "config"


class StoreError(SecrouteError):
    """The durable store cannot be used (damaged, of another version, or the disk fails)."""

    code = "store"


class StoreFullError(StoreError):
    """There is no room left; nothing of the batch was taken, it may be sent again later."""

    code = "store-full"


class QueueFullError(SecrouteError):
    """A durable subscription's queue is full and its policy is to refuse; nothing of the batch was taken."""

    code = "queue-full"


# --- overlay -----------------------------------------------------------------------------------------------------


class OverlayError(InputError):
    """A topology, a link state or an advertisement is not valid; says which and what would be right."""

    code = "overlay"


class LinkStateError(OverlayError):
    """A link state is damaged, not signed by its router, or out of place; nothing of it was taken."""

    code = "link-state"


# --- client ------------------------------------------------------------------------------------------------------


class ClientError(SecrouteError):
    """The client cannot do what was asked."""

    code = "client"


class ConnectError(ClientError):
    """No router could be reached, or none let us in."""

    code = "connect"


class ConnectionLostError(ClientError):
    """The connection broke before the answer came; what was asked may or may not have happened."""

    code = "connection-lost"


class RefusedError(ClientError):
    """A router refused a request; ``reason`` is the router's own code."""

    code = "refused"

    def __init__(self, reason: str, message: str, retryable: bool = False) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.retryable = retryable


class PublishTimeoutError(ClientError):
    """No result within the time allowed; the message may or may not have been taken."""

    code = "publish-timeout"


class GapError(ClientError):
    """Messages for a durable subscription were not kept; ``gap`` tells how many and when."""

    code = "gap"

    def __init__(self, message: str, gap: object) -> None:
        super().__init__(message)
        self.gap = gap


# --- audit -------------------------------------------------------------------------------------------------------


class AuditError(SecrouteError):
    """An audit cannot run or go on: no Java, a folder of another run, too many bad records."""

    code = "audit"


class FalseNegativeError(AuditError):
    """The law was broken: an exact match that the encoded filters miss."""

    code = "false-negative"
