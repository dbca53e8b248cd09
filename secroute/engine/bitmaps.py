"""Bitmaps of small lists of filters, bit by bit instead of row by row: counting who shares what is AND and popcount.

UNTRUSTED side, pure. Scaffolding of the grouping; nothing here is kept once a table is built.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from secroute.engine.simd import count_common, lowest_of
from secroute.engine.types import Ints
from secroute.opaque import Words

_ONE = np.uint64(1)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_SAMPLE_MESSAGES = 2_048  # a multiple of 512, the bits that one vector counts
_SHARE_MIN = 1e-3
_SIGMAS = 3.0

Shares = npt.NDArray[np.float64]


class Sample(NamedTuple):
    """Messages to judge bits by: ``bits[j * words:][:words]`` marks the messages with bit j, ``share[j]`` how many."""

    bits: Any
    words: int
    share: Shares


def message_sample(filters: Words, messages: Words | None) -> Sample:
    """Recent messages if there are any; else pairs of filters, which is what a message looks like from here."""
    rng = np.random.default_rng(len(filters))
    if messages is None or len(messages) < 64:
        chosen = rng.integers(0, len(filters), (2, _SAMPLE_MESSAGES))
        messages = filters[chosen[0]] | filters[chosen[1]]
    else:
        messages = messages[rng.integers(0, len(messages), _SAMPLE_MESSAGES)]
    single = np.unpackbits(np.ascontiguousarray(messages).view(np.uint8), axis=1, bitorder="little")
    packed = np.ascontiguousarray(np.packbits(single.T, axis=1, bitorder="little")).view(np.uint64)
    return Sample(packed.reshape(-1), packed.shape[1], np.clip(single.mean(axis=0), _SHARE_MIN, 1 - _SHARE_MIN))


@njit(nogil=True, cache=True)
def surprise(seen: int, among: int, share: float) -> float:
    """-log of the probability of a bit in messages that have the bits before it.

    ``seen`` of ``among`` sampled messages have it; the share in all messages stands unless that is disproved, for
    choosing the best of many noisy estimates would choose noise.
    """
    off = seen - among * share
    if off * off <= _SIGMAS * _SIGMAS * among * share * (1 - share) + 1:
        return float(-np.log(share))
    return float(-np.log((seen + 1.0) / (among + 2.0)))


@njit(nogil=True, cache=True)
def extend(sample: Sample, bit: int, common: Any) -> float:
    """The surprise of ``bit`` after those of ``common`` (a bitmap of messages), which is narrowed by it."""
    among = count_common(common, 0, common, sample.words)
    gained = surprise(count_common(sample.bits, bit * sample.words, common, sample.words), among, sample.share[bit])
    for word in range(sample.words):
        common[word] &= sample.bits[bit * sample.words + word]
    return gained


@njit(nogil=True, cache=True)
def count_bits(rows: Words, count: int, counts: Ints) -> None:
    """How many of the first ``count`` rows have each bit."""
    counts[:] = 0
    for row in range(count):
        for word in range(rows.shape[1]):
            rest = rows[row, word]
            while rest:
                counts[word * 64 + lowest_of(rest)] += 1
                rest &= rest - _ONE


@njit(nogil=True, cache=True)
def fill_ones(bitmap: Any, count: int) -> int:
    """Set the first ``count`` bits; the words in use, a multiple of 8."""
    bitmap[:] = 0
    bitmap[: count >> 6] = _ALL_ONES
    if count & 63:
        bitmap[count >> 6] = (_ONE << np.uint64(count & 63)) - _ONE
    return (count + 511) // 512 * 8


@njit(nogil=True, cache=True)
def bitmaps_of(rows: Words, count: int, slots: Ints, bitmaps: Any, pitch: int) -> None:
    """Bitmaps of those bits of the rows that have a slot (``slots[bit] >= 0``), each of ``pitch`` words."""
    bitmaps[:] = 0
    for row in range(count):
        mark = _ONE << np.uint64(row & 63)
        for word in range(rows.shape[1]):
            rest = rows[row, word]
            while rest:
                slot = slots[word * 64 + lowest_of(rest)]
                if slot >= 0:
                    bitmaps[slot * pitch + (row >> 6)] |= mark
                rest &= rest - _ONE


@njit(nogil=True, cache=True)
def transpose(square: Any) -> None:
    """Turn 64 words of 64 bits: bit j of word i becomes bit i of word j."""
    width = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while width:
        start = 0
        while start < 64:
            for at in range(start, start + width):
                swap = ((square[at] >> np.uint64(width)) ^ square[at + width]) & mask
                square[at] ^= swap << np.uint64(width)
                square[at + width] ^= swap
            start += 2 * width
        width >>= 1
        mask ^= mask << np.uint64(width)


@njit(nogil=True, cache=True)
def all_bitmaps(rows: Words, count: int, bitmaps: Any, pitch: int, square: Any) -> None:
    """Bitmaps of every bit, by turning squares: cheaper than bit by bit while rows are narrow."""
    for block in range((count + 511) // 512 * 8):
        for word in range(rows.shape[1]):
            for at in range(64):
                row = block * 64 + at
                square[at] = rows[row, word] if row < count else np.uint64(0)
            transpose(square)
            for at in range(64):
                bitmaps[(word * 64 + at) * pitch + block] = square[at]
