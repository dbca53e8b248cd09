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
_BLOCK_BYTES = 1 << 18
_LONG_GROUP = 32

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


def set_groups(
    where: npt.NDArray[np.int64], members: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], bits: int
) -> Words:
    """Row i has the bits ``where[members[offsets[i]:offsets[i + 1]]]``: scattered as bytes, then packed, by blocks."""
    out = np.zeros((len(offsets) - 1, bits // 64), np.uint64)
    block = max(64, _BLOCK_BYTES // bits)
    for at in range(0, len(out), block):
        edges = offsets[at : at + block + 1]
        rows = np.repeat(np.arange(len(edges) - 1) * bits, np.diff(edges))
        flags = np.zeros((len(edges) - 1) * bits, np.uint8)
        flags[(rows[:, None] + where[members[edges[0] : edges[-1]]]).ravel()] = 1
        packed = np.packbits(flags, bitorder="little").view("<u8")
        out[at : at + block] = packed.reshape(-1, bits // 64)
    return out


def or_groups(masks: Words, members: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> Words:
    """Row i is the OR of ``masks[members[offsets[i]:offsets[i + 1]]]`` (no bits for an empty group).

    The j-th members of a cache-sized block of rows are OR-ed in at once; rows of very many members go one by one.
    """
    out = np.zeros((len(offsets) - 1, masks.shape[1]), np.uint64)
    counts = np.diff(offsets)
    block = max(64, _BLOCK_BYTES // (8 * masks.shape[1]))
    for at in range(0, len(out), block):
        rows, sizes, starts = out[at : at + block], counts[at : at + block], offsets[at : at + block]
        shared = min(int(sizes.min()), _LONG_GROUP)
        for step in range(shared):
            rows |= masks.take(members[starts[: len(rows)] + step], axis=0)
        for step in range(shared, min(int(sizes.max()), _LONG_GROUP)):
            some = np.flatnonzero(sizes > step)
            rows[some] |= masks[members[starts[some] + step]]
        for row in np.flatnonzero(sizes > _LONG_GROUP):
            rest = members[starts[row] + _LONG_GROUP : starts[row] + sizes[row]]
            rows[row] |= np.bitwise_or.reduce(masks[rest], axis=0)
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
        where = positions(self.digests, bits, hashes)
        groups = set_groups(where, self.group_tokens, self.group_offsets, bits)
        return or_groups(groups, self.record_groups, self.record_offsets)

    def token_counts(self) -> npt.NDArray[np.int64]:
        """How many tokens each record has."""
        sizes = np.diff(self.group_offsets)
        total = np.concatenate([[0], np.cumsum(sizes[self.record_groups])])
        return np.asarray(total[self.record_offsets[1:]] - total[self.record_offsets[:-1]], np.int64)
