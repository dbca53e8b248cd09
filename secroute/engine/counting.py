"""The paper's counting algorithm with bits as constraints: postings per bit, a counter per filter, both short cuts.

UNTRUSTED side, pure. Every bit of a message bumps the counters of the filters that have it; a counter that reaches the
filter's number of bits is a match. Filters of interfaces already matched or excluded are skipped (first short cut);
matching stops when every interface is matched or excluded (second short cut).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from secroute.engine.simd import cycles, lowest_of
from secroute.engine.sink import (
    NO_TICKS,
    Asked,
    admit,
    ask_filters,
    ask_interfaces,
    begin_batch,
    begin_message,
    end_message,
    leaf,
    put,
    run_batch,
)
from secroute.engine.types import NO_LIMIT, Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

Sizes = npt.NDArray[np.uint16]


@njit(nogil=True, cache=True)
def postings_of(filters: Words) -> tuple[Ints, Dense, Sizes]:
    """For every bit the rows that have it, as (starts, rows); and the number of bits of every row."""
    rows, words = filters.shape
    starts = np.zeros(words * 64 + 1, np.int64)
    sizes = np.zeros(rows, np.uint16)
    for row in range(rows):
        for word in range(words):
            rest = filters[row, word]
            while rest:
                starts[word * 64 + lowest_of(rest) + 1] += 1
                sizes[row] += np.uint16(1)
                rest &= rest - np.uint64(1)
    starts = np.cumsum(starts)
    at = starts.copy()
    posted = np.empty(starts[-1], np.int32)
    for row in range(rows):
        for word in range(words):
            rest = filters[row, word]
            while rest:
                bit = word * 64 + lowest_of(rest)
                posted[at[bit]] = row
                at[bit] += 1
                rest &= rest - np.uint64(1)
    return starts, posted, sizes


@leaf
def count_matches(
    starts: Ints, posted: Dense, sizes: Sizes, empty: Ints, counters: Sizes, bits: Words, first: int, asked: Asked,
    offsets: Ints, out: Ints, ticks: Ints,
) -> int:  # fmt: skip
    """Match a batch; ``empty`` are the rows without bits."""
    count, words = bits.shape
    begin_batch(asked)
    for number in range(first, count):
        message = bits[number]
        low, now, left = begin_message(message, number, asked)
        used = offsets[number]
        counters[:] = 0
        for row in empty:
            value = admit(row, row, asked, low, now) if left > 0 else -1
            if value >= 0:
                used = put(out, used, value)
                left -= 1
        for bit in range(words * 64):
            if left == 0:
                break
            if not (message[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
                continue
            for at in range(starts[bit], starts[bit + 1]):
                row = posted[at]
                if asked.stamp.size and not low <= asked.stamp[asked.interfaces[row]] <= now:
                    continue
                counters[row] += np.uint16(1)
                if counters[row] != sizes[row]:
                    continue
                value = admit(row, row, asked, low, now)
                if value >= 0:
                    used = put(out, used, value)
                    left -= 1
                    if left == 0:
                        break
        if not end_message(number, used, offsets, out):
            return number
        if ticks.size:
            ticks[number] = cycles()
    return len(bits)


class CountingMatcher:
    """Counters over postings of bits."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int) -> None:
        self._starts, self._posted, self._sizes = postings_of(filters)
        self._empty = np.flatnonzero(self._sizes == 0)
        self._interfaces = interfaces
        self._interface_count = interface_count

    @property
    def nbytes(self) -> int:
        arrays = (self._starts, self._posted, self._sizes, self._empty, self._interfaces)
        return sum(array.nbytes for array in arrays)

    def filters(self, bits: Words, live: Counts, limit: int = NO_LIMIT, ticks: Ints = NO_TICKS) -> Csr:
        return self._run(bits, ask_filters(live, limit), ticks)

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        return self._run(bits, ask_interfaces(self._interfaces, self._interface_count, live, gate), ticks)

    def _run(self, bits: Words, asked: Asked, ticks: Ints) -> Csr:
        counters = np.zeros(len(self._sizes), np.uint16)
        table = (self._starts, self._posted, self._sizes, self._empty, counters)
        return run_batch(count_matches, table, bits, asked, ticks)
