"""Which filters lie together: groups that share bits, and clusters of groups that share fewer.

UNTRUSTED side, pure. Large tables are mined for groups first (see ``mining``); what that leaves, small tables, and the
groups themselves are gathered greedily: the most telling bit, the most telling further one among those that have it,
and so on until few enough are left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from secroute.engine.bitmaps import message_sample
from secroute.engine.mining import mine_groups
from secroute.engine.simd import lowest_of
from secroute.engine.types import Dense, Ints
from secroute.opaque import Words

_ONE = np.uint64(1)
_MINE_ROWS = 16_384  # smaller tables are gathered at once
_MINE_WORDS = 8  # wide filters have little in common by chance: gathering finds what they share
_CHUNK_ROWS = (1_024, 32_768)  # gathering is quadratic in this
_CHUNK_BITS = 1 << 19  # and proportional to the bits that are set, or could be
_SAMPLE_ROWS = 1_024


def group_filters(filters: Words, messages: Words | None, least: int = 8, most: int = 8) -> tuple[Dense, Ints, Any]:
    """Rows in the order of their groups, the ends of groups from 0 on, and how telling each bit is.

    Gathered groups have about ``least`` to ``most`` rows.
    """
    sample = message_sample(filters, messages)
    weights = -np.log(sample.share)
    rows, ends, rest = np.zeros(0, np.int32), np.zeros(1, np.int64), np.arange(len(filters), dtype=np.int32)
    if len(filters) >= _MINE_ROWS and filters.shape[1] <= _MINE_WORDS:
        rows, ends, rest = mine_groups(filters, sample, weights)
    order, more = gather(np.ascontiguousarray(filters[rest]), weights, least, most)
    return np.concatenate([rows, rest[order]]), np.concatenate([ends, more[1:] + ends[-1]]), weights


def gather(masks: Words, weights: Any, least: int, most: int) -> tuple[Dense, Ints]:
    """``masks`` in an order of groups that share bits, each of about ``least`` to ``most``, and the ends of groups."""
    step = _chunk_rows(masks)
    order = split_rows(masks, step, _SAMPLE_ROWS) if len(masks) > step else np.arange(len(masks))
    rows, ends = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for start in range(0, len(masks), step):
        chunk = order[start : start + step]
        inside, stops = _gather(np.ascontiguousarray(masks[chunk]), weights, least, most)
        rows.append(chunk[inside].astype(np.int32))
        ends.append(stops[1:] + start)
    return np.concatenate(rows), np.concatenate(ends)


def _chunk_rows(masks: Words) -> int:
    """How many rows to gather at a time, for a cost that does not depend on their shape."""
    some = np.ascontiguousarray(masks[:: max(1, len(masks) // _SAMPLE_ROWS)])
    bits: int = int(np.unpackbits(some.view(np.uint8)).sum()) // max(1, len(some)) + masks.shape[1] * 8
    return int(min(max(_CHUNK_BITS // bits, _CHUNK_ROWS[0]), _CHUNK_ROWS[1]))


@njit(nogil=True, cache=True)
def _gather(masks: Words, weights: Any, least: int, most: int) -> tuple[Dense, Ints]:
    rows = masks.shape[0]
    first, bits = _bits_by_row(masks)
    begin, listed = _rows_by_bit(first, bits, weights.size)
    alive = np.ones(rows, np.bool_)
    totals = np.diff(begin)
    logs = np.log(np.maximum(np.arange(rows + 1), 1))
    counts, touched = np.zeros(weights.size, np.int64), np.empty(weights.size, np.int64)
    order = np.empty(rows, np.int32)
    ends = np.zeros(rows + 1, np.int64)
    groups = 0
    group, waiting = np.empty(rows, np.int32), np.empty(rows, np.int32)
    weighed = weights.copy()
    while True:
        bit = _telling_bit(totals, weighed, least)
        if bit < 0:
            break
        left = 0
        for row in listed[begin[bit] : begin[bit + 1]]:
            waiting[left] = row
            left += 1 if alive[row] else 0
        while left >= least:
            group[:left] = waiting[:left]
            size = _narrow(masks, first, bits, group, left, weights, logs, counts, touched, least, most)
            at = ends[groups]
            order[at : at + size] = group[:size]
            for row in group[:size]:
                alive[row] = False
                for other in bits[first[row] : first[row + 1]]:
                    totals[other] -= 1
            groups += 1
            ends[groups] = at + size
            kept = 0
            for row in waiting[:left]:
                waiting[kept] = row
                kept += 1 if alive[row] else 0
            left = kept
        weighed[bit] = 0.0
    at = ends[groups]
    for row in range(rows):
        if alive[row]:
            order[at] = row
            at += 1
            if at - ends[groups] == most:
                groups += 1
                ends[groups] = at
    if at > ends[groups]:
        groups += 1
        ends[groups] = at
    return order, ends[: groups + 1]


@njit(nogil=True, cache=True)
def _bits_by_row(masks: Words) -> tuple[Ints, Any]:
    """Where the bits of each row begin, and the numbers of the bits that are set."""
    rows, words = masks.shape
    first = np.zeros(rows + 1, np.int64)
    for row in range(rows):
        first[row + 1] = first[row]
        for word in range(words):
            rest = masks[row, word]
            while rest:
                first[row + 1] += 1
                rest &= rest - _ONE
    bits = np.empty(first[rows], np.uint16)
    at = 0
    for row in range(rows):
        for word in range(words):
            rest = masks[row, word]
            while rest:
                bits[at] = word * 64 + lowest_of(rest)
                at += 1
                rest &= rest - _ONE
    return first, bits


@njit(nogil=True, cache=True)
def _rows_by_bit(first: Ints, bits: Any, width: int) -> tuple[Ints, Dense]:
    """Where the rows of each bit begin, and the numbers of the rows that have it."""
    begin = np.zeros(width + 2, np.int64)
    for bit in bits:
        begin[bit + 2] += 1
    begin = np.cumsum(begin)
    listed = np.empty(bits.size, np.int32)
    for row in range(first.size - 1):
        for bit in bits[first[row] : first[row + 1]]:
            listed[begin[bit + 1]] = row
            begin[bit + 1] += 1
    return begin[:-1], listed


@njit(nogil=True, cache=True)
def _telling_bit(totals: Ints, weights: Any, least: int) -> int:
    """The bit to gather by next: common among the rows that are left, rare in messages."""
    best = 0.0
    chosen = -1
    for bit in range(totals.size):
        if totals[bit] >= least:
            score = weights[bit] * np.sqrt(totals[bit])
            if score > best:
                best = score
                chosen = bit
    return chosen


@njit(nogil=True, cache=True)
def _narrow(
    masks: Words,
    first: Ints,
    bits: Any,
    group: Dense,
    size: int,
    weights: Any,
    logs: Any,
    counts: Ints,
    touched: Ints,
    least: int,
    most: int,
) -> int:
    """Keep those of ``group`` that share further bits until they are at most ``most``, or alike; how many are kept."""
    while size > most:
        seen = 0
        for row in group[:size]:
            for bit in bits[first[row] : first[row + 1]]:
                if counts[bit] == 0:
                    touched[seen] = bit
                    seen += 1
                counts[bit] += 1
        best = 0.0
        chosen = -1
        for other in touched[:seen]:
            if least <= counts[other] < size:
                score = weights[other] / (logs[size] - logs[counts[other]] + 0.05)
                if score > best or (score == best and other < chosen):
                    best = score
                    chosen = other
            counts[other] = 0
        if chosen < 0:
            break
        kept = 0
        for row in group[:size]:
            group[kept] = row
            kept += 1 if (masks[row, chosen >> 6] >> np.uint64(chosen & 63)) & _ONE else 0
        size = kept
    return size


@njit(nogil=True, cache=True)
def _add_bits(mask: Any, totals: Ints) -> None:
    for word in range(mask.size):
        rest = mask[word]
        while rest:
            totals[word * 64 + lowest_of(rest)] += 1
            rest &= rest - _ONE


@njit(nogil=True, cache=True)
def split_rows(filters: Words, block: int, sample: int) -> Dense:
    """Row numbers in an order in which neighbours are alike: split again and again on the bit that half of them have.

    Bits are counted on a ``sample`` of rows; ranges of at most ``block`` rows are left as they are.
    """
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
        front = begin
        kept = 0
        for at in range(begin, end):
            row = order[at]
            if (filters[row, bit >> 6] >> np.uint64(bit & 63)) & _ONE:
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
def _dividing_bit(filters: Words, order: Dense, step: int, counts: Ints) -> int:
    """The bit whose frequency among the rows of ``order`` is nearest a half, or -1 if no bit divides them."""
    counts[:] = 0
    seen = 0
    for at in range(0, order.size, step):
        seen += 1
        _add_bits(filters[order[at]], counts)
    best = -1
    distance = seen
    for bit in range(counts.size):
        if 0 < counts[bit] < seen and abs(2 * counts[bit] - seen) < distance:
            best = bit
            distance = abs(2 * counts[bit] - seen)
    return best
