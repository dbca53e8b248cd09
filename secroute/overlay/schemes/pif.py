"""PIF, per-interface forwarding (CBCB): one predicate per neighbour, and the children of every source's tree.

UNTRUSTED side, pure. Correct; not minimal: a neighbour's predicate also speaks for receivers that other sources reach
through it. The tables are those that advertisements leave behind: receiver x's predicate is at u on the interface by
which x's advertisement came in, the parent of u in T_x.
"""

from __future__ import annotations

from secroute.overlay.paths import Trees
from secroute.overlay.predicates import Hits, Predicates, Rows
from secroute.overlay.schemes.interface import Header, TableSize, id_bits, source_of


class Pif:
    """``F*_u(w)``, and ``child_u(v)`` for all sources v."""

    def __init__(self, trees: Trees, predicates: Predicates) -> None:
        self._trees = trees
        self._tables: list[dict[int, Rows]] = []
        self.behind: list[dict[int, int]] = []
        """For every router and neighbour the receivers (bit mask) whose predicates are on that interface."""
        for node in range(len(trees.graph)):
            masks: dict[int, int] = {}
            for receiver in range(len(trees.graph)):
                came_from = trees.parent(receiver, node)
                if came_from >= 0 and len(predicates.own[receiver]):
                    masks[came_from] = masks.get(came_from, 0) | 1 << receiver
            self.behind.append(masks)
            self._tables.append({w: predicates.union(mask, across=True) for w, mask in masks.items()})

    def init(self, source: int, hits: Hits) -> Header:
        """The source."""
        return source

    def header(self, node: int, header: Header) -> Header:
        """Unchanged."""
        return header

    def forward(self, node: int, header: Header, hits: Hits) -> tuple[int, ...]:
        """Children in the source's tree whose interface matches."""
        table = self._tables[node]
        children = self._trees.children(source_of(header), node)
        return tuple(w for w in children if w in table and hits[table[w]].any())

    def table_size(self, node: int) -> TableSize:
        """Filters of all interfaces; a child list for every source."""
        n, table = len(self._trees.graph), self._tables[node]
        children = sum(len(self._trees.children(source, node)) for source in range(n))
        return TableSize(sum(map(len, table.values())), len(table), children * id_bits(n))
