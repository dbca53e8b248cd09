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
from secroute.engine.simd import cycles, has_four, lowest_of
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


class Scratch(NamedTuple):
    """Room for one message."""

    present: Any
    root: Dense
    clusters: Dense
    groups: Dense


@leaf
def _spread(message: Any, present: Any) -> None:
    """One byte for every bit of the message; the byte after the last one stays 1."""
    for word in range(message.size):
        rest = message[word]
        for bit in range(64):
            present[word * 64 + bit] = np.uint8(rest & _ONE)
            rest >>= _ONE
    present[message.size * 64] = 1


@leaf
def _next_pass(level: Level, entry: int, stop: int, present: Any) -> int:
    """The first entry from ``entry`` on whose positions the message has, or ``stop``.

    The four at hand are tested without a branch between them, in a loop with little else in it.
    """
    while entry < stop:
        if has_four(level.at_hand, entry * _AT_HAND, present):
            more = np.int64(level.ends[entry])
            end = np.int64(level.ends[entry + 1])
            while more < end and present[level.rest[more]]:
                more += 1
            if more == end:
                break
        entry += 1
    return entry


@leaf
def _passing(level: Level, parents: Dense, count: int, present: Any, out: Dense) -> int:
    """Write what the passing entries of ``parents`` are to ``out``; how many there are."""
    used = 0
    for index in range(count):
        stop = np.int64(level.starts[parents[index] + 1])
        entry = _next_pass(level, np.int64(level.starts[parents[index]]), stop, present)
        while entry < stop:
            out[used] = level.ids[entry]
            used += 1
            entry = _next_pass(level, entry + 1, stop, present)
    return used


@leaf
def descend_sparse(
    top: Level, middle: Level, bottom: Level, scratch: Scratch, bits: Words, first: int, asked: Asked, offsets: Ints,
    out: Ints, ticks: Ints,
) -> int:  # fmt: skip
    """Match a batch from message ``first`` on, message by message."""
    present, clusters, groups = scratch.present, scratch.clusters, scratch.groups
    begin_batch(asked)
    for number in range(first, len(bits)):
        low, now, left = begin_message(bits[number], number, asked)
        used = offsets[number]
        if left > 0:
            _spread(bits[number], present)
            found = _passing(top, scratch.root, 1, present, clusters)
            found = _passing(middle, clusters, found, present, groups)
            used = _write(bottom, groups, found, present, asked, low, now, left, out, used)
        if not end_message(number, used, offsets, out):
            return number
        if ticks.size:
            ticks[number] = cycles()
    return len(bits)


@leaf
def _write(
    level: Level, groups: Dense, count: int, present: Any, asked: Asked, low: int, now: int, left: int, out: Ints,
    used: int,
) -> int:  # fmt: skip
    """Write what the passing rows of ``groups`` answer, at most ``left`` of them; the number of answers."""
    for index in range(count):
        stop = np.int64(level.starts[groups[index] + 1])
        entry = _next_pass(level, np.int64(level.starts[groups[index]]), stop, present)
        while entry < stop and left > 0:
            row = level.ids[entry]
            value = admit(row, row, asked, low, now)
            if value >= 0:
                used = put(out, used, value)
                left -= 1
            entry = _next_pass(level, entry + 1, stop, present)
        if left <= 0:
            break
    return used


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
        return self._run(bits, ask_filters(live, limit), ticks)

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        return self._run(bits, ask_interfaces(self._interfaces, self._interface_count, live, gate), ticks)

    def _run(self, bits: Words, asked: Asked, ticks: Ints) -> Csr:
        top, middle, _ = self._levels
        present = np.zeros(bits.shape[1] * 64 + 1, np.uint8)
        lists = np.empty(top.ids.size + 1, np.int32), np.empty(middle.ids.size + 1, np.int32)
        scratch = Scratch(present, np.zeros(1, np.int32), *lists)
        return run_batch(descend_sparse, (*self._levels, scratch), bits, asked, ticks)


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
