"""Evaluating a shared BDD for 64 messages at a time: one pass over the node array, children before parents.

TRUSTED, pure. A reference to a node is twice its place, plus one if the edge is complemented; place 0 is the constant
true. Nodes of one variable are neighbours, so a variable that no message of a block defines is skipped as a whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from secroute.exact.atoms import Atoms, Attributes
from secroute.exact.columns import Int32s
from secroute.exact.index import atom_holds

Planes = npt.NDArray[np.uint64]
"""Rows of words: bit b of word w belongs to message ``64 w + b``."""


class Nodes(NamedTuple):
    """Node i of variable ``variable[r]`` for ``start[r] <= i < start[r + 1]``; children stand before parents."""

    variable: Int32s
    start: Int32s
    low: Int32s
    high: Int32s


@nb.njit(nogil=True, cache=True)
def atom_planes(attributes: Attributes, atoms: Atoms, atom: Any, names: int, order: Any) -> Any:
    """Per atom: for which of the messages ``order`` it is true; per name: which of them define it."""
    _, name, kinds, ranks, texts, key_offsets, keys = attributes
    atom_name, atom_group, atom_key = atoms
    count = len(order)
    truth = np.zeros((len(atom), (count + 63) // 64), np.uint64)
    defined = np.zeros((names, (count + 63) // 64), np.uint64)
    slot = np.full(names, -1, np.int32)
    for m in range(count):
        word, bit = m >> 6, np.uint64(1) << np.uint64(m & 63)
        start, stop = attributes.offsets[order[m]], attributes.offsets[order[m] + 1]
        for a in range(start, stop):
            if name[a] >= 0:
                slot[name[a]] = a
                defined[name[a], word] |= bit
        for i in range(len(atom)):
            c = atom[i]
            if atom_holds(kinds, ranks, texts, key_offsets, keys, slot[atom_name[c]], atom_group[c], atom_key[c]):
                truth[i, word] |= bit
        for a in range(start, stop):
            if name[a] >= 0:
                slot[name[a]] = -1
    return truth, defined


@nb.njit(nogil=True, cache=True)
def adequacy(defined: Any, offsets: Any, name: Any) -> Any:
    """Per set of names: which messages define them all."""
    adequate = np.full((len(offsets) - 1, defined.shape[1]), ~np.uint64(0))
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            adequate[i] &= defined[name[j]]
    return adequate


@nb.njit(nogil=True, cache=True)
def eval_bdd(nodes: Nodes, truth: Any, word: int, value: Any) -> None:
    """``EvalBDD``: the value of every node for the messages of one word."""
    variable, start, low, high = nodes
    value[0] = ~np.uint64(0)
    for r in range(len(variable)):
        x = truth[variable[r], word]
        for i in range(start[r], start[r + 1]):
            then = value[high[i] >> 1] ^ (np.uint64(0) - np.uint64(high[i] & 1))
            other = value[low[i] >> 1] ^ (np.uint64(0) - np.uint64(low[i] & 1))
            value[i] = other ^ (x & (then ^ other))


@nb.njit(nogil=True, cache=True)
def eval_bdd_partial(nodes: Nodes, truth: Any, known: Any, word: int, value: Any, valued: Any) -> None:
    """``MVEvalBDD``: as above with a third value; a node whose variable is undefined does not look at its children."""
    variable, start, low, high = nodes
    value[0] = valued[0] = ~np.uint64(0)
    for r in range(len(variable)):
        x, defined = truth[variable[r], word], known[variable[r], word]
        if defined == 0:
            valued[start[r] : start[r + 1]] = 0
            continue
        for i in range(start[r], start[r + 1]):
            h, l = high[i] >> 1, low[i] >> 1  # noqa: E741
            both = defined & valued[h] & valued[l]
            valued[i] = both
            if both:
                then = value[h] ^ (np.uint64(0) - np.uint64(high[i] & 1))
                other = value[l] ^ (np.uint64(0) - np.uint64(low[i] & 1))
                value[i] = other ^ (x & (then ^ other))


_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACE = np.zeros(64, np.uint8)
for _i in range(64):
    _PLACE[(int(_DE_BRUIJN) << _i & 2**64 - 1) >> 58] = _i


@nb.njit(nogil=True, cache=True, inline="always")
def _lowest(bits: Any) -> Any:
    """Place of the lowest set bit: multiplied with it, the constant shows six bits that no other place shows."""
    return np.int64(_PLACE[((bits & (~bits + np.uint64(1))) * _DE_BRUIJN) >> np.uint64(58)])


@nb.njit(nogil=True, cache=True)
def match_words(
    nodes: Nodes, size: int, roots: Any, truth: Any, known: Any, adequate: Any, need: Any, partial: bool, count: int
) -> Any:
    """Offsets and subscriptions per message; with ``partial``, only where defined and adequate (plane ``need[q]``)."""
    value, valued = np.empty(size, np.uint64), np.empty(size if partial else 1, np.uint64)
    found = np.empty(len(roots), np.uint64)
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(4096, np.int64)
    used = 0
    words = (count + 63) // 64
    for word in range(words):
        if partial:
            eval_bdd_partial(nodes, truth, known, word, value, valued)
        else:
            eval_bdd(nodes, truth, word, value)
        inside = ~np.uint64(0)
        if count - 64 * word < 64:
            inside = (np.uint64(1) << np.uint64(count - 64 * word)) - np.uint64(1)
        sizes = np.zeros(65, np.int64)
        for q in range(len(roots)):
            node = roots[q] >> 1
            bits = inside
            if partial:
                bits &= valued[node] & adequate[need[q], word]
            if bits:
                bits &= value[node] ^ (np.uint64(0) - np.uint64(roots[q] & 1))
            found[q] = bits
            while bits:
                sizes[_lowest(bits) + 1] += 1
                bits &= bits - np.uint64(1)
        sizes = np.cumsum(sizes)
        needed = used + sizes[64]
        if needed > len(out):
            # Room for what all words will need if they are like those so far: touching new memory is the larger cost.
            longer = np.empty(needed + needed // 16 + needed // (word + 1) * (words - word - 1), np.int64)
            longer[:used] = out[:used]
            out = longer
        for b in range(min(64, count - 64 * word)):
            offsets[64 * word + b + 1] = used + sizes[b + 1]
        for q in range(len(roots)):
            bits = found[q]
            while bits:
                b = _lowest(bits)
                out[used + sizes[b]] = q
                sizes[b] += 1
                bits &= bits - np.uint64(1)
        used = offsets[min(count, 64 * word + 64)]
    return offsets, out[:used]
