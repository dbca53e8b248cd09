"""The tree for wide and sparse filters: the same clusters and groups, but positions of bits in the place of words.

UNTRUSTED side, pure. Where a filter sets thirty of two thousand bits, most of its words are empty. Every entry of a
level keeps the positions that its parent has not settled, rarest first, four of them at hand: testing those four
together rejects nearly all entries without a branch that could be mispredicted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from secroute.engine.grouping import gather, group_filters
from secroute.engine.simd import cycles, lowest_of
from secroute.engine.sink import (
    NO_INTERFACES,
    NO_TICKS,
    OPEN_GATE,
    Stamps,
    admit,
    begin_batch,
    begin_message,
    put,
    sort_answers,
)
from secroute.engine.types import NO_LIMIT, Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

_AT_HAND = 4
_ONE = np.uint64(1)
_GROUP_ROWS = (32, 128)  # long runs: to begin another group costs as much as testing a score of rows
_CLUSTER_GROUPS = (8, 16)

Positions = npt.NDArray[np.uint16]


class Level(NamedTuple):
    """Entries by parent: parent i has ``starts[i]:starts[i + 1]``; ``ids`` says what each one is.

    Entry j asks for the positions ``at_hand[4 * j : 4 * j + 4]`` and ``rest[ends[j]:ends[j + 1]]``. An entry with fewer
    than four is filled up with the position after the last bit, which every message has.
    """

    starts: Dense
    ids: Dense
    at_hand: Positions
    ends: Dense
    rest: Positions

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self[:])


@njit(nogil=True, cache=True)
def _spread(message: Any, present: Any) -> None:
    """One byte for every bit of the message; the byte after the last one stays 1."""
    for word in range(message.size):
        rest = message[word]
        for bit in range(64):
            present[word * 64 + bit] = np.uint8(rest & _ONE)
            rest >>= _ONE
    present[message.size * 64] = 1


@njit(nogil=True, cache=True)
def _next_pass(at_hand: Positions, ends: Dense, rest: Positions, entry: Any, stop: Any, present: Any) -> Any:
    """The first entry from ``entry`` on whose positions the message has, or ``stop``.

    The four at hand are tested without a branch between them, in a loop with little else in it.
    """
    while entry < stop:
        at = entry * _AT_HAND
        if present[at_hand[at]] & present[at_hand[at + 1]] & present[at_hand[at + 2]] & present[at_hand[at + 3]]:
            more = ends[entry]
            while more < ends[entry + 1] and present[rest[more]]:
                more += 1
            if more == ends[entry + 1]:
                break
        entry += 1
    return entry


@njit(nogil=True, cache=True)
def descend_sparse(
    top: Level, middle: Level, bottom: Level, bits: Words, interfaces: Dense, live: Counts, stamp: Stamps, gate: Gate,
    limit: int, ticks: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Match a batch, message by message."""
    count, words = bits.shape
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(count + 16, np.int64)
    used = 0
    present = np.zeros(words * 64 + 1, np.uint8)
    clusters = np.empty(top.ids.size, np.int32)
    groups = np.empty(middle.ids.size, np.int32)
    parent = np.zeros(1, np.int32)
    begin_batch(stamp, gate)
    for number in range(count):
        low, now, left = begin_message(bits[number], number, stamp, gate, limit)
        if left > 0:
            _spread(bits[number], present)
            found = _passing(top.starts, top.ids, top.at_hand, top.ends, top.rest, parent, 1, present, clusters)
            found = _passing(
                middle.starts, middle.ids, middle.at_hand, middle.ends, middle.rest, clusters, found, present, groups
            )
            out, used = _emit(
                bottom.starts, bottom.ids, bottom.at_hand, bottom.ends, bottom.rest, groups[:found], present, live,
                interfaces, stamp, low, now, left, out, used,
            )  # fmt: skip
        sort_answers(out, offsets[number], used)
        offsets[number + 1] = used
        if ticks.size:
            ticks[number] = cycles()
    return offsets, out[:used]


@njit(nogil=True, cache=True)
def _passing(
    starts: Dense, ids: Dense, at_hand: Positions, ends: Dense, rest: Positions, parents: Dense, count: int,
    present: Any, out: Dense,
) -> int:  # fmt: skip
    """Write what the passing entries of ``parents`` are to ``out``; how many there are."""
    used = 0
    for parent in parents[:count]:
        stop = np.int64(starts[parent + 1])
        entry = _next_pass(at_hand, ends, rest, np.int64(starts[parent]), stop, present)
        while entry < stop:
            out[used] = ids[entry]
            used += 1
            entry = _next_pass(at_hand, ends, rest, entry + 1, stop, present)
    return used


@njit(nogil=True, cache=True)
def _emit(
    starts: Dense, ids: Dense, at_hand: Positions, ends: Dense, rest: Positions, groups: Dense, present: Any,
    live: Counts, interfaces: Dense, stamp: Stamps, low: int, now: int, left: int, out: Ints, used: int,
) -> tuple[Ints, int]:  # fmt: skip
    """Append the answers of the passing rows of ``groups``, at most ``left`` of them."""
    for group in groups:
        if left <= 0:
            break
        stop = np.int64(starts[group + 1])
        entry = _next_pass(at_hand, ends, rest, np.int64(starts[group]), stop, present)
        while entry < stop and left > 0:
            value = admit(ids[entry], live, interfaces, stamp, low, now)
            if value >= 0:
                out = put(out, used, value)
                used += 1
                left -= 1
            entry = _next_pass(at_hand, ends, rest, entry + 1, stop, present)
    return out, used


class SparseTreeMatcher:
    """Clusters of groups of sparse filters under what they have in common."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int, messages: Words | None = None) -> None:
        rows, ends, weights = group_filters(filters, messages, *_GROUP_ROWS)
        rank = np.argsort(np.argsort(-weights, kind="stable"), kind="stable")
        bottom, masks = _level(filters, rows, ends, rank)
        order, stops = gather(masks, weights, *_CLUSTER_GROUPS)
        middle, masks = _level(masks, order, stops, rank)
        everything = np.array([0, len(masks)])
        top, _ = _level(masks, np.arange(len(masks), dtype=np.int32), everything, rank, settles=False)
        self._levels = (top, middle, bottom)
        self._interfaces = interfaces
        self._interface_count = interface_count

    @property
    def nbytes(self) -> int:
        return sum(level.nbytes for level in self._levels) + int(self._interfaces.nbytes)

    def filters(self, bits: Words, live: Counts, limit: int = NO_LIMIT, ticks: Ints = NO_TICKS) -> Csr:
        none = np.zeros(0, np.int64)
        return Csr(*descend_sparse(*self._levels, bits, NO_INTERFACES, live, none, OPEN_GATE, limit, ticks))

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        stamp = np.zeros(self._interface_count, np.int64)
        return Csr(*descend_sparse(*self._levels, bits, self._interfaces, live, stamp, gate, NO_LIMIT, ticks))


@njit(nogil=True, cache=True)
def _level(masks: Words, order: Dense, ends: Ints, rank: Ints, settles: bool = True) -> tuple[Level, Words]:
    """Entries ``order[ends[i]:ends[i + 1]]`` of parent i with the positions that its AND leaves open; the ANDs.

    Nobody tests the AND of the root, so it ``settles`` nothing.
    """
    words = masks.shape[1]
    common = np.full((ends.size - 1, words), np.uint64(0xFFFFFFFFFFFFFFFF))
    total = 0
    for parent in range(ends.size - 1):
        for at in range(ends[parent], ends[parent + 1]):
            common[parent] &= masks[order[at]]
        if not settles:
            common[parent] = 0
    for parent in range(ends.size - 1):
        for at in range(ends[parent], ends[parent + 1]):
            total += max(0, _open_bits(masks[order[at]], common[parent]) - _AT_HAND)
    at_hand = np.full(order.size * _AT_HAND, np.uint16(words * 64))
    rest = np.empty(total, np.uint16)
    stops = np.zeros(order.size + 1, np.int32)
    found = np.empty(words * 64, np.int64)
    for parent in range(ends.size - 1):
        for at in range(ends[parent], ends[parent + 1]):
            stops[at + 1] = _fill(masks[order[at]], common[parent], rank, found, at_hand, at, rest, stops[at])
    return Level(ends.astype(np.int32), order.astype(np.int32), at_hand, stops, rest), common


@njit(nogil=True, cache=True)
def _open_bits(mask: Any, settled: Any) -> int:
    count = 0
    for word in range(mask.size):
        rest = mask[word] & ~settled[word]
        while rest:
            count += 1
            rest &= rest - _ONE
    return count


@njit(nogil=True, cache=True)
def _fill(
    mask: Any, settled: Any, rank: Ints, found: Ints, at_hand: Positions, entry: int, rest: Positions, used: int
) -> int:
    """Write the open positions of one entry, rarest first; where the next entry's rest begins."""
    count = 0
    for word in range(mask.size):
        bits = mask[word] & ~settled[word]
        while bits:
            position = word * 64 + lowest_of(bits)
            found[count] = rank[position] * 65536 + position
            count += 1
            bits &= bits - _ONE
    found[:count].sort()
    for at in range(count):
        if at < _AT_HAND:
            at_hand[entry * _AT_HAND + at] = found[at] & 65535
        else:
            rest[used] = found[at] & 65535
            used += 1
    return used
