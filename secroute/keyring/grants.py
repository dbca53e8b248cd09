"""Grants: an owner hands epochs of a space to one member.

TRUSTED side; the clock comes as an argument, HPKE draws its own ephemeral key. A grant is a clear header (space,
owner, recipient, sequence, validity, epochs with their profile digests), the secrets HPKE-sealed to the recipient with
that header as HPKE's info, and the owner's Ed25519 signature over both. Everything is checked before anything is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from secroute import limits
from secroute.encoding.derivation import KeyHandle, frame
from secroute.errors import (
    GrantError,
    GrantExpiredError,
    GrantRecipientError,
    GrantRollbackError,
    GrantSignatureError,
    KeyringDamagedError,
)
from secroute.keyring.epochs import TIME_S_MAX, EpochKeys
from secroute.keyring.identity import Identity, PublicIdentity
from secroute.keyring.records import Record, blob, canonical, check_name

FORMAT = "secroute-grant"
VERSION = 1
_SEQUENCE_MAX = 2**53
_INFO_DOMAIN = b"secroute/v1/grant-seal"
_SIGNATURE_DOMAIN = b"secroute/v1/grant-signature"
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


@dataclass(frozen=True, slots=True)
class GrantHeader:
    """What anyone may read in a grant."""

    space: bytes
    owner: bytes
    recipient: bytes
    """Fingerprint of the recipient's public identity."""
    sequence: int
    """Grows with every grant of the space; a member refuses one that does not."""
    not_before_s: int
    not_after_s: int
    epochs: tuple[tuple[int, bytes], ...]
    """Number and profile digest of each epoch inside."""

    def to_bytes(self) -> bytes:
        """Canonical bytes: what is signed, and HPKE's info."""
        return canonical(
            {
                "space": blob(self.space),
                "owner": blob(self.owner),
                "recipient": blob(self.recipient),
                "sequence": self.sequence,
                "not_before_s": self.not_before_s,
                "not_after_s": self.not_after_s,
                "epochs": [{"number": number, "profile": blob(digest)} for number, digest in self.epochs],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> GrantHeader:
        """The header of its canonical bytes."""
        record = Record.parse(data, "grant header")
        header = cls(
            space=record.blob("space", limits.SPACE_ID_BYTES),
            owner=record.blob("owner", limits.KEY_BYTES),
            recipient=record.blob("recipient", 32),
            sequence=record.number("sequence", 1, _SEQUENCE_MAX),
            not_before_s=record.number("not_before_s", 0, TIME_S_MAX),
            not_after_s=record.number("not_after_s", 0, TIME_S_MAX),
            epochs=tuple(
                (entry.number("number", 0, limits.EPOCH_MAX), entry.blob("profile", limits.PROFILE_DIGEST_BYTES))
                for entry in record.records("epochs", limits.GRANT_EPOCHS_MAX)
            ),
        )
        record.done()
        return header


@dataclass(frozen=True, slots=True, eq=False)
class OpenedGrant(KeyHandle):
    """A grant that passed every check."""

    header: GrantHeader
    name: str
    durable_secret: bytes
    epochs: tuple[EpochKeys, ...]

    def __repr__(self) -> str:
        return f"<OpenedGrant space={self.header.space.hex()} sequence={self.header.sequence}>"


def seal_grant(
    owner_key: Ed25519PrivateKey,
    recipient: PublicIdentity,
    epochs: Sequence[EpochKeys],
    *,
    name: str,
    durable_secret: bytes,
    sequence: int,
    not_before_s: int,
    not_after_s: int,
) -> bytes:
    """The bytes of a grant."""
    if not 0 < len(epochs) <= limits.GRANT_EPOCHS_MAX:
        raise GrantError(f"a grant carries 1..{limits.GRANT_EPOCHS_MAX} epochs, not {len(epochs)}")
    header = GrantHeader(
        space=epochs[0].scope.space,
        owner=owner_key.public_key().public_bytes_raw(),
        recipient=recipient.fingerprint,
        sequence=sequence,
        not_before_s=not_before_s,
        not_after_s=not_after_s,
        epochs=tuple((epoch.number, epoch.scope.profile) for epoch in epochs),
    ).to_bytes()
    secrets: dict[str, Any] = {
        "name": name,
        "durable_secret": blob(durable_secret),
        "epochs": [epoch.to_record() for epoch in epochs],
    }
    sealed = _SUITE.encrypt(canonical(secrets), recipient.sealing_key(), frame(_INFO_DOMAIN, header))
    signature = owner_key.sign(frame(_SIGNATURE_DOMAIN, header, sealed))
    envelope = {"format": FORMAT, "version": VERSION} | {
        key: blob(value) for key, value in (("header", header), ("sealed", sealed), ("signature", signature))
    }
    return canonical(envelope) + b"\n"


def open_grant(
    data: bytes, identity: Identity, *, now: float, pinned_owner: bytes | None, last_sequence: int = 0
) -> OpenedGrant:
    """Check a grant in full and open it; the errors tell which check failed."""
    header_bytes, header, sealed, signature = _parse(data)
    if not compare_digest(header.recipient, identity.public.fingerprint):
        raise GrantRecipientError(
            f"this grant is for identity {header.recipient.hex()[:16]}, "
            f"this keyring is {identity.public.fingerprint.hex()[:16]}"
        )
    if pinned_owner is not None and not compare_digest(header.owner, pinned_owner):
        raise GrantSignatureError(
            f"this grant is by owner {header.owner.hex()[:16]}, the owner expected is {pinned_owner.hex()[:16]}"
        )
    try:
        Ed25519PublicKey.from_public_bytes(header.owner).verify(
            signature, frame(_SIGNATURE_DOMAIN, header_bytes, sealed)
        )
    except (InvalidSignature, ValueError):
        raise GrantSignatureError("the grant was altered, or its signature is not the owner's") from None
    if header.sequence <= last_sequence:
        raise GrantRollbackError(
            f"this grant has sequence {header.sequence}, one with {last_sequence} is already accepted"
        )
    if not header.not_before_s <= now < header.not_after_s:
        state = "is not valid yet (is the clock right?)" if now < header.not_before_s else "has expired"
        raise GrantExpiredError(f"this grant {state}; ask the owner for a new one")
    try:
        plain = _SUITE.decrypt(sealed, identity.sealing_key(), frame(_INFO_DOMAIN, header_bytes))
    except (InvalidTag, ValueError):
        raise GrantError("the grant is signed by its owner but does not open with this identity's key") from None
    return _inside(header, plain)


def read_header(data: bytes) -> GrantHeader:
    """The clear header of a grant, unchecked: for people who ask what a file is."""
    return _parse(data)[1]


def _parse(data: bytes) -> tuple[bytes, GrantHeader, bytes, bytes]:
    if len(data) > limits.GRANT_BYTES_MAX:
        raise KeyringDamagedError(f"grant: over {limits.GRANT_BYTES_MAX} bytes")
    record = Record.parse(data, "grant")
    if record.text("format", 64) != FORMAT:
        raise KeyringDamagedError("grant: not a secroute grant")
    version = record.number("version", 0, 2**31)
    if version != VERSION:
        raise GrantError(f"grant of version {version}; this release reads version {VERSION}")
    header = record.blob("header", bytes_max=limits.GRANT_BYTES_MAX)
    sealed = record.blob("sealed", bytes_max=limits.GRANT_BYTES_MAX)
    signature = record.blob("signature", 64)
    record.done()
    return header, GrantHeader.from_bytes(header), sealed, signature


def _inside(header: GrantHeader, plain: bytes) -> OpenedGrant:
    record = Record.parse(plain, "grant")
    name = check_name(record.text("name", limits.KEY_NAME_BYTES_MAX), "the space's name in the grant")
    durable_secret = record.blob("durable_secret", limits.KEY_BYTES)
    epochs = tuple(
        EpochKeys.from_record(entry, header.space, durable_secret)
        for entry in record.records("epochs", limits.GRANT_EPOCHS_MAX)
    )
    record.done()
    # The profile digest is computed from the profile inside, so this binds the profiles to the signed header.
    if tuple((epoch.number, epoch.scope.profile) for epoch in epochs) != header.epochs or not epochs:
        raise GrantError("the grant's inside and its header name different epochs or profiles")
    return OpenedGrant(header, name, durable_secret, epochs)
