"""Covering between encoded filters: g covers f if every bit of g is in f, for then every match of f is one of g.

UNTRUSTED side, pure. A filter's own bits are asked as if they were a message, so finding covers costs as much as
forwarding; it is not quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute.engine.dedupe import store_once
from secroute.engine.table import ForwardingTable
from secroute.engine.types import Csr, Ints, check_filters, check_width
from secroute.errors import EngineError
from secroute.opaque import Words


@dataclass(frozen=True, slots=True)
class Reduction:
    """The filters that matter, and what each of them stands for."""

    kept: Ints
    """Rows that no other row covers (of identical rows the first), ascending."""
    covered_by: Ints
    """For every row a kept row that covers it; a kept row has itself."""

    @property
    def covers(self) -> Csr:
        """For every kept row (by its place in ``kept``) the dropped rows that it stands for."""
        dropped = np.flatnonzero(self.covered_by != np.arange(len(self.covered_by)))
        places = np.searchsorted(self.kept, self.covered_by[dropped])
        return Csr.of_pairs(places, dropped, len(self.kept))


def covers(g: npt.NDArray[np.uint64], f: npt.NDArray[np.uint64]) -> bool:
    """Whether ``g`` (``uint64[W]``) covers ``f``: whatever matches f matches g."""
    for name, row in (("g", g), ("f", f)):
        if not isinstance(row, np.ndarray) or row.dtype != np.dtype("<u8") or row.ndim != 1:
            raise EngineError(f"{name} must be one filter, little-endian uint64[W]")
    if g.shape != f.shape:
        raise EngineError(f"filters of {len(g)} and {len(f)} words do not compare")
    return not bool((g & ~f).any())


def reduce(filters: Words, *, engine: str = "auto", threads: int = 1) -> Reduction:
    """Drop every filter that another one covers; filters without bits cover everything."""
    filters = check_filters(filters, match_all=True)
    if not len(filters):
        return Reduction(np.zeros(0, np.int64), np.zeros(0, np.int64))
    rows = np.arange(len(filters))
    first, copies = store_once(filters, np.zeros(len(filters), np.int32))
    group = rows.copy()
    if copies is not None:
        group[copies.values] = copies.rows_of_values()
    distinct = np.ascontiguousarray(filters[first])
    table = ForwardingTable.build(distinct, np.zeros(len(distinct), np.int64), engine=engine, rounds=0, match_all=True)
    # Two answers are enough: the row itself, and any other one, which has fewer bits. Following those ends at a
    # filter that nothing covers, in few steps by doubling.
    found = table.match_filters(distinct, limit=2, threads=threads)
    nearest = np.arange(len(distinct))
    owner = found.rows_of_values()
    other = found.values != owner
    nearest[owner[other]] = found.values[other]
    while not np.array_equal(step := nearest[nearest], nearest):
        nearest = step
    covered_by = first[nearest[group]]
    return Reduction(rows[covered_by == rows], covered_by)


def advertise(filters: Words, new: Words, *, engine: str = "auto") -> npt.NDArray[np.bool_]:
    """Which rows of ``new`` are not covered by ``filters``: those that a neighbour still has to be told."""
    filters = check_filters(filters, match_all=True)
    new = check_width(check_filters(new, match_all=True, what="new filters"), filters.shape[1], "new filters")
    table = ForwardingTable.build(filters, np.zeros(len(filters), np.int64), engine=engine, rounds=0, match_all=True)
    found = table.match_filters(new, limit=1)
    return np.asarray(np.diff(found.offsets) == 0)
