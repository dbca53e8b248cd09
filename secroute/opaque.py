"""What crosses the trust line: bits, random ids and digests, with no meaning inside.

UNTRUSTED side's vocabulary, produced by the trusted side. A batch is columnar all the way: one array of bits, one of
ids, one buffer of payloads with offsets, so that a router slices it without touching single messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.errors import LimitError, OpaqueError, ProfileMismatchError

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which space, epoch and encoding profile some bits belong to; bits of different scopes never meet."""

    space: bytes
    epoch: int
    profile: bytes

    def __post_init__(self) -> None:
        if len(self.space) != limits.SPACE_ID_BYTES:
            raise OpaqueError(f"a space id has {limits.SPACE_ID_BYTES} bytes, not {len(self.space)}")
        if not 0 <= self.epoch <= limits.EPOCH_MAX:
            raise OpaqueError(f"epoch {self.epoch} is outside 0..{limits.EPOCH_MAX}")
        if len(self.profile) != limits.PROFILE_DIGEST_BYTES:
            raise OpaqueError(f"a profile digest has {limits.PROFILE_DIGEST_BYTES} bytes, not {len(self.profile)}")

    def require(self, other: Scope) -> None:
        """Raise unless ``other`` is the same scope, saying which part differs."""
        for what, mine, theirs in (
            ("space", self.space.hex(), other.space.hex()),
            ("epoch", str(self.epoch), str(other.epoch)),
            ("profile digest", self.profile.hex(), other.profile.hex()),
        ):
            if mine != theirs:
                raise ProfileMismatchError(f"{what} differs: {mine[:16]} here, {theirs[:16]} there")


def check_words(bits: object, what: str = "bits") -> Words:
    """Return ``bits`` if it is a native little-endian, C-contiguous ``uint64[n, W]`` with 1 <= W <= 128; else raise."""
    if not isinstance(bits, np.ndarray):
        raise OpaqueError(f"{what} must be a numpy array, not {type(bits).__name__}")
    if bits.dtype != np.dtype("<u8"):
        raise OpaqueError(f"{what} must be little-endian uint64, not {bits.dtype.str}")
    if bits.ndim != 2:
        raise OpaqueError(f"{what} must have two dimensions [n, words], not {bits.ndim}")
    if not 1 <= bits.shape[1] <= limits.WORDS_MAX:
        raise OpaqueError(f"{what} must be 1..{limits.WORDS_MAX} words wide, not {bits.shape[1]}")
    if not bits.flags.c_contiguous:
        raise OpaqueError(f"{what} must be C-contiguous")
    return bits


@dataclass(frozen=True, slots=True)
class EncodedFilters:
    """The encoded disjuncts of one predicate: it matches a message if any row is included in the message's bits."""

    scope: Scope
    bits: Words

    def __post_init__(self) -> None:
        check_words(self.bits, "filter bits")
        if len(self.bits) > limits.SUBSCRIPTION_FILTERS_MAX:
            raise LimitError(f"{len(self.bits)} encoded disjuncts, at most {limits.SUBSCRIPTION_FILTERS_MAX}")

    def __len__(self) -> int:
        return len(self.bits)


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of encoded messages with sealed payloads, column by column."""

    scope: Scope
    bits: Words
    ids: npt.NDArray[np.uint8]
    """``uint8[n, 16]``: random message ids."""
    payloads: npt.NDArray[np.uint8]
    """All sealed payloads, one after another."""
    offsets: npt.NDArray[np.int64]
    """``int64[n + 1]``: payload i is ``payloads[offsets[i]:offsets[i + 1]]``."""

    def __post_init__(self) -> None:
        check_words(self.bits, "message bits")
        n = len(self.bits)
        if n > limits.BATCH_MESSAGES_MAX:
            raise LimitError(f"{n} messages in a batch, at most {limits.BATCH_MESSAGES_MAX}")
        if self.ids.dtype != np.uint8 or self.ids.shape != (n, limits.MESSAGE_ID_BYTES):
            raise OpaqueError(
                f"ids must be uint8[{n}, {limits.MESSAGE_ID_BYTES}], not {self.ids.dtype}{self.ids.shape}"
            )
        offsets = self.offsets
        if offsets.dtype != np.int64 or offsets.shape != (n + 1,):
            raise OpaqueError(f"offsets must be int64[{n + 1}], not {offsets.dtype}{offsets.shape}")
        if offsets[0] != 0 or offsets[-1] != len(self.payloads) or (np.diff(offsets) < 0).any():
            raise OpaqueError("payload offsets must rise from 0 to the length of the payloads")
        if self.payloads.dtype != np.uint8 or self.payloads.ndim != 1:
            raise OpaqueError("payloads must be one uint8 buffer")

    def __len__(self) -> int:
        return len(self.bits)

    @classmethod
    def of(cls, scope: Scope, bits: Words, ids: Sequence[bytes], payloads: Sequence[bytes]) -> EncodedBatch:
        """Build a batch from separate ids and payloads (for clients; a router takes the columns as they come)."""
        offsets = np.zeros(len(payloads) + 1, np.int64)
        np.cumsum([len(p) for p in payloads], out=offsets[1:])
        id_rows = np.frombuffer(b"".join(ids), np.uint8).reshape(len(ids), -1) if ids else np.zeros((0, 16), np.uint8)
        return cls(scope, bits, id_rows, np.frombuffer(b"".join(payloads), np.uint8), offsets)

    def payload(self, row: int) -> bytes:
        """The sealed payload of one message."""
        return self.payloads[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def take(self, rows: npt.NDArray[np.int64]) -> EncodedBatch:
        """The batch of the given rows, in that order, copied column by column without a loop per message."""
        lengths = (self.offsets[1:] - self.offsets[:-1])[rows]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        source = np.repeat(self.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return EncodedBatch(self.scope, self.bits[rows], self.ids[rows], self.payloads[source], offsets)
