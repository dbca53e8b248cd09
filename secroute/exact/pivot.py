"""The pivot engine: each filter is indexed under its rarest atom alone; whoever is found there is verified.

TRUSTED, pure. Beyond the paper: counting touches a filter once for every satisfied constraint, this touches it only
when its rarest one is satisfied. Filters of one pivot are neighbours, so candidates are read as a stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from secroute.exact.atoms import ABSENT, Attributes
from secroute.exact.columns import Int32s, Int64s
from secroute.exact.filters import Filters
from secroute.exact.index import AtomIndex, atom_holds, build_index, satisfied, slices_max

SHARED = np.int32(1 << 30)  # flags of an owner, see ``match_pivot``
SINGLE = np.int32(1 << 29)
_PLAIN = np.int32(SINGLE - 1)


@dataclass(frozen=True, slots=True)
class PivotEngine:
    """Filters and the index over their pivots."""

    filters: Filters
    index: AtomIndex
    tests: Int64s
    """The filters' atoms themselves, packed, in the filters' order: looking each up by number would be a cache miss."""
    always: Int32s
    """Filters that only ask for absence: no attribute leads to them, so they are verified for every message."""

    @classmethod
    def build(cls, filters: Filters, *, rounds: int = 0, masks: bool = True) -> PivotEngine:
        """Index the pivots. Selectivity rounds do not apply: excluding interfaces costs more than it saves here."""
        pivot = filters.atom[filters.first[:-1]]
        index = build_index(filters.atoms, pivot, len(filters.dictionary.names))
        name, group, key = filters.atoms
        packed = name.astype(np.int64) << 36 | group.astype(np.int64) << 32 | key
        always = np.flatnonzero(group[pivot] == ABSENT).astype(np.int32)
        return cls(filters, index, packed[filters.atom], always)

    def match(self, attributes: Attributes, owner: Int32s, done: Int32s, left: int) -> tuple[Int64s, Int32s]:
        """Offsets and owners of the filters that match (``done`` and ``left``: see ``match_pivot``)."""
        f = self.filters
        names = len(f.dictionary.names)
        result: tuple[Int64s, Int32s] = match_pivot(
            self.index, attributes, f.first, self.tests, f.mask, self.always, owner, done, left, names
        )
        return result

    @property
    def nbytes(self) -> int:
        """Bytes of the index beyond the filters."""
        return sum(part.nbytes for part in self.index) + self.tests.nbytes + self.always.nbytes


@nb.njit(nogil=True, cache=True)
def grown(values: Any) -> Any:
    """A longer array with the same beginning."""
    longer = np.empty(2 * len(values), values.dtype)
    longer[: len(values)] = values
    return longer


@nb.njit(nogil=True, cache=True)
def _verified(
    tests: Any,
    low: int,
    high: int,
    slot: Any,
    kinds: Any,
    ranks: Any,
    texts: Any,
    key_offsets: Any,
    keys: Any,
) -> bool:
    """Whether the tests ``low:high`` are true of the message whose attributes are in ``slot``."""
    while low < high:
        test = tests[low]
        a = slot[test >> 36]
        if not atom_holds(kinds, ranks, texts, key_offsets, keys, a, (test >> 32) & 15, test & 0xFFFFFFFF):
            return False
        low += 1
    return True


@nb.njit(nogil=True, cache=True)
def match_pivot(
    index: AtomIndex,
    attributes: Attributes,
    first: Any,
    tests: Any,
    mask: Any,
    always: Any,
    owner: Any,
    done: Any,
    left: int,
    names: int,
) -> Any:
    """Owners of matching filters per message, each once.

    ``owner`` is -1 for a removed filter. It has the bit ``SHARED`` if the owner has several filters (an owner of one
    needs no check, which would be a cache miss) and ``SINGLE`` if the filter has no atom but its pivot. ``done[o]`` is
    the last message (from 1) that o was output for, or more than any for one not asked about; ``left`` counts those
    asked about: when all are output, the message is done.
    """
    _, _, kinds, ranks, texts, key_offsets, keys = attributes
    count = len(attributes.offsets) - 1
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(1024, np.int32)
    used = 0
    slot = np.full(names, -1, np.int32)
    room = slices_max(attributes)
    begins, ends = np.empty(room, np.int32), np.empty(room, np.int32)
    for m in range(count):
        start, stop = attributes.offsets[m], attributes.offsets[m + 1]
        have = np.uint64(0)
        for a in range(start, stop):
            name = attributes.name[a]
            if name >= 0:
                slot[name] = a
                have |= np.uint64(1) << np.uint64(name & 63)
        lacks = ~have
        limit = used + left
        for a in range(start, stop):
            if attributes.name[a] < 0 or used == limit:
                continue
            slices = satisfied(index, attributes, a, begins, ends)
            for s in range(slices):
                for f in range(begins[s], ends[s]):
                    o = owner[f]
                    if o < 0 or (not o & SINGLE and mask[f] & lacks):
                        continue
                    shared, single = o & SHARED, o & SINGLE
                    o &= _PLAIN
                    if shared and done[o] > m:
                        continue
                    if not single and not _verified(
                        tests, first[f] + 1, first[f + 1], slot, kinds, ranks, texts, key_offsets, keys
                    ):
                        continue
                    if shared:
                        done[o] = m + 1
                    if used == len(out):
                        out = grown(out)
                    out[used] = o
                    used += 1
                    if used == limit:
                        break
                if used == limit:
                    break
        for i in range(len(always)):
            f = always[i]
            if owner[f] < 0:
                continue
            shared, o = owner[f] & SHARED, owner[f] & _PLAIN
            if shared and done[o] > m:
                continue
            low, high = first[f], first[f + 1]
            if _verified(tests, low, high, slot, kinds, ranks, texts, key_offsets, keys):
                if shared:
                    done[o] = m + 1
                if used == len(out):
                    out = grown(out)
                out[used] = o
                used += 1
        for a in range(start, stop):
            if attributes.name[a] >= 0:
                slot[attributes.name[a]] = -1
        offsets[m + 1] = used
    return offsets, out[:used].copy()
