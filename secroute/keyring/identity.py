"""Who a member is: an X25519 key that grants are sealed to, and an Ed25519 key that names and signs publications.

TRUSTED side, pure. The public half travels as one line of text with a checksum, so that a typing error is found.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from secroute import limits
from secroute.encoding.derivation import KeyHandle, frame
from secroute.errors import KeyringError
from secroute.keyring.records import Record, blob

_PREFIX = "srid1-"
_CHECKSUM_BYTES = 4
_TEXT_CHARS_MAX = 256

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class PublicIdentity:
    """The public half of an identity; ``str`` gives the line to send to a space's owner."""

    sealing: bytes
    signing: bytes
    """Ed25519 public key: the publisher's name inside sealed payloads."""

    @property
    def fingerprint(self) -> bytes:
        """32 bytes that stand for both keys."""
        return hashlib.sha256(frame(b"secroute/v1/identity", self.sealing, self.signing)).digest()

    def __str__(self) -> str:
        data = self.sealing + self.signing
        return _PREFIX + base64.b32encode(data + _checksum(data)).decode().rstrip("=").lower()

    def __repr__(self) -> str:
        return f"<PublicIdentity {self.fingerprint.hex()[:16]}>"

    @classmethod
    def parse(cls, text: str) -> PublicIdentity:
        """The identity of a line of text."""
        text = text.strip()
        wrong = KeyringError(
            f"not a public identity; it starts with {_PREFIX!r} and is printed by `secroute keys identity`"
        )
        if not text.startswith(_PREFIX) or len(text) > _TEXT_CHARS_MAX:
            raise wrong
        coded = text[len(_PREFIX) :].upper()
        try:
            data = base64.b32decode(coded + "=" * (-len(coded) % 8))
        except (binascii.Error, ValueError):
            raise wrong from None
        keys, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        if len(keys) != 2 * limits.KEY_BYTES or checksum != _checksum(keys):
            raise KeyringError("the public identity was mistyped or cut short: its checksum is wrong")
        return cls(keys[: limits.KEY_BYTES], keys[limits.KEY_BYTES :])

    def sealing_key(self) -> X25519PublicKey:
        """The key that grants are sealed to."""
        return X25519PublicKey.from_public_bytes(self.sealing)


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(b"secroute/v1/identity-text" + data).digest()[:_CHECKSUM_BYTES]


class Identity(KeyHandle):
    """The private half."""

    __slots__ = ("_sealing", "_signing", "public")

    def __init__(self, sealing: bytes, signing: bytes) -> None:
        self._sealing = X25519PrivateKey.from_private_bytes(sealing)
        self._signing = Ed25519PrivateKey.from_private_bytes(signing)
        self.public = PublicIdentity(
            self._sealing.public_key().public_bytes_raw(), self._signing.public_key().public_bytes_raw()
        )

    @classmethod
    def new(cls, *, random_bytes: RandomBytes = os.urandom) -> Identity:
        """A fresh identity."""
        return cls(random_bytes(limits.KEY_BYTES), random_bytes(limits.KEY_BYTES))

    def sign(self, text: bytes) -> bytes:
        """An Ed25519 signature; fits ``Sealer(signer=...)``. The text carries its own domain."""
        return self._signing.sign(text)

    def sealing_key(self) -> X25519PrivateKey:
        """The key that opens grants."""
        return self._sealing

    def to_record(self) -> dict[str, Any]:
        """For key files only: this shows the secrets."""
        return {"sealing": blob(self._sealing.private_bytes_raw()), "signing": blob(self._signing.private_bytes_raw())}

    @classmethod
    def from_record(cls, record: Record) -> Identity:
        """The identity of a key file."""
        identity = cls(record.blob("sealing", limits.KEY_BYTES), record.blob("signing", limits.KEY_BYTES))
        record.done()
        return identity

    def __repr__(self) -> str:
        return f"<Identity {self.public.fingerprint.hex()[:16]}>"
