"""Identical filters of an interface are stored once; answers still name every row that was given.

UNTRUSTED side, pure, NumPy alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from secroute.engine.types import Csr, Ints
from secroute.opaque import Words

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def row_hashes(filters: Words, owners: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of every (filter, owner); equal pairs have equal hashes."""
    mixed = owners.astype(np.uint64) * _MIX[0]
    for word in range(filters.shape[1]):
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ filters[:, word]) * _MIX[1]
        mixed ^= mixed >> np.uint64(32)
        mixed *= _MIX[0]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def store_once(filters: Words, owners: npt.NDArray[np.int32]) -> tuple[Ints, Csr | None]:
    """Rows to store, and for each of them all given rows that are identical to it (``None``: all are distinct)."""
    hashes = row_hashes(filters, owners)
    order = np.argsort(hashes, kind="stable")
    if len(order) < 2 or not (hashes[order[1:]] == hashes[order[:-1]]).any():
        return np.arange(len(filters)), None
    # Rows with equal hashes but different bits must not hide equal ones from each other: order by everything.
    keys: list[npt.NDArray[Any]] = [filters[:, word] for word in range(filters.shape[1])]
    order = np.lexsort((*keys, owners, hashes))
    same = np.ones(len(order) - 1, bool)
    for column in (owners, *keys):
        same &= column[order[1:]] == column[order[:-1]]
    group = np.concatenate([[0], np.cumsum(~same)])
    first = np.full(group[-1] + 1, len(filters))
    np.minimum.at(first, group, order)
    keep = np.sort(first)
    member = np.empty(len(filters), np.int64)
    member[order] = np.searchsorted(keep, first)[group]
    if len(keep) == len(filters):
        return keep, None
    return keep, Csr.of_pairs(member, np.arange(len(filters)), len(keep))


def expand(found: Csr, copies: Csr) -> Csr:
    """Stored rows replaced by all the given rows that they stand for."""
    sizes = np.diff(copies.offsets)[found.values]
    ends = np.cumsum(sizes)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    rows = copies.values[np.repeat(copies.offsets[found.values], sizes) + within]
    return Csr.of_pairs(np.repeat(found.rows_of_values(), sizes), rows, len(found.offsets) - 1)
