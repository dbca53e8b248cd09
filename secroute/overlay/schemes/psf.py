"""PSF, per-source forwarding: a predicate for every (source, child edge of the source's tree).

UNTRUSTED side, pure. Correct and minimal, at the price of tables that grow with senders times receivers. Predicates
are kept per origin: covering works only within one origin, so that one origin's leaving never exposes another's.
"""

from __future__ import annotations

from secroute.overlay.paths import Trees
from secroute.overlay.predicates import Hits, Predicates, Rows
from secroute.overlay.schemes.interface import Header, TableSize, id_bits, source_of


def edge_tables(trees: Trees, predicates: Predicates, source: int, node: int) -> dict[int, Rows]:
    """``F_node(source, w)`` for every child w behind which somebody listens."""
    tables = {}
    for child in trees.children(source, node):
        rows = predicates.union(trees.subtree(source, child), across=False)
        if len(rows):
            tables[child] = rows
    return tables


class Psf:
    """``F_u(v, w)``."""

    def __init__(self, trees: Trees, predicates: Predicates) -> None:
        n = len(trees.graph)
        self._bits = id_bits(n)
        self._tables = [[edge_tables(trees, predicates, source, node) for source in range(n)] for node in range(n)]

    def init(self, source: int, hits: Hits) -> Header:
        """The source."""
        return source

    def header(self, node: int, header: Header) -> Header:
        """Unchanged."""
        return header

    def forward(self, node: int, header: Header, hits: Hits) -> tuple[int, ...]:
        """Children in the source's tree behind which somebody wants the message."""
        return tuple(w for w, rows in self._tables[node][source_of(header)].items() if hits[rows].any())

    def table_size(self, node: int) -> TableSize:
        """An entry per source and edge, each naming both."""
        entries = [rows for tables in self._tables[node] for rows in tables.values()]
        return TableSize(sum(map(len, entries)), len(entries), 2 * len(entries) * self._bits)
