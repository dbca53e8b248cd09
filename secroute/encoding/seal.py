"""Payload sealing: one AEAD ciphertext per message, bound to its header.

TRUSTED side, pure: the salt comes from the caller. A sealed payload is

    version (1) | masked salt and counter (24) | header check (16) | ciphertext | tag (16)

A session's subkeys are HKDF of the epoch's payload key and the salt; the nonce is the counter. Salt and counter are
masked with a PRF of the random message id, so that a router cannot tell which messages come from one publisher. The
header check is a keyed hash of the associated data: it tells a foreign header from a damaged body, and commits the
ciphertext to its key, which ChaCha20-Poly1305 alone does not. Retries resend the bytes that ``seal_batch`` returned.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from secroute import limits
from secroute.encoding.derivation import KeyHandle, derive, frame
from secroute.errors import LimitError, OpaqueError, ProfileMismatchError, SealError, SealHeaderError, SealLimitError
from secroute.opaque import Scope, Words, check_words

VERSION = 1
SALT_BYTES = 16
PUBLISHER_BYTES = 32  # the publisher's Ed25519 public key, which is its identity
_CHECK_BYTES = 16
_TAG_BYTES = 16
_MASKED_BYTES = SALT_BYTES + 8
_BODY_AT = 1 + _MASKED_BYTES + _CHECK_BYTES
_SIGNATURE_BYTES = 64
_INNER = struct.Struct(f">{PUBLISHER_BYTES}sQBI")  # publisher, sequence, flags, body length
_SIGNED = 1
_VERSION_BYTE = bytes([VERSION])
_SIGNATURE_DOMAIN = b"secroute/v1/publication"

Signer = Callable[[bytes], bytes]


def padded_length(length: int) -> int:
    """What ``length`` bytes of plaintext are padded to: multiples of 64, above 256 four steps per doubling."""
    step = max(64, 1 << max(length.bit_length() - 3, 0))
    return -(-max(length, 1) // step) * step


def sealed_length(body_bytes: int, *, signed: bool = False) -> int:
    """How long the sealed payload of a body is."""
    inner = _INNER.size + body_bytes + (_SIGNATURE_BYTES if signed else 0)
    return _BODY_AT + padded_length(inner) + _TAG_BYTES


@dataclass(frozen=True, slots=True)
class Opened:
    """What was inside a sealed payload. ``session`` tells apart the runs of one publisher that each count from zero."""

    publisher: bytes
    session: bytes
    sequence: int
    body: bytes = field(repr=False)
    signed: bool


class _Header:
    """The associated data of one scope's messages: length-prefixed version, space, epoch, profile, id, bits digest."""

    __slots__ = ("_prefix",)

    def __init__(self, scope: Scope) -> None:
        self._prefix = frame(_VERSION_BYTE, scope.space, scope.epoch.to_bytes(4, "big"), scope.profile)

    def of(self, message_id: bytes, row: bytes | memoryview) -> bytes:
        return self._prefix + frame(message_id, blake2b(row, digest_size=32).digest())


class _Session(KeyHandle):
    """The subkeys of one publisher session."""

    __slots__ = ("aead", "check_key")

    def __init__(self, payload_key: bytes, salt: bytes) -> None:
        keys = derive(payload_key, "payload-session", salt, length=64)
        self.aead = ChaCha20Poly1305(keys[:32])
        self.check_key = keys[32:]

    def check(self, header: bytes) -> bytes:
        return blake2b(header, key=self.check_key, digest_size=_CHECK_BYTES).digest()


def _mask(mask_key: bytes, message_id: bytes, data: bytes) -> bytes:
    pad = blake2b(message_id, key=mask_key, digest_size=_MASKED_BYTES).digest()
    return (int.from_bytes(pad, "big") ^ int.from_bytes(data, "big")).to_bytes(_MASKED_BYTES, "big")


def _signed_text(header: bytes, publisher: bytes, sequence: int, body: bytes) -> bytes:
    return frame(_SIGNATURE_DOMAIN, header, publisher, sequence.to_bytes(8, "big"), body)


class Sealer(KeyHandle):
    """Seals the payloads of one publisher session under one epoch; safe to share between threads."""

    __slots__ = ("_header", "_lock", "_mask_key", "_next", "_publisher", "_salt", "_session", "_signer", "scope")

    def __init__(
        self, payload_key: bytes, scope: Scope, *, publisher: bytes, salt: bytes, signer: Signer | None = None
    ) -> None:
        """``salt`` must be 16 fresh random bytes for every Sealer: a salt used twice repeats nonces."""
        if len(publisher) != PUBLISHER_BYTES:
            raise SealError(f"a publisher's identity has {PUBLISHER_BYTES} bytes, not {len(publisher)}")
        if len(salt) != SALT_BYTES:
            raise SealError(f"a session's salt has {SALT_BYTES} bytes, not {len(salt)}")
        self.scope = scope
        self._header = _Header(scope)
        self._mask_key = derive(payload_key, "payload-mask")
        self._session = _Session(payload_key, salt)
        self._publisher, self._salt, self._signer = publisher, salt, signer
        self._next = 0
        self._lock = threading.Lock()

    @property
    def session(self) -> bytes:
        """The session's salt, as subscribers see it in ``Opened.session``."""
        return self._salt

    def seal_batch(self, ids: Sequence[bytes], bits: Words, plaintexts: Sequence[bytes]) -> list[bytes]:
        """Seal plaintext i under the header (scope, ids[i], bits[i]); numbers go up by one per message."""
        check_words(bits, "message bits")
        if not len(ids) == len(bits) == len(plaintexts):
            raise OpaqueError(f"{len(ids)} ids, {len(bits)} rows of bits and {len(plaintexts)} plaintexts do not fit")
        for message_id in ids:
            if len(message_id) != limits.MESSAGE_ID_BYTES:
                raise OpaqueError(f"a message id has {limits.MESSAGE_ID_BYTES} bytes, not {len(message_id)}")
        for body in plaintexts:
            if sealed_length(len(body), signed=self._signer is not None) > limits.PAYLOAD_BYTES_MAX:
                raise LimitError(f"a plaintext of {len(body)} bytes is over {limits.PAYLOAD_BYTES_MAX} once sealed")
        first = self._reserve(len(ids))
        rows = memoryview(bits.tobytes())
        width = bits.shape[1] * 8
        return [
            self._seal(message_id, rows[i * width : (i + 1) * width], first + i, body)
            for i, (message_id, body) in enumerate(zip(ids, plaintexts, strict=True))
        ]

    def _reserve(self, count: int) -> int:
        # Numbers are taken before anything is sealed and never given back: a failure may waste nonces, not repeat them.
        with self._lock:
            first = self._next
            if first + count > limits.SEAL_SESSION_MESSAGES_MAX:
                raise SealLimitError(
                    f"{first} of {limits.SEAL_SESSION_MESSAGES_MAX} messages of this session are sealed, "
                    f"{count} more do not fit; start a new session with a fresh salt"
                )
            self._next = first + count
        return first

    def _seal(self, message_id: bytes, row: memoryview, number: int, body: bytes) -> bytes:
        header = self._header.of(message_id, row)
        counter = number.to_bytes(8, "big")
        inner = _INNER.pack(self._publisher, number, _SIGNED if self._signer else 0, len(body)) + body
        if self._signer:
            inner += self._signer(_signed_text(header, self._publisher, number, body))
        ciphertext = self._session.aead.encrypt(
            b"\0\0\0\0" + counter, inner.ljust(padded_length(len(inner)), b"\0"), header
        )
        masked = _mask(self._mask_key, message_id, self._salt + counter)
        return b"".join((_VERSION_BYTE, masked, self._session.check(header), ciphertext))


class _ScopeKeys(KeyHandle):
    """What an opener keeps per scope: keys, and the subkeys of sessions that have proved themselves."""

    __slots__ = ("header", "mask_key", "payload_key", "sessions")

    def __init__(self, scope: Scope, payload_key: bytes) -> None:
        self.header = _Header(scope)
        self.payload_key = payload_key
        self.mask_key = derive(payload_key, "payload-mask")
        self.sessions: OrderedDict[bytes, _Session] = OrderedDict()

    def remember(self, salt: bytes, session: _Session) -> None:
        # Only after a payload opened: rubbish from a router must not push honest sessions out.
        if salt not in self.sessions and len(self.sessions) >= limits.SEAL_SESSIONS_CACHED_MAX:
            self.sessions.popitem(last=False)
        self.sessions[salt] = session


class Opener(KeyHandle):
    """Opens sealed payloads of any scope whose payload key it was given; every failure raises."""

    __slots__ = ("_publishers", "_require_signature", "_scopes")

    def __init__(
        self,
        keys: Mapping[Scope, bytes] | None = None,
        *,
        require_signature: bool = False,
        publishers: Collection[bytes] | None = None,
    ) -> None:
        """``publishers``: the only public keys accepted (an unsigned claim of one proves membership, not identity)."""
        self._scopes: dict[Scope, _ScopeKeys] = {}
        self._require_signature = require_signature
        self._publishers = None if publishers is None else frozenset(publishers)
        for scope, payload_key in (keys or {}).items():
            self.add(scope, payload_key)

    def add(self, scope: Scope, payload_key: bytes) -> None:
        """Open payloads of this scope from now on."""
        if scope not in self._scopes:
            self._scopes[scope] = _ScopeKeys(scope, payload_key)

    def discard(self, scope: Scope) -> None:
        """Forget a drained scope's keys."""
        self._scopes.pop(scope, None)

    def open(self, scope: Scope, message_id: bytes, row: npt.NDArray[np.uint64], sealed: bytes) -> Opened:
        """Check and open one payload under the header it came with."""
        if row.dtype != np.dtype("<u8") or row.ndim != 1:
            raise OpaqueError(f"a row of bits must be little-endian uint64[words], not {row.dtype.str}[{row.ndim}d]")
        return self._open(self._keys(scope), message_id, row.tobytes(), sealed)

    def open_batch(
        self, scope: Scope, ids: Sequence[bytes], bits: Words, sealed: Sequence[bytes]
    ) -> list[Opened | SealError]:
        """Open many; a payload that does not open gives its error in its place and spoils nothing else."""
        check_words(bits, "message bits")
        if not len(ids) == len(bits) == len(sealed):
            raise OpaqueError(f"{len(ids)} ids, {len(bits)} rows of bits and {len(sealed)} payloads do not fit")
        keys = self._keys(scope)
        rows = memoryview(bits.tobytes())
        width = bits.shape[1] * 8
        results: list[Opened | SealError] = []
        for i, (message_id, payload) in enumerate(zip(ids, sealed, strict=True)):
            try:
                results.append(self._open(keys, message_id, rows[i * width : (i + 1) * width], payload))
            except SealError as error:
                results.append(error)
        return results

    def _keys(self, scope: Scope) -> _ScopeKeys:
        keys = self._scopes.get(scope)
        if keys is None:
            raise ProfileMismatchError(
                f"no payload key for space {scope.space.hex()} epoch {scope.epoch} profile {scope.profile.hex()[:16]}"
            )
        return keys

    def _open(self, keys: _ScopeKeys, message_id: bytes, row: bytes | memoryview, sealed: bytes) -> Opened:
        if not _BODY_AT + padded_length(_INNER.size) + _TAG_BYTES <= len(sealed) <= limits.PAYLOAD_BYTES_MAX:
            raise SealError(f"a sealed payload of {len(sealed)} bytes cannot be whole")
        if sealed[0] != VERSION:
            raise SealError(f"sealed payload of version {sealed[0]}; this release reads version {VERSION}")
        if len(message_id) != limits.MESSAGE_ID_BYTES:
            raise OpaqueError(f"a message id has {limits.MESSAGE_ID_BYTES} bytes, not {len(message_id)}")
        clear = _mask(keys.mask_key, message_id, sealed[1 : 1 + _MASKED_BYTES])
        salt, counter = clear[:SALT_BYTES], clear[SALT_BYTES:]
        known = keys.sessions.get(salt)
        session = known or _Session(keys.payload_key, salt)
        header = keys.header.of(message_id, row)
        if not compare_digest(session.check(header), sealed[1 + _MASKED_BYTES : _BODY_AT]):
            raise SealHeaderError("payload does not belong to the header (scope, id, bits) it came with")
        try:
            inner = session.aead.decrypt(b"\0\0\0\0" + counter, sealed[_BODY_AT:], header)
        except InvalidTag:
            raise SealError("payload was changed on the way: its authentication tag is wrong") from None
        opened = self._parse(header, salt, counter, inner)
        if known is None:
            keys.remember(salt, session)
        return opened

    def _parse(self, header: bytes, salt: bytes, counter: bytes, inner: bytes) -> Opened:
        publisher, sequence, flags, length = _INNER.unpack_from(inner)
        signed = bool(flags & _SIGNED)
        end = _INNER.size + length
        total = end + (_SIGNATURE_BYTES if signed else 0)
        if flags & ~_SIGNED or len(inner) != padded_length(total) or inner.count(0, total) != len(inner) - total:
            raise SealError("payload opens but its inside is malformed: flags, length or padding")
        if sequence != int.from_bytes(counter, "big"):
            raise SealError("payload opens but its sequence number is not the one it was sealed under")
        body = inner[_INNER.size : end]
        if self._publishers is not None and publisher not in self._publishers:
            raise SealError(f"payload is of publisher {publisher.hex()[:16]}, who is not accepted here")
        if signed:
            try:
                Ed25519PublicKey.from_public_bytes(publisher).verify(
                    inner[end:total], _signed_text(header, publisher, sequence, body)
                )
            except (InvalidSignature, ValueError):
                raise SealError(f"payload's signature is not by publisher {publisher.hex()[:16]}") from None
        elif self._require_signature:
            raise SealError("payload carries no publisher's signature and one is required here")
        return Opened(publisher, salt, sequence, body, signed)
