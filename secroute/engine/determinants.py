"""Determinants and the selectivity table, as in the paper, with bits in the place of attribute names.

UNTRUSTED side, pure. A bit is a *determinant* of an interface if every filter of that interface has it: a message
without it cannot match there. The table lists bits by how many interfaces their absence excludes, best first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from secroute.engine.types import Dense, Ints
from secroute.opaque import Words

_ONE = np.uint64(1)


class SelectivityTable(NamedTuple):
    """``bits`` by falling number of excluded interfaces; those of ``bits[j]`` are ``ids[starts[j]:starts[j + 1]]``."""

    bits: Ints
    starts: Ints
    ids: Dense

    def first(self, rounds: int) -> SelectivityTable:
        """The part of the table that ``rounds`` rounds apply."""
        bits = self.bits[:rounds]
        starts = self.starts[: len(bits) + 1]
        return SelectivityTable(bits, starts, self.ids[: starts[-1]])

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes + self.starts.nbytes + self.ids.nbytes


def determinants(filters: Words, interfaces: Dense, count: int) -> Words:
    """The AND over all filters of every interface, ``uint64[count, W]``; every interface has at least one filter."""
    if count == 0:
        return np.zeros((0, filters.shape[1]), np.uint64)
    order = np.argsort(interfaces, kind="stable")
    starts = np.searchsorted(interfaces[order], np.arange(count))
    return np.bitwise_and.reduceat(filters[order], starts, axis=0)


def selectivity(masks: Words, rounds: int) -> SelectivityTable:
    """The best ``rounds`` entries of the selectivity table of ``masks`` (from :func:`determinants`)."""
    if rounds == 0:
        return SelectivityTable(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32))
    excluded = np.zeros(masks.shape[1] * 64, np.int64)
    for word in range(masks.shape[1]):
        column = np.ascontiguousarray(masks[:, word])
        for bit in range(64):
            excluded[word * 64 + bit] = np.count_nonzero(column & (_ONE << np.uint64(bit)))
    order = np.argsort(-excluded, kind="stable")[:rounds].astype(np.int64)
    order = order[excluded[order] > 0]
    rows = [np.flatnonzero(masks[:, bit >> 6] & (_ONE << np.uint64(bit & 63))) for bit in order.tolist()]
    starts = np.zeros(len(order) + 1, np.int64)
    np.cumsum(excluded[order], out=starts[1:])
    ids = np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int32)
    return SelectivityTable(order, starts, ids)
