"""The tree of AND-masks: filters in groups that share bits, groups in clusters that share fewer.

UNTRUSTED side, pure. A message that lacks a bit of a cluster's or group's AND cannot match anything in it. Clusters are
scanned, then the groups of those that remain, then the filters of the groups that remain. On every level eight masks
lie together word by word, so that one instruction tests a word of all of them. What remains of a level is written as a
list of blocks of the next one: a mispredicted branch costs as much as several tests, so there are as few as possible.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from secroute.engine.grouping import gather, group_filters
from secroute.engine.simd import cycles, included8, lowest_of, prefetch, put_places, put_run
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

_LANES = 8
_CHILDREN_MAX = 64  # eight blocks: their numbers are written at once
_AHEAD = 8  # blocks; how early one is asked for
_FEW_INTERFACES = 64  # a bit each
_ONE = np.uint64(1)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_CLUSTER_GROUPS = (16, 24)  # about as few and as many groups to a cluster


class Level(NamedTuple):
    """Masks in blocks of eight, word by word. What lies at place i has the blocks ``starts[i]:starts[i + 1]`` below it.

    Padding has all bits set, and nothing below it.
    """

    masks: Any
    starts: Dense

    @property
    def nbytes(self) -> int:
        return int(self.masks.nbytes + self.starts.nbytes)


class Scratch(NamedTuple):
    """Room for the lists of one message."""

    absent: Any
    places: Dense
    blocks: Dense


@leaf
def _below(starts: Dense, places: Dense, count: int, blocks: Dense) -> int:
    """Write the blocks below ``places`` to ``blocks``; how many there are."""
    used = 0
    for index in range(count):
        begin, end = starts[places[index]], starts[places[index] + 1]
        put_run(blocks, used, begin)
        used += end - begin
    return used


@leaf
def _passing(masks: Any, blocks: Dense, count: int, absent: Any, out: Dense) -> int:
    """Write the places in ``blocks`` whose masks have no bit of ``absent`` to ``out``; how many there are."""
    words = absent.size
    used = 0
    for index in range(count):
        prefetch(masks, np.int64(blocks[index + _AHEAD]) * _LANES * words)
        at = np.int64(blocks[index]) * _LANES
        hits = included8(masks, at * words, absent[0])
        for word in range(1, words):
            hits &= included8(masks, at * words + word * _LANES, absent[word])
        used = put_places(out, used, at, hits)
    return used


@leaf
def _passing_last(masks: Any, blocks: Dense, count: int, absent: Any, out: Dense) -> int:
    """As for other levels, but nearly all blocks fail in the first word."""
    words = absent.size
    used = 0
    for index in range(count):
        prefetch(masks, np.int64(blocks[index + _AHEAD]) * _LANES * words)
        at = np.int64(blocks[index]) * _LANES
        hits = included8(masks, at * words, absent[0])
        if hits == np.uint32(0):
            continue
        for word in range(1, words):
            hits &= included8(masks, at * words + word * _LANES, absent[word])
        used = put_places(out, used, at, hits)
    return used


@leaf
def descend(
    top: Level, middle: Level, bottom: Level, ids: Dense, scratch: Scratch, bits: Words, first: int, asked: Asked,
    offsets: Ints, out: Ints, ticks: Ints,
) -> int:  # fmt: skip
    """Match a batch from message ``first`` on, message by message."""
    count, words = bits.shape
    absent, places, blocks = scratch.absent, scratch.places, scratch.blocks
    roots = top.masks.size // (_LANES * words)
    begin_batch(asked)
    for number in range(first, count):
        low, now, left = begin_message(bits[number], number, asked)
        used = offsets[number]
        if left > 0:
            for word in range(words):
                absent[word] = ~bits[number, word]
            for block in range(roots):
                blocks[block] = block
            found = _passing(top.masks, blocks, roots, absent, places)
            found = _below(top.starts, places, found, blocks)
            found = _passing(middle.masks, blocks, found, absent, places)
            found = _below(middle.starts, places, found, blocks)
            found = _passing_last(bottom.masks, blocks, found, absent, places)
            if asked.interfaces.size and asked.stamp.size <= _FEW_INTERFACES and asked.live.size == 0:
                used = _write_few(places, found, asked, low, now, out, used)
            else:
                used = _write(places, found, ids, asked, low, now, left, out, used)
        if not end_message(number, used, offsets, out):
            return number
        if ticks.size:
            ticks[number] = cycles()
    return len(bits)


@leaf
def _write(
    places: Dense, found: int, ids: Dense, asked: Asked, low: int, now: int, left: int, out: Ints, used: int
) -> int:
    """Write what the rows at ``places`` answer; the number of answers."""
    for place in places[:found]:
        value = admit(ids[place], place, asked, low, now) if ids[place] >= 0 else -1
        if value >= 0:
            used = put(out, used, value)
            left -= 1
            if left == 0:
                break
    return used


@leaf
def _write_few(places: Dense, found: int, asked: Asked, low: int, now: int, out: Ints, used: int) -> int:
    """The same for few interfaces and no tombstones: without a branch for each row, and in order."""
    answers = np.uint64(0)
    for place in places[:found]:
        answers |= _ONE << np.uint64(asked.interfaces[place])
    while answers:
        interface = lowest_of(answers)
        answers &= answers - _ONE
        if low <= asked.stamp[interface] <= now:
            used = put(out, used, interface)
    return used


class TreeMatcher:
    """Clusters of groups of filters under what they have in common."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int, messages: Words | None = None) -> None:
        self._levels, self._ids = _build(filters, messages)
        blocks = self._ids.reshape(-1, _LANES)
        # Padding passes only with the whole block: it may answer like the block's first row.
        self._interfaces = interfaces[np.where(blocks < 0, blocks[:, :1], blocks)].reshape(-1)
        self._interface_count = interface_count
        self._words = filters.shape[1]

    @property
    def nbytes(self) -> int:
        return sum(level.nbytes for level in self._levels) + int(self._ids.nbytes + self._interfaces.nbytes)

    def filters(self, bits: Words, live: Counts, limit: int = NO_LIMIT, ticks: Ints = NO_TICKS) -> Csr:
        return self._run(bits, ask_filters(live, limit), ticks)

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        return self._run(bits, ask_interfaces(self._interfaces, self._interface_count, live, gate), ticks)

    def _run(self, bits: Words, asked: Asked, ticks: Ints) -> Csr:
        places = self._ids.size
        scratch = Scratch(
            np.empty(self._words, np.uint64),
            np.empty(places + _LANES, np.int32),
            np.zeros(places // _LANES + _LANES + _AHEAD, np.int32),
        )
        return run_batch(descend, (*self._levels, self._ids, scratch), bits, asked, ticks)


class _Layout(NamedTuple):
    """Children of parents in blocks: which child is in every slot (-1: padding), and each parent's first block."""

    slots: Ints
    starts: Ints


def _build(filters: Words, messages: Words | None) -> tuple[tuple[Level, Level, Level], Dense]:
    """Top, middle and bottom, and the row at every place of the bottom (-1: padding)."""
    if not len(filters):
        none = Level(np.zeros(0, np.uint64), np.zeros(1, np.int32))
        return (none, none, none), np.zeros(0, np.int32)
    rows, ends, weights = group_filters(filters, messages)
    ends = _bounded(ends)
    groups = np.bitwise_and.reduceat(filters[rows], ends[:-1])
    order, stops = gather(groups, weights, *_CLUSTER_GROUPS)
    stops = _bounded(stops)
    rows, ends = _reorder(rows, ends, order)
    groups = groups[order]
    clusters = np.bitwise_and.reduceat(groups, stops[:-1])
    top, middle, bottom = _lay_out(np.array([0, len(clusters)])), _lay_out(stops), _lay_out(ends)
    levels = (
        Level(_in_blocks(clusters, top.slots), _by_place(middle.starts, top.slots)),
        Level(_in_blocks(groups, middle.slots), _by_place(bottom.starts, middle.slots)),
        Level(_in_blocks(filters[rows], bottom.slots), np.zeros(0, np.int32)),
    )
    return levels, np.where(bottom.slots < 0, -1, rows[bottom.slots]).astype(np.int32)


def _bounded(ends: Ints) -> Ints:
    """The same ends, with more between them where a group has more children than are allowed."""
    parts = -(-np.diff(ends) // _CHILDREN_MAX)
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    return np.append(np.repeat(ends[:-1], parts) + number * _CHILDREN_MAX, ends[-1])


def _reorder(rows: Dense, ends: Ints, order: Dense) -> tuple[Dense, Ints]:
    """Groups of rows in another order."""
    sizes = np.diff(ends)[order]
    stops = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    within = np.arange(len(rows)) - np.repeat(stops[:-1], sizes)
    return rows[np.repeat(ends[:-1][order], sizes) + within], stops


def _lay_out(ends: Ints) -> _Layout:
    sizes = np.diff(ends)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(-(-sizes // _LANES))])
    slots = np.full(starts[-1] * _LANES, -1)
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
    slots[np.repeat(starts[:-1] * _LANES, sizes) + within] = np.arange(ends[-1])
    return _Layout(slots, starts)


def _by_place(starts: Ints, slots: Ints) -> Dense:
    """``starts`` of children by the place where each lies; that of padding is where the next child's begins."""
    latest = np.maximum.accumulate(slots)
    return np.append(np.where(slots < 0, starts[latest + 1], starts[slots]), starts[-1]).astype(np.int32)


def _in_blocks(masks: Words, slots: Ints) -> Any:
    """Masks by slots, eight together word by word."""
    placed = masks[slots]
    placed[slots < 0] = _ALL_ONES
    return np.ascontiguousarray(placed.reshape(-1, _LANES, masks.shape[1]).transpose(0, 2, 1)).reshape(-1)
