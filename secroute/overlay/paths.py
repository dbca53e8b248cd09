"""Unique shortest paths: between two routers there is one path, the same in both directions, at every router.

UNTRUSTED side, pure. Weights are symmetric, and every edge adds a tiny perturbation derived from its sorted end-point
ids, so that no two paths cost the same. Hence a path's parts are themselves the chosen paths, and the way an
advertisement came is the way back for messages. Breaking ties by lowest id instead loses messages (see the tests).
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from secroute.errors import OverlayError
from secroute.overlay.graph import Graph

PERTURBATION_BITS = 128
# Room above the perturbation for the sum over a path, so that perturbations never outweigh one unit of weight.
WEIGHT_SHIFT = PERTURBATION_BITS + 32


def perturbation(a: bytes, b: bytes) -> int:
    """A number below ``2**128`` for the edge between two router ids, in whichever order they are given."""
    low, high = sorted((a, b))
    digest = hashlib.blake2b(low + high, digest_size=PERTURBATION_BITS // 8, person=b"secroute-edge")
    return int.from_bytes(digest.digest(), "big")


class Trees(Protocol):
    """What schemes ask of a broadcast layer."""

    @property
    def graph(self) -> Graph: ...

    def parent(self, source: int, node: int) -> int:
        """The router before ``node`` on the path from ``source``; -1 at the source and where it does not reach."""

    def children(self, source: int, node: int) -> tuple[int, ...]:
        """The routers after ``node`` in the tree of ``source``."""

    def subtree(self, source: int, node: int) -> int:
        """``T_source/node`` as a bit mask: ``node`` and everything behind it; 0 where the source does not reach."""


@dataclass(frozen=True, slots=True)
class Tree:
    """One source's broadcast tree."""

    parent: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]
    subtree: tuple[int, ...]

    @classmethod
    def of_parents(cls, source: int, parent: Sequence[int], settled: Sequence[int]) -> Tree:
        """Build children and subtrees; ``settled`` lists the reached nodes, parents before children."""
        children: list[list[int]] = [[] for _ in parent]
        subtree = [0] * len(parent)
        for node in reversed(settled):
            subtree[node] |= 1 << node
            if node != source:
                children[parent[node]].append(node)
                subtree[parent[node]] |= subtree[node]
        return cls(tuple(parent), tuple(tuple(sorted(some)) for some in children), tuple(subtree))


class ShortestPaths:
    """The trees of all sources, each computed when first asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._trees: dict[int, Tree] = {}
        self._edges: list[list[tuple[int, int]]] = [
            [
                (other, (graph.weight(node, other) << WEIGHT_SHIFT) + perturbation(graph.ids[node], graph.ids[other]))
                for other in graph.neighbours[node]
            ]
            for node in range(len(graph))
        ]

    def tree(self, source: int) -> Tree:
        """``T_source``."""
        found = self._trees.get(source)
        if found is None:
            found = self._trees[source] = self._dijkstra(source)
        return found

    def _dijkstra(self, source: int) -> Tree:
        parent = [-1] * len(self.graph)
        cost: dict[int, int] = {source: 0}
        done: set[int] = set()
        settled: list[int] = []
        heap = [(0, source)]
        while heap:
            so_far, node = heapq.heappop(heap)
            if node in done:
                continue
            done.add(node)
            settled.append(node)
            for other, step in self._edges[node]:
                total, known = so_far + step, cost.get(other)
                if known is None or total < known:
                    cost[other], parent[other] = total, node
                    heapq.heappush(heap, (total, other))
                elif total == known and other not in done:
                    raise OverlayError(f"two paths from router {source} to {other} cost the same: ids collide")
        return Tree.of_parents(source, parent, settled)

    def parent(self, source: int, node: int) -> int:
        """The router before ``node`` on the path from ``source``; -1 at the source and where it does not reach."""
        return self.tree(source).parent[node]

    def children(self, source: int, node: int) -> tuple[int, ...]:
        """The routers after ``node`` in the tree of ``source``."""
        return self.tree(source).children[node]

    def subtree(self, source: int, node: int) -> int:
        """``T_source/node`` as a bit mask."""
        return self.tree(source).subtree[node]


def next_hop(trees: Trees, node: int, target: int) -> int:
    """Where ``node`` sends what is meant for ``target``: paths are symmetric, so it is the parent in its tree."""
    return trees.parent(target, node)


def path(trees: Trees, source: int, target: int) -> tuple[int, ...]:
    """The routers from ``source`` to ``target``, both included; empty if there is no way."""
    back = [target]
    while back[-1] != source:
        before = trees.parent(source, back[-1])
        if before < 0:
            return ()
        back.append(before)
    return tuple(reversed(back))
