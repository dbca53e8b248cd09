"""Receivers' encoded predicates, stored once, and the tables that routers keep of them.

UNTRUSTED side, pure. A table is a set of rows of the store; a message is compared with every distinct filter once,
and every table that shares a filter shares the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from secroute.engine import ForwardingTable
from secroute.engine.types import Csr
from secroute.errors import OverlayError
from secroute.opaque import Words, check_words

Rows = npt.NDArray[np.int64]
Hits = npt.NDArray[np.bool_]


class Predicates:
    """What each router's own receivers ask for: ``predicates[u]`` is ``uint64[k, W]``, k may be 0."""

    def __init__(self, predicates: Sequence[Words]) -> None:
        if not predicates:
            raise OverlayError("there must be at least one router")
        if len({check_words(bits, "filters").shape[1] for bits in predicates}) > 1:
            raise OverlayError("the filters of all routers must be equally wide")
        stacked = np.concatenate(list(predicates))
        self.filters, inverse = np.unique(stacked, axis=0, return_inverse=True)
        self.filters = np.ascontiguousarray(self.filters)
        """``uint64[D, W]``: every filter once."""
        self.bits = 64 * stacked.shape[1]
        self._table: ForwardingTable | None = None
        self._stronger = Csr.empty(0)
        if len(self.filters):
            owner = np.zeros(len(self.filters), np.int64)
            self._table = ForwardingTable.build(self.filters, owner, rounds=0, match_all=True, distinct=True)
            self._stronger = self._table.match_filters(self.filters)
        ends = np.cumsum([0, *(len(bits) for bits in predicates)])
        rows = inverse.reshape(-1).astype(np.int64)
        self.own = tuple(self.reduce(rows[a:b]) for a, b in pairwise(ends))
        """For every router the rows of its own receivers, covered ones left out."""
        self._unions: dict[tuple[int, bool], Rows] = {}

    def __len__(self) -> int:
        return len(self.own)

    def reduce(self, rows: Rows) -> Rows:
        """Drop repeated rows, and rows that another one covers."""
        rows = np.unique(rows)
        present = np.zeros(len(self.filters), bool)
        present[rows] = True
        kept = [row for row in rows if np.count_nonzero(present[self._stronger.row(row)]) == 1]
        return np.array(kept, np.int64)

    def union(self, routers: int, *, across: bool) -> Rows:
        """What the routers of a bit mask ask for together; ``across``: covering also between origins."""
        found = self._unions.get((routers, across))
        if found is None:
            own = [self.own[u] for u in range(len(self.own)) if routers >> u & 1]
            found = np.concatenate([np.zeros(0, np.int64), *own])
            if across:
                found = self.reduce(found)
            self._unions[(routers, across)] = found
        return found

    def hits(self, messages: Words) -> Hits:
        """``bool[n, D]``: which distinct filters are included in which message."""
        answer = np.zeros((len(messages), len(self.filters)), bool)
        if self._table is not None:
            found = self._table.match_filters(messages)
            answer[found.rows_of_values(), found.values] = True
        return answer

    def receivers(self, hits: Hits) -> int:
        """The routers (as a bit mask) of which a receiver wants the message with these hits."""
        return sum(1 << u for u, rows in enumerate(self.own) if hits[rows].any())
