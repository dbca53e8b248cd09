"""The multi-operator string index: one sorted array that serves =, <, <=, >, >=, prefix, suffix, substring and LIKE.

TRUSTED, pure. The constants of a table stand in UTF-8 order, each with a link to the longest other constant that is a
proper prefix of it (a trie folded into an array). One search finds a string's rank; the links from there give every
constant that is a prefix of it; repeating from each character gives suffixes and substrings, as in the paper's trie.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numba as nb
import numpy as np

from secroute.content.predicate import Pattern
from secroute.exact.columns import Bytes, Int32s, Int64s

PREFIX, SUFFIX, SUBSTRING = range(3)
"""Operator of a text key: ``3 * constant + operator``; LIKE patterns follow after ``3 * constants``."""


class StringIndex(NamedTuple):
    """The arrays that the compiled search reads."""

    text: Bytes
    offsets: Int64s
    parent: Int32s
    asked: Bytes
    """Per constant, bit o is set if some constraint asks operator o of it."""
    bucket: Int32s
    """First constant whose first byte is at least b (the empty constant stands before all)."""
    anchor_offsets: Int32s
    anchored: Int32s
    """LIKE patterns by the constant that is their longest part."""
    part_text: Bytes
    part_offsets: Int64s
    like_offsets: Int32s
    """Parts of pattern i: ``like_offsets[i]:like_offsets[i + 1]``."""


def longest_part(pattern: Pattern) -> str:
    """The part of a pattern that is looked up; the others are checked only where it occurs."""
    return max(pattern.parts, key=len)


def _pack(texts: Iterable[bytes]) -> tuple[Bytes, Int64s]:
    listed = list(texts)
    offsets = np.zeros(len(listed) + 1, np.int64)
    np.cumsum([len(text) for text in listed], out=offsets[1:])
    return np.frombuffer(b"".join(listed), np.uint8), offsets


def build_strings(constants: list[bytes], asked: Bytes, patterns: list[Pattern]) -> StringIndex:
    """Index constants that are distinct and sorted; every pattern's longest part is among them."""
    text, offsets = _pack(constants)
    first = [constant[0] if constant else -1 for constant in constants]
    bucket = np.searchsorted(np.array(first, np.int64), np.arange(258)).astype(np.int32)
    place = {constant: i for i, constant in enumerate(constants)}
    anchors = np.array([place[longest_part(pattern).encode()] for pattern in patterns], np.int64)
    anchor_offsets = np.zeros(len(constants) + 1, np.int32)
    np.cumsum(np.bincount(anchors, minlength=len(constants)), out=anchor_offsets[1:])
    part_text, part_offsets = _pack(part.encode() for pattern in patterns for part in pattern.parts)
    like_offsets = np.zeros(len(patterns) + 1, np.int32)
    np.cumsum([len(pattern.parts) for pattern in patterns], out=like_offsets[1:])
    return StringIndex(
        text,
        offsets,
        _parents(text, offsets),
        asked,
        bucket,
        anchor_offsets,
        np.argsort(anchors, kind="stable").astype(np.int32),
        part_text,
        part_offsets,
        like_offsets,
    )


@nb.njit(nogil=True, cache=True)
def _is_prefix(text: Any, start: int, stop: int, other: Any, at: int, end: int) -> bool:
    size = stop - start
    if size > end - at:
        return False
    i = 0
    while i < size and text[start + i] == other[at + i]:
        i += 1
    return i == size


@nb.njit(nogil=True, cache=True)
def _parents(text: Any, offsets: Any) -> Any:
    """In sorted order the constants that are prefixes of the current one form a stack."""
    count = len(offsets) - 1
    parent = np.full(count, -1, np.int32)
    for i in range(1, count):
        j = np.int32(i - 1)
        while j >= 0 and not _is_prefix(text, offsets[j], offsets[j + 1], text, offsets[i], offsets[i + 1]):
            j = parent[j]
        parent[i] = j
    return parent


@nb.njit(nogil=True, cache=True)
def _find(text: Any, at: int, stop: int, part: Any, start: int, end: int) -> int:
    """Leftmost place of a part within ``text[at:stop]``, or -1."""
    size = end - start
    while at + size <= stop:
        i = 0
        while i < size and text[at + i] == part[start + i]:
            i += 1
        if i == size:
            return at
        at += 1
    return -1


@nb.njit(nogil=True, cache=True)
def _like(index: StringIndex, pattern: int, text: Any, start: int, stop: int) -> bool:
    """Whether the parts occur in order, the outer two at the ends; bytes agree with code points in UTF-8."""
    offsets, first, last = index.part_offsets, index.like_offsets[pattern], index.like_offsets[pattern + 1] - 1
    head = offsets[first + 1] - offsets[first]
    tail = offsets[last + 1] - offsets[last]
    at, end = start + head, stop - tail
    if end < at:
        return False
    if _find(text, start, at, index.part_text, offsets[first], offsets[first + 1]) != start:
        return False
    if _find(text, end, stop, index.part_text, offsets[last], offsets[last + 1]) != end:
        return False
    for part in range(first + 1, last):
        at = _find(text, at, end, index.part_text, offsets[part], offsets[part + 1])
        if at < 0:
            return False
        at += offsets[part + 1] - offsets[part]
    return True


@nb.njit(nogil=True, cache=True)
def _predecessor(index: StringIndex, text: Any, at: int, stop: int) -> Any:
    """The last constant not above ``text[at:stop]`` (-1 if none), and how many bytes they share."""
    constants, offsets = index.text, index.offsets
    low, high = 0, len(offsets) - 1
    if at < stop:
        low, high = index.bucket[text[at]], index.bucket[text[at] + 1]
    elif high > 0 and offsets[1] > 0:
        high = 0
    else:
        high = min(high, 1)
    shared_low = 0
    while low < high:
        middle = (low + high) >> 1
        start, size = offsets[middle], offsets[middle + 1] - offsets[middle]
        most = min(size, stop - at)
        i = 0
        while i < most and constants[start + i] == text[at + i]:
            i += 1
        above = constants[start + i] > text[at + i] if i < most else size > stop - at
        if above:
            high = middle
        else:
            low = middle + 1
            shared_low = i
    # The predecessor may stand before the bucket; then it shares nothing and only the empty constant is a prefix.
    return low - 1, shared_low


@nb.njit(nogil=True, cache=True)
def _push(keys: Any, used: int, key: int) -> Any:
    if used == len(keys):
        longer = np.empty(2 * used, np.int32)
        longer[:used] = keys
        keys = longer
    keys[used] = key
    return keys


@nb.njit(nogil=True, cache=True)
def resolve_strings(index: StringIndex, text: Any, offsets: Any) -> Any:
    """Of each string: its rank (as ``rank_numbers``), and its true text keys in ascending order (CSR)."""
    count, constants = len(offsets) - 1, len(index.parent)
    ranks = np.zeros(count, np.int32)
    key_offsets = np.zeros(count + 1, np.int64)
    keys = np.empty(max(16, 4 * count), np.int32)
    seen = np.full(constants, -1, np.int32)
    sizes = index.offsets
    used = 0
    for s in range(count):
        start, stop = offsets[s], offsets[s + 1]
        begin = used
        at = start
        while True:
            if at == start or (text[at] & 0xC0) != 0x80:
                j, shared = _predecessor(index, text, at, stop)
                if at == start:
                    exact = j >= 0 and shared == stop - at and sizes[j + 1] - sizes[j] == shared
                    ranks[s] = 2 * j + 1 if exact else 2 * j + 2
                while j >= 0 and sizes[j + 1] - sizes[j] > shared:
                    j = index.parent[j]
                if j >= 0 and sizes[j + 1] - sizes[j] == stop - at and index.asked[j] & (1 << SUFFIX):
                    keys = _push(keys, used, 3 * j + SUFFIX)
                    used += 1
                # Whoever was seen before was seen with all that are its prefixes.
                while j >= 0 and seen[j] != s:
                    seen[j] = s
                    if at == start and index.asked[j] & (1 << PREFIX):
                        keys = _push(keys, used, 3 * j + PREFIX)
                        used += 1
                    if index.asked[j] & (1 << SUBSTRING):
                        keys = _push(keys, used, 3 * j + SUBSTRING)
                        used += 1
                    for k in range(index.anchor_offsets[j], index.anchor_offsets[j + 1]):
                        pattern = index.anchored[k]
                        if _like(index, pattern, text, start, stop):
                            keys = _push(keys, used, 3 * constants + pattern)
                            used += 1
                    j = index.parent[j]
            at += 1
            if at >= stop:
                break
        keys[begin:used].sort()
        key_offsets[s + 1] = used
    return ranks, key_offsets, keys[:used].copy()
