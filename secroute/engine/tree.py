"""The tree of AND-masks: filters in groups that share bits, groups in clusters that share fewer.

UNTRUSTED side, pure. A message that lacks a bit of a cluster's or group's AND cannot match anything in it. Clusters are
scanned, then the groups of those that remain, then the filters of the groups that remain. On every level eight masks
lie together word by word, so that one instruction tests a word of all of them; levels are few and runs are long,
because a mispredicted branch costs as much as several such tests.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from secroute.engine.grouping import gather, group_filters
from secroute.engine.simd import cycles, included8, lowest_bit, prefetch
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

_LANES = 8
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_CLUSTER_GROUPS = (16, 64)  # about as few and as many groups to a cluster


class Level(NamedTuple):
    """Masks in blocks of eight, word by word; parent i has the blocks ``starts[i]:starts[i + 1]``.

    ``ids`` says what each lane is, -1 for padding, whose masks have all bits set.
    """

    masks: Any
    starts: Dense
    ids: Dense

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self[:])


@njit(nogil=True, cache=True)
def _survivors(masks: Any, starts: Dense, ids: Dense, parents: Dense, count: int, absent: Any, out: Dense) -> int:
    """Write the children of ``parents`` that have no bit of ``absent`` to ``out``; how many there are.

    Arrays and not the level: taking a tuple apart again and again costs more than the tests.
    """
    words = absent.size
    used = 0
    for index in range(count):
        parent = parents[index]
        for block in range(np.int64(starts[parent]), np.int64(starts[parent + 1])):
            at = block * _LANES * words
            hits = included8(masks, at, absent[0])
            for word in range(1, words):
                hits &= included8(masks, at + word * _LANES, absent[word])
            while hits:
                child = ids[block * _LANES + lowest_bit(hits)]
                hits &= hits - np.uint32(1)
                if child >= 0:
                    out[used] = child
                    used += 1
    return used


@njit(nogil=True, cache=True)
def _ask(masks: Any, starts: Dense, parents: Dense, count: int, words: int) -> None:
    """Ask for the first block of every parent before they are needed."""
    for index in range(count):
        prefetch(masks, starts[parents[index]] * _LANES * words)


@njit(nogil=True, cache=True)
def _rows_passing(masks: Any, starts: Dense, ids: Dense, groups: Dense, count: int, absent: Any, out: Dense) -> int:
    """Write the rows of ``groups`` that have no bit of ``absent`` to ``out``; how many there are.

    As for other levels, but nearly all blocks fail in the first word.
    """
    words = absent.size
    used = 0
    for index in range(count):
        group = groups[index]
        for block in range(np.int64(starts[group]), np.int64(starts[group + 1])):
            at = block * _LANES * words
            hits = included8(masks, at, absent[0])
            if hits == np.uint32(0):
                continue
            for word in range(1, words):
                hits &= included8(masks, at + word * _LANES, absent[word])
            while hits:
                row = ids[block * _LANES + lowest_bit(hits)]
                hits &= hits - np.uint32(1)
                if row >= 0:
                    out[used] = row
                    used += 1
    return used


@njit(nogil=True, cache=True)
def descend(
    top: Level, middle: Level, bottom: Level, bits: Words, interfaces: Dense, live: Counts, stamp: Stamps, gate: Gate,
    limit: int, ticks: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Match a batch, message by message."""
    count, words = bits.shape
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(count + 16, np.int64)
    used = 0
    clusters = np.empty(top.ids.size, np.int32)
    groups = np.empty(middle.ids.size, np.int32)
    rows = np.empty(bottom.ids.size, np.int32)
    root = np.zeros(1, np.int32)
    absent = np.empty(words, np.uint64)
    begin_batch(stamp, gate)
    for number in range(count):
        for word in range(words):
            absent[word] = ~bits[number, word]
        low, now, left = begin_message(bits[number], number, stamp, gate, limit)
        if left > 0:
            found = _survivors(top.masks, top.starts, top.ids, root, 1, absent, clusters)
            _ask(middle.masks, middle.starts, clusters, found, words)
            found = _survivors(middle.masks, middle.starts, middle.ids, clusters, found, absent, groups)
            _ask(bottom.masks, bottom.starts, groups, found, words)
            found = _rows_passing(bottom.masks, bottom.starts, bottom.ids, groups, found, absent, rows)
            for row in rows[:found]:
                value = admit(row, live, interfaces, stamp, low, now) if left > 0 else -1
                if value >= 0:
                    out = put(out, used, value)
                    used += 1
                    left -= 1
        sort_answers(out, offsets[number], used)
        offsets[number + 1] = used
        if ticks.size:
            ticks[number] = cycles()
    return offsets, out[:used]


class TreeMatcher:
    """Clusters of groups of filters under what they have in common."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int, messages: Words | None = None) -> None:
        self._levels = _build(filters, messages)
        self._interfaces = interfaces
        self._interface_count = interface_count

    @property
    def nbytes(self) -> int:
        return sum(level.nbytes for level in self._levels) + int(self._interfaces.nbytes)

    def filters(self, bits: Words, live: Counts, limit: int = NO_LIMIT, ticks: Ints = NO_TICKS) -> Csr:
        none = np.zeros(0, np.int64)
        return Csr(*descend(*self._levels, bits, NO_INTERFACES, live, none, OPEN_GATE, limit, ticks))

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        stamp = np.zeros(self._interface_count, np.int64)
        return Csr(*descend(*self._levels, bits, self._interfaces, live, stamp, gate, NO_LIMIT, ticks))


def _build(filters: Words, messages: Words | None) -> tuple[Level, Level, Level]:
    if not len(filters):
        none = Level(np.zeros(0, np.uint64), np.zeros(2, np.int32), np.zeros(0, np.int32))
        return none, none, none
    rows, ends, weights = group_filters(filters, messages)
    bottom, masks = _level(filters, rows, ends)
    order, stops = gather(masks, weights, *_CLUSTER_GROUPS)
    middle, masks = _level(masks, order, stops)
    clusters = np.arange(len(masks), dtype=np.int32)
    top, _ = _level(masks, clusters, np.array([0, len(masks)]))
    return top, middle, bottom


@njit(nogil=True, cache=True)
def _level(masks: Words, order: Dense, ends: Ints) -> tuple[Level, Words]:
    """``masks`` laid out by parents (``order[ends[i]:ends[i + 1]]`` are the children of i), and the parents' ANDs."""
    words = masks.shape[1]
    parents = ends.size - 1
    starts = np.zeros(parents + 1, np.int32)
    for parent in range(parents):
        starts[parent + 1] = starts[parent] + (ends[parent + 1] - ends[parent] + _LANES - 1) // _LANES
    flat = np.full(starts[parents] * _LANES * words, _ALL_ONES)
    ids = np.full(starts[parents] * _LANES, -1, np.int32)
    common = np.full((parents, words), _ALL_ONES)
    for parent in range(parents):
        for at in range(ends[parent], ends[parent + 1]):
            place = starts[parent] * _LANES + at - ends[parent]
            ids[place] = order[at]
            block = place // _LANES * _LANES * words + place % _LANES
            for word in range(words):
                flat[block + word * _LANES] = masks[order[at], word]
                common[parent, word] &= masks[order[at], word]
    return Level(flat, starts, ids), common
