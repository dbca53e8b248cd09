"""The tree of AND-masks: blocks of eight similar filters, eight blocks to a block of the next level, and so on.

UNTRUSTED side, pure. A message that lacks a bit of a block's AND cannot match anything below it. The eight masks of a
block lie columnar, so one instruction tests a word of all of them; filters are the lowest level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from secroute.engine.grouping import group_rows
from secroute.engine.simd import cycles, included8, lowest_bit
from secroute.engine.sink import NO_INTERFACES, NO_TICKS, OPEN_GATE, Stamps, admit, begin_batch, begin_message, put
from secroute.engine.types import NO_LIMIT, Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

_LANES = 8
_SAMPLE_ROWS = 1_024
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def descend(
    masks: Any, levels: Ints, order: Dense, bits: Words, interfaces: Dense, live: Counts, stamp: Stamps, gate: Gate,
    limit: int, ticks: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Match a batch; ``levels[i]`` is the first block of level i in ``masks``, filters being level 0."""
    count, words = bits.shape
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(count + 16, np.int64)
    used = 0
    stack = np.empty((_LANES * levels.size + _LANES, 2), np.int64)
    begin_batch(stamp, gate)
    for number in range(count):
        absent = ~bits[number]
        low, now, left = begin_message(bits[number], number, stamp, gate, limit)
        stack[0, 0] = levels.size - 2
        stack[0, 1] = 0
        depth = 1 if order.size else 0
        while depth and left > 0:
            depth -= 1
            level = stack[depth, 0]
            block = stack[depth, 1]
            at = (levels[level] + block) * _LANES * words
            hits = included8(masks, at, absent[0])
            word = 1
            while hits and word < words:
                hits &= included8(masks, at + word * _LANES, absent[word])
                word += 1
            while hits:
                child = block * _LANES + lowest_bit(hits)
                hits &= hits - np.uint32(1)
                if level > 0:
                    if child < levels[level] - levels[level - 1]:
                        stack[depth, 0] = level - 1
                        stack[depth, 1] = child
                        depth += 1
                elif child < order.size and left > 0:
                    value = admit(order[child], live, interfaces, stamp, low, now)
                    if value >= 0:
                        out = put(out, used, value)
                        used += 1
                        left -= 1
        out[offsets[number] : used].sort()
        offsets[number + 1] = used
        if ticks.size:
            ticks[number] = cycles()
    return offsets, out[:used]


class TreeMatcher:
    """Blocks of similar filters under a tree of their common bits."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int, messages: Words | None = None) -> None:
        self._order = group_rows(filters, _LANES, _SAMPLE_ROWS)
        self._masks, self._levels = _levels(filters[self._order])
        self._interfaces = interfaces
        self._interface_count = interface_count

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (self._masks, self._levels, self._order, self._interfaces))

    def filters(self, bits: Words, live: Counts, limit: int = NO_LIMIT, ticks: Ints = NO_TICKS) -> Csr:
        none = np.zeros(0, np.int64)
        return self._run(bits, NO_INTERFACES, live, none, OPEN_GATE, limit, ticks)

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        stamp = np.zeros(self._interface_count, np.int64)
        return self._run(bits, self._interfaces, live, stamp, gate, NO_LIMIT, ticks)

    def _run(
        self, bits: Words, interfaces: Dense, live: Counts, stamp: Stamps, gate: Gate, limit: int, ticks: Ints
    ) -> Csr:
        table = (self._masks, self._levels, self._order)
        return Csr(*descend(*table, bits, interfaces, live, stamp, gate, limit, ticks))


def _levels(rows: Words) -> tuple[Any, Ints]:
    """``rows`` and the ANDs above them as columnar blocks of eight, lowest level first, and where levels begin."""
    words = rows.shape[1]
    parts, starts = [], [0]
    while True:
        blocks = -(-len(rows) // _LANES)
        padded = np.full((blocks * _LANES, words), _ALL_ONES, np.uint64)
        padded[: len(rows)] = rows
        columnar = padded.reshape(blocks, _LANES, words).transpose(0, 2, 1)
        parts.append(columnar.reshape(-1))
        starts.append(starts[-1] + blocks)
        if blocks <= 1:
            return np.concatenate(parts), np.array(starts, np.int64)
        rows = np.bitwise_and.reduce(columnar, axis=2)
