"""The order of filters in which neighbours share many bits, so that the AND of a block still says something.

UNTRUSTED side, pure. Filters are split again and again on the bit that is set in about half of them, counted on a
sample; those that have the bit come first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from secroute.engine.simd import count_ones
from secroute.engine.types import Dense
from secroute.opaque import Words

_ONE = np.uint64(1)


@njit(nogil=True, cache=True)
def group_rows(filters: Words, block: int, sample: int) -> Dense:
    """Row numbers in the order of their groups; ranges of at most ``block`` rows are left as they are."""
    rows, words = filters.shape
    order = np.arange(rows).astype(np.int32)
    other = np.empty(rows, np.int32)
    counts = np.empty(words * 64, np.int64)
    begins = [0]
    ends = [rows]
    while len(begins):
        begin = begins.pop()
        end = ends.pop()
        if end - begin <= block:
            continue
        bit = _dividing_bit(filters, order[begin:end], max(1, (end - begin) // sample), counts)
        if bit < 0:
            continue
        word = bit >> 6
        mask = _ONE << np.uint64(bit & 63)
        front = begin
        kept = 0
        for at in range(begin, end):
            row = order[at]
            if filters[row, word] & mask:
                order[front] = row
                front += 1
            else:
                other[kept] = row
                kept += 1
        order[front:end] = other[:kept]
        begins.append(begin)
        ends.append(front)
        begins.append(front)
        ends.append(end)
    return order


@njit(nogil=True, cache=True)
def _dividing_bit(filters: Words, order: Dense, step: int, counts: Dense) -> int:
    """The bit whose frequency among the rows of ``order`` is nearest a half, or -1 if no bit divides them."""
    counts[:] = 0
    seen = 0
    for at in range(0, order.size, step):
        seen += 1
        for word in range(filters.shape[1]):
            rest = filters[order[at], word]
            while rest:
                counts[word * 64 + count_ones((rest & (~rest + _ONE)) - _ONE)] += 1
                rest &= rest - _ONE
    best = -1
    distance = seen
    for bit in range(counts.size):
        if 0 < counts[bit] < seen and abs(2 * counts[bit] - seen) < distance:
            best = bit
            distance = abs(2 * counts[bit] - seen)
    return best
