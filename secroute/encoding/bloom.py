"""From tokens to bits: keyed BLAKE2b, sixteen independent words a token, positions by multiplication.

TRUSTED, pure. One 64-byte digest serves every width and every number of hashes, so a parameter sweep hashes once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute.opaque import Words

PERSON = b"secroute-token-1"
Digests = npt.NDArray[np.uint32]
"""``uint32[n, 16]``: the digest of each token as little-endian words."""


def digest_tokens(key: bytes, tokens: Sequence[bytes]) -> bytes:
    """The digests of one attribute's tokens, one after another."""
    base = hashlib.blake2b(key=key, digest_size=64, person=PERSON)
    out = []
    for token in tokens:
        state = base.copy()
        state.update(token)
        out.append(state.digest())
    return b"".join(out)


def as_digests(data: bytes) -> Digests:
    """Joined digests as an array."""
    return np.frombuffer(data, "<u4").reshape(-1, 16)


def positions(digests: Digests, bits: int, hashes: int) -> npt.NDArray[np.int64]:
    """``int64[n, hashes]``: position i of a token is (word i * bits) >> 32."""
    return ((digests[:, :hashes].astype(np.uint64) * np.uint64(bits)) >> np.uint64(32)).astype(np.int64)


def token_masks(digests: Digests, bits: int, hashes: int) -> Words:
    """``uint64[n, bits / 64]``: the bits of each token."""
    masks = np.zeros((len(digests), bits // 64), np.uint64)
    where = positions(digests, bits, hashes)
    rows = np.arange(len(digests))
    for column in where.T:
        # One hash at a time: within a column every row occurs once, so plain indexing loses nothing.
        masks[rows, column >> 6] |= np.uint64(1) << (column & 63).astype(np.uint64)
    return masks


def or_groups(masks: Words, members: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> Words:
    """Row i is the OR of ``masks[members[offsets[i]:offsets[i + 1]]]`` (no bits for an empty group)."""
    out = np.zeros((len(offsets) - 1, masks.shape[1]), np.uint64)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        out[filled] = np.bitwise_or.reduceat(masks[members], offsets[:-1][filled], axis=0)
    return out


@dataclass(frozen=True)
class TokenBatch:
    """Records as sets of distinct hashed tokens: everything needed to make their bits for any width and hash count.

    Two levels keep it small: a record is a list of groups (the values it has), a group a list of tokens.
    """

    digests: Digests
    group_tokens: npt.NDArray[np.int64]
    group_offsets: npt.NDArray[np.int64]
    record_groups: npt.NDArray[np.int64]
    record_offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.record_offsets) - 1

    def bits(self, bits: int, hashes: int) -> Words:
        """The Bloom filters of all records."""
        masks = token_masks(self.digests, bits, hashes)
        groups = or_groups(masks, self.group_tokens, self.group_offsets)
        return or_groups(groups, self.record_groups, self.record_offsets)

    def token_counts(self) -> npt.NDArray[np.int64]:
        """How many tokens each record has."""
        sizes = np.diff(self.group_offsets)
        total = np.concatenate([[0], np.cumsum(sizes[self.record_groups])])
        return np.asarray(total[self.record_offsets[1:]] - total[self.record_offsets[:-1]], np.int64)
