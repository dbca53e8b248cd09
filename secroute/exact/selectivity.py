"""The selectivity table: which missing attribute rules out which interfaces before anything is counted.

TRUSTED, pure. A name is a *determinant* of an interface if every filter of the interface needs it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from secroute.exact.atoms import ABSENT
from secroute.exact.columns import Int32s
from secroute.exact.filters import Filters


class Determinants(NamedTuple):
    """Names by how many owners they determine, most first; bit o of row i is set if entry i determines owner o."""

    name: Int32s
    bits: npt.NDArray[np.uint64]


def determinants(filters: Filters, owner: Int32s, rounds: int) -> Determinants:
    """The first ``rounds`` entries of the table for filters that belong to ``owner`` (-1: to none)."""
    words = (int(owner.max(initial=-1)) + 64) // 64
    if rounds <= 0 or not words:
        return Determinants(np.empty(0, np.int32), np.zeros((0, words), np.uint64))
    row_filter = np.repeat(np.arange(len(filters)), np.diff(filters.first))
    needs = (filters.atoms.group[filters.atom] != ABSENT) & (owner[row_filter] >= 0)
    name, row_filter = filters.atoms.name[filters.atom][needs].astype(np.int64), row_filter[needs]
    pairs = np.unique(row_filter.astype(np.int64) << 32 | name)  # a filter may constrain a name twice
    held, counts = np.unique(owner[pairs >> 32].astype(np.int64) << 32 | (pairs & 0xFFFFFFFF), return_counts=True)
    total = np.bincount(owner[owner >= 0], minlength=1)
    held = held[counts == total[held >> 32]]
    name, owners = held & 0xFFFFFFFF, held >> 32
    found, sizes = np.unique(name, return_counts=True)
    best = found[np.argsort(-sizes, kind="stable")[:rounds]]
    place = np.full(len(filters.dictionary.names) + 1, len(best), np.int64)
    place[best] = np.arange(len(best))
    chosen = np.zeros((len(best), 64 * words), np.bool_)
    entry = place[name]
    chosen[entry[entry < len(best)], owners[entry < len(best)]] = True
    return Determinants(best.astype(np.int32), np.packbits(chosen, axis=1, bitorder="little").view("<u8"))
