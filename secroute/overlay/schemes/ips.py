"""iPS, improved per-source forwarding: sources that a router cannot tell apart share one entry.

UNTRUSTED side, pure. Two sources are in one class at u if u has the same children in both trees, each with the same
descendants. Where the source and u itself stay indistinguishable for everybody downstream, u writes itself into the
header, so that fewer sources are ever seen there. Correct and minimal like PSF.
"""

from __future__ import annotations

from collections.abc import Iterator

from secroute.overlay.paths import Trees
from secroute.overlay.predicates import Hits, Predicates, Rows
from secroute.overlay.schemes.interface import Header, TableSize, id_bits, source_of
from secroute.overlay.schemes.psf import edge_tables

View = tuple[tuple[int, int], ...]  # (child, its descendants), for all children: what makes sources (in)distinguishable


class Ips:
    """``I_u``, ``R_u`` and ``F_u`` over classes, for the headers that can arrive at u."""

    def __init__(self, trees: Trees, predicates: Predicates) -> None:
        n = len(trees.graph)
        self._trees = trees
        self._bits = id_bits(n)
        self._representative: list[dict[int, int]] = [{} for _ in range(n)]
        self._rewrite: list[dict[int, bool]] = [{} for _ in range(n)]
        self._tables: list[dict[int, dict[int, Rows]]] = [{} for _ in range(n)]
        views: list[dict[View, int]] = [{} for _ in range(n)]
        for source in range(n):
            for node, seen in self._arrivals(source):
                if seen in self._representative[node]:
                    continue
                view = self.view(node, seen)
                representative = views[node].setdefault(view, seen)
                self._representative[node][seen] = representative
                if representative == seen:
                    self._rewrite[node][seen] = self._may_rewrite(node, view)
                    self._tables[node][seen] = edge_tables(trees, predicates, seen, node)

    def view(self, node: int, source: int) -> View:
        """What ``node`` sees downstream of itself in the tree of ``source``."""
        children = self._trees.children(source, node)
        return tuple((child, self._trees.subtree(source, child)) for child in children)

    def _may_rewrite(self, node: int, view: View) -> bool:
        # Paths are unique and their parts are paths, so below a child with the same descendants in T_source and in
        # T_node the two trees are one: comparing the children is enough, no need to walk down.
        return all(self._trees.subtree(node, child) == descendants for child, descendants in view)

    def _arrivals(self, source: int) -> Iterator[tuple[int, int]]:
        """Every router of the source's tree with the header that it sees; parents before children."""
        pending = [(source, source)]
        while pending:
            node, seen = pending.pop()
            yield node, seen
            out = node if self._rewrite[node][self._representative[node][seen]] else seen
            pending += [(child, out) for child in self._trees.children(source, node)]

    def classes(self, node: int) -> dict[int, int]:
        """``I_node``: header that can arrive -> representative."""
        return dict(self._representative[node])

    def init(self, source: int, hits: Hits) -> Header:
        """The source."""
        return source

    def header(self, node: int, header: Header) -> Header:
        """This router where nobody downstream can tell, else unchanged."""
        seen = source_of(header)
        return node if self._rewrite[node][self._representative[node][seen]] else seen

    def forward(self, node: int, header: Header, hits: Hits) -> tuple[int, ...]:
        """Children behind which somebody wants the message."""
        tables = self._tables[node][self._representative[node][source_of(header)]]
        return tuple(w for w, rows in tables.items() if hits[rows].any())

    def table_size(self, node: int) -> TableSize:
        """Entries per class and edge, a representative for every header that arrives, one rewriting bit per class."""
        entries = [rows for tables in self._tables[node].values() for rows in tables.values()]
        seen, classes = len(self._representative[node]), len(self._rewrite[node])
        return TableSize(sum(map(len, entries)), len(entries), 2 * (len(entries) + seen) * self._bits + classes)
