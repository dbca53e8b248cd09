"""Groups of filters that share many bits which few messages have together.

UNTRUSTED side, pure. Filters are made of tokens, and a token's bits come together in all filters that have it; nobody
tells the engine which bits those are, but they can be found. In a short list of filters that have two or three bits in
common, pairs of further bits that occur together more often than chance point at a token; following such a pair
greedily ends at all its bits, and the filters that have them become a group. Sweeps over all bits ask less and less of
a group, until few filters are left.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from secroute.engine.bitmaps import (
    Sample,
    all_bitmaps,
    bitmaps_of,
    count_bits,
    extend,
    fill_ones,
    surprise,
)
from secroute.engine.counting import postings_of
from secroute.engine.simd import count_common, lowest_of
from secroute.engine.types import Dense, Ints
from secroute.opaque import Words

_ONE = np.uint64(1)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_GROUP_MIN = 8  # rows; one block
_GROUP_USUAL = 64  # larger groups are narrowed further
_GROUP_GOOD = 32.0  # a group of fewer rows must be the more surprising
_SLOTS = 64  # bits looked at in one list
_LIST_WORDS = 64
_LIST_ROWS = _LIST_WORDS * 64
_OUTER_ROWS = 20_480
_DIRECT_ROWS = 1_024  # lists this short need no further bit
_BASE_MAX = 8
_TRIES_MAX = 64
_NARROW_WORDS = 8  # up to here all bitmaps are made by turning squares
_FAILS_MAX = 5
_PAIR_SIGMAS = 2.0
_CLOSURE_MARGIN = 1.6  # what bits outside the slots may still add to a group's surprise
_ROWS_A_LIST = 260  # rows of the table for one list of a sweep
_NARROWINGS_MAX = 20

SWEEPS = (0.23, 0.23, 0.22, 0.19, 0.15, 0.125)
"""What each sweep asks of a group: surprise, as a share of that of an average whole filter."""


class _Bench(NamedTuple):
    """The work bench of one list: its rows, their bitmaps in slots, and what the slots stand for."""

    rows: Words
    ids: Dense
    bitmaps: Any
    every: Any
    square: Any
    alive: Any
    chosen: Any
    messages: Any
    common: Any
    counts: Ints
    slots: Ints
    bits: Ints
    is_base: Any
    scores: Any
    pair_scores: Any
    pairs: Ints


def _bench(words: int, sample_words: int) -> _Bench:
    bits = words * 64
    every = bits if words <= _NARROW_WORDS else 0
    return _Bench(
        np.zeros((_LIST_ROWS, words), np.uint64), np.zeros(_LIST_ROWS, np.int32),
        np.zeros(_SLOTS * _LIST_WORDS, np.uint64), np.zeros(every * _LIST_WORDS, np.uint64), np.zeros(64, np.uint64),
        np.zeros(_LIST_WORDS, np.uint64), np.zeros(_LIST_WORDS, np.uint64), np.zeros(sample_words, np.uint64),
        np.zeros(sample_words, np.uint64), np.zeros(bits, np.int64), np.full(bits, -1, np.int64),
        np.zeros(_SLOTS, np.int64), np.zeros(bits, np.bool_), np.zeros(bits), np.zeros(_SLOTS),
        np.zeros(_SLOTS, np.int64),
    )  # fmt: skip


def mine_groups(filters: Words, sample: Sample, weights: Any) -> tuple[Dense, Ints, Dense]:
    """Rows group by group, where groups begin and end, and the rows that are in none."""
    starts, posted, _ = postings_of(filters)
    alive = np.ones(len(filters), np.bool_)
    whole = float((np.diff(starts) * weights).sum()) / len(filters)
    lists = max(1, len(filters) // _ROWS_A_LIST // (filters.shape[1] * 64))
    rows, ends = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for number, share in enumerate(SWEEPS):
        bench = _bench(filters.shape[1], sample.words)
        order = np.random.default_rng(number).permutation(filters.shape[1] * 64)
        demand = share * whole
        found = _sweep(
            filters, starts, posted, alive, sample, bench, order, min(lists, _NARROWINGS_MAX), demand, number
        )
        ends.append(found[1][1:] + sum(map(len, rows)))
        rows.append(found[0])
        if np.count_nonzero(alive) < len(filters) // 100:
            break
    return np.concatenate(rows), np.concatenate(ends), np.flatnonzero(alive).astype(np.int32)


@njit(nogil=True, cache=True)
def _sweep(
    filters: Words, starts: Ints, posted: Dense, alive: Any, sample: Sample, bench: _Bench, order: Ints,
    narrowings: int, demand: float, seed: int,
) -> tuple[Dense, Ints]:  # fmt: skip
    """One list for every bit and narrowing, mined; the groups found leave ``alive``."""
    np.random.seed(seed)
    out = np.empty(alive.size, np.int32)
    ends = np.zeros(alive.size // _GROUP_MIN + 2, np.int64)
    groups = 0
    outer = np.empty(alive.size, np.int32)
    near = np.empty((_OUTER_ROWS, filters.shape[1]), np.uint64)
    base = np.empty(_BASE_MAX + 1, np.int64)
    best = np.empty(_NARROWINGS_MAX, np.int64)
    for bit in order:
        count, used = _outer_list(filters, posted[starts[bit] : starts[bit + 1]], bit, alive, bench, base, outer)
        if count < _GROUP_MIN or count > _OUTER_ROWS:
            continue
        for at in range(count):
            near[at] = filters[outer[at]]
        if count <= _DIRECT_ROWS:
            listed = _inner_list(near, outer, count, -1, alive, bench)
            groups = _mine_list(sample, bench, base[:used], listed, demand, alive, out, ends, groups)
            continue
        count_bits(near, count, bench.counts)
        for narrowing in range(_best_bits(sample, bench, base[:used], count, best[:narrowings])):
            base[used] = best[narrowing]
            listed = _inner_list(near, outer, count, best[narrowing], alive, bench)
            groups = _mine_list(sample, bench, base[: used + 1], listed, demand, alive, out, ends, groups)
            bench.is_base[best[narrowing]] = False
    return out[: ends[groups]], ends[: groups + 1]


@njit(nogil=True, cache=True)
def _outer_list(
    filters: Words, posted: Dense, bit: int, alive: Any, bench: _Bench, base: Ints, outer: Dense
) -> tuple[int, int]:
    """Living rows that have ``bit``, and further random bits until they are few: (rows, bits in ``base``)."""
    bench.is_base[:] = False
    bench.is_base[bit] = True
    base[0] = bit
    used = 1
    count = 0
    for row in posted:
        outer[count] = row
        count += 1 if alive[row] else 0
    tries = 0
    while count > _OUTER_ROWS and used < _BASE_MAX and tries < _TRIES_MAX:
        tries += 1
        bit = np.random.randint(bench.is_base.size)
        if bench.is_base[bit]:
            continue
        kept = 0
        mask = _ONE << np.uint64(bit & 63)
        for at in range(count):
            outer[kept] = outer[at]
            kept += 1 if filters[outer[at], bit >> 6] & mask else 0
        if kept == 0:
            continue
        count = kept
        bench.is_base[bit] = True
        base[used] = bit
        used += 1
    return count, used


@njit(nogil=True, cache=True)
def _inner_list(near: Words, outer: Dense, count: int, bit: int, alive: Any, bench: _Bench) -> int:
    """Copy the rows of a list that live and have ``bit`` (any, if it is -1) to the bench; how many there are."""
    listed = 0
    mask = _ONE << np.uint64(bit & 63) if bit >= 0 else np.uint64(0)
    for at in range(count):
        if (bit < 0 or near[at, bit >> 6] & mask) and alive[outer[at]] and listed < _LIST_ROWS:
            bench.rows[listed] = near[at]
            bench.ids[listed] = outer[at]
            listed += 1
    return listed


@njit(nogil=True, cache=True)
def _best_bits(sample: Sample, bench: _Bench, base: Ints, count: int, best: Ints) -> int:
    """The bits that narrow a list of ``count`` rows best: most surprising to messages, for the fewest rows lost."""
    bench.messages[:] = _ALL_ONES
    for bit in base:
        extend(sample, bit, bench.messages)
    among = count_common(bench.messages, 0, bench.messages, sample.words)
    scores = bench.scores
    for bit in range(scores.size):
        scores[bit] = -1.0
        have = bench.counts[bit]
        if _GROUP_MIN <= have < count and not bench.is_base[bit]:
            seen = count_common(sample.bits, bit * sample.words, bench.messages, sample.words)
            scores[bit] = surprise(seen, among, sample.share[bit]) / (np.log(count / have) + 0.1)
    enough = max(0.0, np.partition(scores, scores.size - best.size)[scores.size - best.size])
    used = 0
    for bit in range(scores.size):
        if scores[bit] > 0 and scores[bit] >= enough and used < best.size:
            best[used] = bit
            used += 1
    return used


@njit(nogil=True, cache=True)
def _mine_list(
    sample: Sample, bench: _Bench, base: Ints, listed: int, demand: float, alive: Any, out: Dense, ends: Ints,
    groups: int,
) -> int:  # fmt: skip
    """Take groups out of the list on the bench; the number of groups so far."""
    if listed < _GROUP_MIN:
        return groups
    for bit in base:
        bench.is_base[bit] = True
    words = fill_ones(bench.alive, listed)
    slots = _fill_slots(sample, bench, base, listed, words)
    bench.common[:] = _ALL_ONES
    before = 0.0
    for bit in base:
        before += extend(sample, bit, bench.common)
    fails = 0
    for pair in _likely_pairs(bench, slots, listed, words):
        if fails == _FAILS_MAX:
            break
        size, gained = _follow(sample, bench, slots, words, pair, before, demand)
        if size == 0:
            continue
        if gained + np.log(size / _GROUP_GOOD) < demand:
            fails += 1
            continue
        fails = 0
        groups += 1
        ends[groups] = _take(bench, words, alive, out, ends[groups - 1])
    return groups


@njit(nogil=True, cache=True)
def _fill_slots(sample: Sample, bench: _Bench, base: Ints, listed: int, words: int) -> int:
    """Choose the bits worth looking at in the list and make their bitmaps; how many there are."""
    narrow = bench.every.size > 0
    if narrow:
        all_bitmaps(bench.rows, listed, bench.every, _LIST_WORDS, bench.square)
        for bit in range(bench.counts.size):
            bench.counts[bit] = count_common(bench.every, bit * _LIST_WORDS, bench.alive, words)
    else:
        count_bits(bench.rows, listed, bench.counts)
    used = _best_bits(sample, bench, base, listed, bench.bits)
    bench.slots[:] = -1
    for slot in range(used):
        bench.slots[bench.bits[slot]] = slot
        if narrow:
            at = bench.bits[slot] * _LIST_WORDS
            bench.bitmaps[slot * _LIST_WORDS :][:words] = bench.every[at : at + words]
    if not narrow:
        bitmaps_of(bench.rows, listed, bench.slots, bench.bitmaps, _LIST_WORDS)
    return used


@njit(nogil=True, cache=True)
def _likely_pairs(bench: _Bench, slots: int, listed: int, words: int) -> Ints:
    """For every slot the later one that it meets most surprisingly often, ``first * _SLOTS + second``, best first."""
    found = 0
    for first in range(slots):
        bench.chosen[:words] = bench.bitmaps[first * _LIST_WORDS :][:words]
        best = _PAIR_SIGMAS
        partner = -1
        for second in range(first + 1, slots):
            both = count_common(bench.bitmaps, second * _LIST_WORDS, bench.chosen, words)
            if both >= _GROUP_MIN:
                chance = bench.counts[bench.bits[first]] * float(bench.counts[bench.bits[second]]) / listed
                sigmas = (both - chance) / np.sqrt(chance)
                if sigmas > best:
                    best = sigmas
                    partner = second
        if partner >= 0:
            bench.pair_scores[found] = -best
            bench.pairs[found] = first * _SLOTS + partner
            found += 1
    return bench.pairs[:found][np.argsort(bench.pair_scores[:found])]


@njit(nogil=True, cache=True)
def _follow(
    sample: Sample, bench: _Bench, slots: int, words: int, pair: int, before: float, demand: float
) -> tuple[int, float]:
    """Narrow the living rows by a pair of bits and then greedily: (rows left in ``chosen``, surprise of their bits)."""
    first, second = pair // _SLOTS, pair % _SLOTS
    for word in range(words):
        both = bench.bitmaps[first * _LIST_WORDS + word] & bench.bitmaps[second * _LIST_WORDS + word]
        bench.chosen[word] = bench.alive[word] & both
    size = count_common(bench.chosen, 0, bench.chosen, words)
    if size < _GROUP_MIN:
        return 0, 0.0
    bench.messages[:] = bench.common
    gained = before + extend(sample, bench.bits[first], bench.messages)
    gained += extend(sample, bench.bits[second], bench.messages)
    taken = (_ONE << np.uint64(first)) | (_ONE << np.uint64(second))
    while True:
        slot, have = _next_slot(sample, bench, slots, words, size, taken)
        if slot < 0:
            break
        size = have
        taken |= _ONE << np.uint64(slot)
        gained += extend(sample, bench.bits[slot], bench.messages)
        for word in range(words):
            bench.chosen[word] &= bench.bitmaps[slot * _LIST_WORDS + word]
    if gained + _CLOSURE_MARGIN + np.log(size / _GROUP_GOOD) >= demand:
        gained += _closure(sample, bench, words, taken)
    return size, gained


@njit(nogil=True, cache=True)
def _next_slot(sample: Sample, bench: _Bench, slots: int, words: int, size: int, taken: np.uint64) -> tuple[int, int]:
    """The slot that narrows ``size`` chosen rows best and the rows that have it; (-1, 0) if they are better left."""
    among = count_common(bench.messages, 0, bench.messages, sample.words)
    least = max(_GROUP_MIN, (size + 1) // 2) if size <= _GROUP_USUAL else _GROUP_MIN
    best = 0.0
    chosen = -1
    rows = 0
    for slot in range(slots):
        if (taken >> np.uint64(slot)) & _ONE:
            continue
        have = count_common(bench.bitmaps, slot * _LIST_WORDS, bench.chosen, words)
        if have < least:
            continue
        bit = bench.bits[slot]
        seen = count_common(sample.bits, bit * sample.words, bench.messages, sample.words)
        score = surprise(seen, among, sample.share[bit]) / (np.log(size / have) + 0.1)
        if score > best:
            best = score
            chosen = slot
            rows = have
    return chosen, rows


@njit(nogil=True, cache=True)
def _closure(sample: Sample, bench: _Bench, words: int, taken: np.uint64) -> float:
    """The surprise of the bits that all chosen rows have besides those that they were chosen by."""
    common = np.full(bench.rows.shape[1], _ALL_ONES)
    for word in range(words):
        rest = bench.chosen[word]
        while rest:
            common &= bench.rows[word * 64 + lowest_of(rest)]
            rest &= rest - _ONE
    gained = 0.0
    for word in range(common.size):
        rest = common[word]
        while rest:
            bit = word * 64 + lowest_of(rest)
            rest &= rest - _ONE
            slot = bench.slots[bit]
            if not bench.is_base[bit] and (slot < 0 or not (taken >> np.uint64(slot)) & _ONE):
                gained += extend(sample, bit, bench.messages)
    return gained


@njit(nogil=True, cache=True)
def _take(bench: _Bench, words: int, alive: Any, out: Dense, used: int) -> int:
    """Append the chosen rows to ``out`` and let them live no longer; the rows in ``out``."""
    for word in range(words):
        rest = bench.chosen[word]
        bench.alive[word] &= ~rest
        while rest:
            row = bench.ids[word * 64 + lowest_of(rest)]
            rest &= rest - _ONE
            alive[row] = False
            out[used] = row
            used += 1
    return used
