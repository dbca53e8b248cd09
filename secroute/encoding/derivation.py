"""What payload sealing and the keyring share: framing, HKDF with one label per purpose, and key handles.

TRUSTED side, pure. Everything derived in secroute goes through ``derive``, so that no two purposes can meet.
"""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from secroute import limits
from secroute.errors import KeyringError

_DOMAIN = b"secroute/v1"


def frame(*parts: bytes) -> bytes:
    """All parts, each behind its length in four bytes: different lists never give the same bytes."""
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def derive(secret: bytes, purpose: str, *context: bytes, length: int = limits.KEY_BYTES) -> bytes:
    """HKDF-SHA256 of a 32-byte secret; the info is the framed domain, purpose and context."""
    if len(secret) != limits.KEY_BYTES:
        raise KeyringError(f"a secret has {limits.KEY_BYTES} bytes, not {len(secret)}")
    info = frame(_DOMAIN, purpose.encode(), *context)
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(secret)


class KeyHandle:
    """Base of everything that holds a secret: it cannot be pickled or copied, and its repr shows no field."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise KeyringError(f"{type(self).__name__} holds keys and cannot be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise KeyringError(f"{type(self).__name__} holds keys and cannot be pickled or copied")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
