"""The constraint index: from one attribute of a message to the postings of every atom it satisfies.

TRUSTED, pure. Sub-indexes (equality, ranges, text, their negations, existence) are ranges of the sorted atoms; an
attribute selects a few contiguous slices of the posting list, never atom by atom.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from secroute.exact.atoms import (
    ABSENT,
    EXISTS,
    GROUPS,
    IS,
    NUM_BELOW,
    NUM_EQ,
    NUM_FROM,
    NUM_NE,
    STR_BELOW,
    STR_EQ,
    STR_FROM,
    STR_NE,
    TEXT,
    TEXT_NOT,
    Atoms,
    Attributes,
)
from secroute.exact.columns import BOOL, NUMBER, STRING, Int32s, Int64s


class AtomIndex(NamedTuple):
    """Atoms that have postings, grouped by name; postings of atom a: ``post[a]:post[a + 1]``."""

    groups: Int32s
    """First atom of (name, group), at ``name * GROUPS + group``."""
    key: Int32s
    post: Int32s


def build_index(atoms: Atoms, atom: Int64s | Int32s, names: int) -> AtomIndex:
    """Index postings whose atoms, in posting order, are ``atom`` (ascending)."""
    used, counts = np.unique(atom, return_counts=True)
    post = np.zeros(len(used) + 1, np.int32)
    np.cumsum(counts, out=post[1:])
    cell = atoms.name[used].astype(np.int64) * GROUPS + atoms.group[used]
    groups = np.searchsorted(cell, np.arange(names * GROUPS + 1)).astype(np.int32)
    return AtomIndex(groups, atoms.key[used], post)


@nb.njit(nogil=True, cache=True, inline="always")
def _lower(keys: Any, low: int, high: int, wanted: int) -> int:
    """First place in ``low:high`` whose key is at least ``wanted``."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@nb.njit(nogil=True, cache=True, inline="always")
def _emit(post: Any, low: int, high: int, begins: Any, ends: Any, used: int) -> int:
    if low < high:
        begins[used] = post[low]
        ends[used] = post[high]
        return used + 1
    return used


@nb.njit(nogil=True, cache=True)
def _point(index: AtomIndex, cell: int, wanted: int, begins: Any, ends: Any, used: int) -> int:
    high = index.groups[cell + 1]
    at = _lower(index.key, index.groups[cell], high, wanted)
    if at < high and index.key[at] == wanted:
        return _emit(index.post, at, at + 1, begins, ends, used)
    return used


@nb.njit(nogil=True, cache=True)
def _compare(index: AtomIndex, row: int, rank: int, on: Any, begins: Any, ends: Any, used: int) -> int:
    """Slices of =, below, from and != (the groups named by ``on``) for a rank."""
    key, post, groups = index.key, index.post, index.groups
    equal, below, since, other = on
    if rank & 1:
        used = _point(index, row + equal, rank, begins, ends, used)
    low, high = groups[row + below], groups[row + below + 1]
    used = _emit(post, _lower(key, low, high, rank + 1), high, begins, ends, used)
    low, high = groups[row + since], groups[row + since + 1]
    used = _emit(post, low, _lower(key, low, high, rank + 1), begins, ends, used)
    low, high = groups[row + other], groups[row + other + 1]
    if low < high:
        at = _lower(key, low, high, rank)
        used = _emit(post, low, at, begins, ends, used)
        used = _emit(post, at + (at < high and key[at] == rank), high, begins, ends, used)
    return used


@nb.njit(nogil=True, cache=True)
def _texts(index: AtomIndex, row: int, keys: Any, start: int, stop: int, begins: Any, ends: Any, used: int) -> int:
    """Slices of the text operators and of their negations for a string's true text keys."""
    key, post, groups = index.key, index.post, index.groups
    low, high = groups[row + TEXT], groups[row + TEXT + 1]
    for k in range(start, stop):
        low = _lower(key, low, high, keys[k])
        if low == high:
            break
        if key[low] == keys[k]:
            used = _emit(post, low, low + 1, begins, ends, used)
            low += 1
    low, high = groups[row + TEXT_NOT], groups[row + TEXT_NOT + 1]
    if low < high:
        for k in range(start, stop):
            at = _lower(key, low, high, keys[k])
            used = _emit(post, low, at, begins, ends, used)
            low = at + (at < high and key[at] == keys[k])
        used = _emit(post, low, high, begins, ends, used)
    return used


_NUMBERS = (NUM_EQ, NUM_BELOW, NUM_FROM, NUM_NE)
_STRINGS = (STR_EQ, STR_BELOW, STR_FROM, STR_NE)


@nb.njit(nogil=True, cache=True)
def satisfied(index: AtomIndex, attributes: Attributes, a: int, begins: Any, ends: Any) -> int:
    """Fill in the posting slices of all atoms that attribute ``a`` satisfies; returns how many slices."""
    row = attributes.name[a] * GROUPS
    kind, rank = attributes.kind[a], attributes.rank[a]
    used = 0
    if kind == STRING:
        used = _compare(index, row, rank, _STRINGS, begins, ends, used)
        text = attributes.text[a]
        start, stop = attributes.key_offsets[text], attributes.key_offsets[text + 1]
        used = _texts(index, row, attributes.keys, start, stop, begins, ends, used)
    elif kind == NUMBER:
        used = _compare(index, row, rank, _NUMBERS, begins, ends, used)
    else:
        used = _point(index, row + IS, rank, begins, ends, used)
    return _emit(index.post, index.groups[row + EXISTS], index.groups[row + EXISTS + 1], begins, ends, used)


@nb.njit(nogil=True, cache=True)
def slices_max(attributes: Attributes) -> int:
    """Room that ``satisfied`` needs for any attribute of the batch."""
    longest = 0
    for i in range(len(attributes.key_offsets) - 1):
        longest = max(longest, attributes.key_offsets[i + 1] - attributes.key_offsets[i])
    return 8 + 2 * longest


@nb.njit(nogil=True, cache=True)
def _has_key(key_offsets: Any, keys: Any, text: int, key: int) -> Any:
    stop = key_offsets[text + 1]
    at = _lower(keys, key_offsets[text], stop, key)
    return at < stop and keys[at] == key


# The kernels below take single arrays: taking them out of a tuple for every candidate costs more than the test itself.
@nb.njit(nogil=True, cache=True)
def atom_holds(kinds: Any, ranks: Any, texts: Any, key_offsets: Any, keys: Any, a: int, group: int, key: int) -> Any:
    """Whether one atom is true of attribute ``a`` (-1: the message does not have it)."""
    if group >= EXISTS:
        return (a < 0) == (group == ABSENT)
    if a < 0:
        return False
    kind, rank = kinds[a], ranks[a]
    if group == NUM_EQ:
        return kind == NUMBER and rank == key
    if group == STR_EQ:
        return kind == STRING and rank == key
    if group == NUM_BELOW:
        return kind == NUMBER and rank < key
    if group == NUM_FROM:
        return kind == NUMBER and rank >= key
    if group == TEXT:
        return kind == STRING and _has_key(key_offsets, keys, texts[a], key)
    if group == STR_BELOW:
        return kind == STRING and rank < key
    if group == STR_FROM:
        return kind == STRING and rank >= key
    if group == NUM_NE:
        return kind == NUMBER and rank != key
    if group == STR_NE:
        return kind == STRING and rank != key
    if group == TEXT_NOT:
        return kind == STRING and not _has_key(key_offsets, keys, texts[a], key)
    return kind == BOOL and rank == key
