"""The counting engine: the SIGCOMM 2003 forwarding algorithm, with its selectivity table and name masks.

TRUSTED, pure. Each satisfied constraint bumps a counter of each of its filters; a filter whose counter reaches its size
outputs its interface, which is then excluded. Absence is not counted up: a filter asks for it by default and is
struck out when the name is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from secroute.exact.atoms import ABSENT, GROUPS, Attributes
from secroute.exact.columns import Bytes, Int32s, Int64s
from secroute.exact.filters import Filters
from secroute.exact.index import AtomIndex, build_index, satisfied, slices_max
from secroute.exact.pivot import grown
from secroute.exact.selectivity import Determinants, determinants

_STEP = 1024  # counters of message m count up from m * _STEP, so they never need clearing; a filter has <= 256 atoms
_CHUNK = 2**31 // _STEP - 2
_STRUCK = 512  # beyond any size, and below _STEP even after every atom was counted


@dataclass(frozen=True, slots=True)
class CountingEngine:
    """Filters, the index over all their atoms, and where each atom leads."""

    filters: Filters
    index: AtomIndex
    posting: Int32s
    size: Int32s
    """Atoms that must be counted (all but absences)."""
    always: Int32s
    """Filters that only ask for absence."""
    rounds: int
    masks: bool

    @classmethod
    def build(cls, filters: Filters, *, rounds: int = 10, masks: bool = True) -> CountingEngine:
        """Turn the filters round: from atoms to filters."""
        sizes = np.diff(filters.first)
        owner = np.repeat(np.arange(len(filters), dtype=np.int64), sizes)
        packed = np.sort(filters.atom.astype(np.int64) << 32 | owner)
        index = build_index(filters.atoms, packed >> 32, len(filters.dictionary.names))
        absent = filters.atoms.group[filters.atom] == ABSENT
        size = (sizes - np.bincount(owner[absent], minlength=len(filters))).astype(np.int32)
        posting = (packed & 0xFFFFFFFF).astype(np.int32)
        return cls(filters, index, posting, size, np.flatnonzero(size == 0).astype(np.int32), rounds, masks)

    def determinants(self, owner: Int32s) -> Determinants:
        """The selectivity table for these owners, cut to the rounds that are asked for."""
        return determinants(self.filters, owner, self.rounds)

    def match(
        self, attributes: Attributes, owner: Int32s, done: Int32s, left: int, table: Determinants | None = None
    ) -> tuple[Int64s, Int32s]:
        """Offsets and owners of the filters that match (``done`` and ``left``: see ``match_pivot``)."""
        f = self.filters
        mask = f.mask if self.masks else f.mask[:0]
        chosen = self.determinants(owner) if table is None else table
        result: tuple[Int64s, Int32s] = match_counting(
            self.index,
            attributes,
            self.posting,
            self.size,
            mask,
            self.always,
            owner,
            done,
            left,
            chosen,
            len(f.dictionary.names),
        )
        return result

    @property
    def nbytes(self) -> int:
        """Bytes of the index beyond the filters."""
        own: tuple[Int32s | Bytes, ...] = (*self.index, self.posting, self.size, self.always)
        return sum(part.nbytes for part in own)


@nb.njit(nogil=True, cache=True)
def _wanted(done: Any, words: int) -> Any:
    """The owners that may be output, as bits."""
    wanted = np.zeros(words, np.uint64)
    for o in range(min(len(done), 64 * words)):
        if done[o] == 0:
            wanted[o >> 6] |= np.uint64(1) << np.uint64(o & 63)
    return wanted


@nb.njit(nogil=True, cache=True)
def _selectivity(table: Determinants, present: Any, excluded: Any, wanted: Any) -> Any:
    """The selectivity rounds: fill in who is excluded; returns how many of the wanted owners that are."""
    excluded[:] = 0
    for d in range(len(table.name)):
        if not present[table.name[d]]:
            row = table.bits[d]
            for w in range(len(excluded)):
                excluded[w] |= row[w]
    count = np.uint64(0)
    for w in range(len(excluded)):
        x = excluded[w] & wanted[w]
        x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
        x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        count += (x * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return np.int64(count)


@nb.njit(nogil=True, cache=True)
def match_counting(
    index: AtomIndex,
    attributes: Attributes,
    posting: Any,
    size: Any,
    mask: Any,
    always: Any,
    owner: Any,
    done: Any,
    left: int,
    table: Determinants,
    names: int,
) -> Any:
    """The paper's ``selectivity_CBF`` for each message; arguments as ``match_pivot``."""
    count = len(attributes.offsets) - 1
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(1024, np.int32)
    used = 0
    counter = np.zeros(len(size), np.int32)
    present = np.zeros(names, np.bool_)
    chosen, masked = len(table.name) > 0, len(mask) > 0
    excluded, wanted = np.zeros(table.bits.shape[1], np.uint64), _wanted(done, table.bits.shape[1])
    room = slices_max(attributes)
    begins, ends = np.empty(room, np.int32), np.empty(room, np.int32)
    for m in range(count):
        if m % _CHUNK == 0:
            counter[:] = 0
        base = np.int32((m % _CHUNK + 1) * _STEP)
        start, stop = attributes.offsets[m], attributes.offsets[m + 1]
        have = np.uint64(0)
        for a in range(start, stop):
            name = attributes.name[a]
            if name >= 0:
                present[name] = True
                have |= np.uint64(1) << np.uint64(name & 63)
        lacks = ~have
        limit = used + left
        if chosen:
            limit -= _selectivity(table, present, excluded, wanted)
        for a in range(start, stop):  # strike out filters that ask for the absence of what is there
            if attributes.name[a] >= 0:
                present[attributes.name[a]] = False
                cell = attributes.name[a] * GROUPS + ABSENT
                for p in range(index.post[index.groups[cell]], index.post[index.groups[cell + 1]]):
                    counter[posting[p]] = base + _STRUCK
        for a in range(start, stop):
            if attributes.name[a] < 0 or used == limit:
                continue
            slices = satisfied(index, attributes, a, begins, ends)
            for s in range(slices):
                for p in range(begins[s], ends[s]):
                    f = posting[p]
                    o = owner[f]
                    if o < 0 or (chosen and (excluded[o >> 6] >> np.uint64(o & 63)) & np.uint64(1)):
                        continue
                    if done[o] > m or (masked and mask[f] & lacks):
                        continue
                    now = max(counter[f], base) + 1
                    counter[f] = now
                    if now - base == size[f]:
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
            o = owner[f]
            if o >= 0 and done[o] <= m and counter[f] < base:
                done[o] = m + 1
                if used == len(out):
                    out = grown(out)
                out[used] = o
                used += 1
        offsets[m + 1] = used
    return offsets, out[:used].copy()
