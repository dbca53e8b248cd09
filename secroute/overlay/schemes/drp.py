"""DRP, dynamic receiver partitioning: the source names the destinations, every hop divides them by next hop.

UNTRUSTED side, pure. Minimal because shortest paths are unique. Every router knows all receivers' predicates (any
router may be a source), and every hop reads who the receivers of a message are.
"""

from __future__ import annotations

from collections.abc import Iterator

from secroute.overlay.paths import Trees, next_hop
from secroute.overlay.predicates import Hits, Predicates
from secroute.overlay.schemes.interface import Header, TableSize, id_bits


def _members(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Drp:
    """``pred(.)`` and ``unicast_u(.)``."""

    def __init__(self, trees: Trees, predicates: Predicates) -> None:
        self._trees = trees
        self._predicates = predicates

    def partition(self, node: int, destinations: int) -> dict[int, int]:
        """``H_W`` at ``node``: next hop -> the destinations (bit mask) behind it; ``node`` itself is left out."""
        parts: dict[int, int] = {}
        for target in _members(destinations & ~(1 << node)):
            hop = next_hop(self._trees, node, target)
            if hop >= 0:
                parts[hop] = parts.get(hop, 0) | 1 << target
        return parts

    def init(self, source: int, hits: Hits) -> Header:
        """All interested routers, divided by next hop."""
        return self.partition(source, self._predicates.receivers(hits))

    def header(self, node: int, header: Header) -> Header:
        """This router's share, divided again; a header without a share is one that this router made itself."""
        if isinstance(header, int):
            raise TypeError("a DRP header is a partition of destinations, not a source")
        return self.partition(node, header[node]) if node in header else header

    def forward(self, node: int, header: Header, hits: Hits) -> tuple[int, ...]:
        """The next hops of this router's share."""
        out = self.header(node, header)
        assert not isinstance(out, int)  # noqa: S101 - narrows the type
        return tuple(sorted(out))

    def table_size(self, node: int) -> TableSize:
        """Everybody's filters, and a next hop for every receiver router."""
        own = self._predicates.own
        receivers = sum(len(rows) > 0 for rows in own)
        return TableSize(sum(map(len, own)), receivers, receivers * id_bits(len(own)))
