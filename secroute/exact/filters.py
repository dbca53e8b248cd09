"""Filters in array form: the right-hand side of a forwarding table, shared by the counting and the pivot engine.

TRUSTED, pure. Each filter lists its atoms, rarest first; filters stand in the order of their rarest atom (the *pivot*),
so that the filters of one pivot are neighbours in memory. Rarity is estimated from how often a name is constrained
(or from a sample of messages) and how much of its values an operator lets through.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute.errors import LimitError
from secroute.exact.atoms import (
    ABSENT,
    EXISTS,
    GROUPS,
    IS,
    NUM_BELOW,
    NUM_EQ,
    NUM_FROM,
    STR_BELOW,
    STR_EQ,
    STR_FROM,
    TEXT,
    Atoms,
    Dictionary,
    compile_atoms,
    constants_of,
    decode_atoms,
)
from secroute.exact.batch import MessageBatch
from secroute.exact.columns import Columns, Floats, Int32s, Int64s

_TEXT_SPREAD = 2.0  # a text operator lets through about twice as many values as equality


@dataclass(frozen=True, slots=True)
class Filters:
    """Atoms of filter f: ``atom[first[f]:first[f + 1]]``, rarest first, each once."""

    dictionary: Dictionary
    atoms: Atoms
    first: Int32s
    atom: Int32s
    mask: npt.NDArray[np.uint64]
    """Names a filter needs, as a 64-bit Bloom filter: if not all are in the message's, the filter is skipped."""
    predicate: Int32s

    def __len__(self) -> int:
        return len(self.predicate)

    @property
    def constraints(self) -> int:
        """How many constraints the filters have, each counted once per filter."""
        return len(self.atom)

    def columns(self, keep: npt.NDArray[np.bool_]) -> Columns:
        """The filters that are kept, as columns again (to be merged with others)."""
        op, kind, value = decode_atoms(self.dictionary, self.atoms)
        sizes = np.diff(self.first)
        atom = self.atom[np.repeat(keep, sizes)]
        offsets = np.zeros(int(keep.sum()) + 1, np.int64)
        np.cumsum(sizes[keep], out=offsets[1:])
        return Columns(
            list(self.dictionary.names),
            constants_of(self.dictionary),
            self.dictionary.whole,
            self.dictionary.rest,
            self.dictionary.patterns,
            self.atoms.name[atom],
            op[atom],
            kind[atom],
            value[atom],
            offsets,
            self.predicate[keep],
        ).pruned()


def rarity(atoms: Atoms, atom: Int32s, dictionary: Dictionary, sample: MessageBatch | None) -> Floats:
    """Estimated share of messages that satisfy each atom (a scale is enough); absence is never rare."""
    if sample is None:
        share = np.bincount(atoms.name[atom], minlength=len(dictionary.names)).astype(np.float64)
    else:
        ids = np.array([dictionary.names.get(name, -1) for name in sample.names], np.int64)[sample.name]
        share = np.bincount(ids[ids >= 0], minlength=len(dictionary.names)).astype(np.float64) + 0.5
    cell = atoms.name.astype(np.int64) * GROUPS + atoms.group
    starts = np.searchsorted(cell, np.arange(len(dictionary.names) * GROUPS + 1))
    size = np.diff(starts)[cell].astype(np.float64)
    position = (np.arange(len(cell)) - starts[cell] + 0.5) / size
    through = np.ones(len(cell))
    group = atoms.group
    through[group == IS] = 0.5
    equality = (group == NUM_EQ) | (group == STR_EQ)
    through[equality] = 1.0 / (size[equality] + 1.0)
    through[group == TEXT] = np.minimum(0.5, _TEXT_SPREAD / (size[group == TEXT] + 1.0))
    # With few bounds of a name their places say little: pull towards one half.
    trust = size / (size + 4.0)
    below = (group == NUM_BELOW) | (group == STR_BELOW)
    through[below] = (0.5 + trust * (position - 0.5))[below]
    since = (group == NUM_FROM) | (group == STR_FROM)
    through[since] = (0.5 - trust * (position - 0.5))[since]
    through[group == EXISTS] = 1.5
    scale: Floats = (share[atoms.name] * through).astype(np.float64)
    scale[group == ABSENT] = np.inf
    return scale


def build_filters(columns: Columns, sample: MessageBatch | None = None) -> Filters:
    """Compile columns; a constraint that a filter repeats is kept once."""
    if columns.constraints >= 2**31 - 1:
        raise LimitError("more constraints in one table than its 32-bit places can hold")
    dictionary, atoms, atom = compile_atoms(columns)
    by_rarity = np.argsort(rarity(atoms, atom, dictionary, sample), kind="stable").astype(np.int32)
    place = np.empty(len(by_rarity), np.int64)
    place[by_rarity] = np.arange(len(by_rarity))
    owner = np.repeat(np.arange(columns.filters, dtype=np.int64), np.diff(columns.offsets))
    packed = np.sort(owner << 32 | place[atom])
    packed = packed[np.flatnonzero(np.diff(packed, prepend=-1))]
    atom, owner = by_rarity[packed & 0xFFFFFFFF], packed >> 32
    sizes = np.bincount(owner, minlength=columns.filters)
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(atom[starts].astype(np.int64) << 16 | sizes, kind="stable")
    first = np.zeros(len(order) + 1, np.int32)
    np.cumsum(sizes[order], out=first[1:])
    atom = atom[_gather(starts[order], first)]
    return Filters(dictionary, atoms, first, atom, _masks(atoms, atom, first), columns.predicate[order])


def _gather(starts: Int64s, first: Int32s) -> Int64s:
    """Rows of variable length, moved: row i comes from ``starts[i]`` and goes to ``first[i]``."""
    moved: Int64s = np.repeat(starts - first[:-1], np.diff(first)) + np.arange(first[-1])
    return moved


def _masks(atoms: Atoms, atom: Int32s, first: Int32s) -> npt.NDArray[np.uint64]:
    if not len(atom):
        return np.zeros(0, np.uint64)
    bits = np.uint64(1) << (atoms.name & 63).astype(np.uint64)
    bits[atoms.group == ABSENT] = 0
    masks: npt.NDArray[np.uint64] = np.bitwise_or.reduceat(bits[atom], first[:-1])
    return masks
