"""The graph of routers: ids, and undirected weighted edges between them.

UNTRUSTED side, pure. Nodes are numbered by the order of their ids, so that every router that knows the same ids and
edges has the same numbers, and everything computed from the graph is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from secroute import limits
from secroute.errors import LimitError, OverlayError


@dataclass(frozen=True, slots=True)
class Graph:
    """Routers ``0..n-1`` with their ids ascending, and the weight of every edge ``(a, b)``, ``a < b``."""

    ids: tuple[bytes, ...]
    weights: Mapping[tuple[int, int], int]
    neighbours: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.ids)
        if n > limits.OVERLAY_ROUTERS_MAX:
            raise LimitError(f"{n} routers in the overlay, at most {limits.OVERLAY_ROUTERS_MAX}")
        if any(a >= b for a, b in zip(self.ids, self.ids[1:], strict=False)):
            raise OverlayError("router ids must be different and ascending")
        around: list[list[int]] = [[] for _ in range(n)]
        for (a, b), weight in self.weights.items():
            if not 0 <= a < b < n:
                raise OverlayError(f"edge ({a}, {b}) must join two of the {n} routers, the lower number first")
            if not 1 <= weight <= limits.LINK_WEIGHT_MAX:
                raise OverlayError(f"edge ({a}, {b}) has weight {weight}, it must be 1..{limits.LINK_WEIGHT_MAX}")
            around[a].append(b)
            around[b].append(a)
        object.__setattr__(self, "neighbours", tuple(tuple(sorted(some)) for some in around))

    @classmethod
    def numbered(cls, n: int, edges: Iterable[tuple[int, int, int]]) -> Graph:
        """``n`` routers whose ids are their numbers; edges are ``(a, b, weight)`` in either direction."""
        ids = tuple(i.to_bytes(limits.ROUTER_ID_BYTES, "big") for i in range(n))
        return cls(ids, {(min(a, b), max(a, b)): weight for a, b, weight in edges})

    def __len__(self) -> int:
        return len(self.ids)

    def weight(self, a: int, b: int) -> int:
        """The weight of the edge between two neighbours."""
        return self.weights[(a, b) if a < b else (b, a)]
