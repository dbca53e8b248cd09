"""Random connected graphs, and the tie-breaking rule that must not be used."""

from __future__ import annotations

import heapq
import random

from secroute.overlay.graph import Graph
from secroute.overlay.paths import Tree


def random_graph(seed: int, *, n_max: int = 12, weight_max: int = 2) -> Graph:
    """A random tree with some more edges; small weights, so that many paths tie before perturbation."""
    rng = random.Random(seed)
    n = rng.randint(3, n_max)
    pairs = {(rng.randrange(i), i) for i in range(1, n)}
    for _ in range(rng.randint(1, n)):
        a, b = sorted(rng.sample(range(n), 2))
        pairs.add((a, b))
    return Graph.numbered(n, [(a, b, rng.randint(1, weight_max)) for a, b in sorted(pairs)])


class LowestIdWins:
    """Per-source trees in which, of equally long ways, the one over the lowest parent id is taken."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._trees = [self._tree(source) for source in range(len(graph))]

    def _tree(self, source: int) -> Tree:
        best: dict[int, tuple[int, int]] = {}
        settled: list[int] = []
        heap = [(0, -1, source)]
        while heap:
            far, before, node = heapq.heappop(heap)
            if node in best:
                continue
            best[node] = (far, before)
            settled.append(node)
            for other in self.graph.neighbours[node]:
                heapq.heappush(heap, (far + self.graph.weight(node, other), node, other))
        parent = [best[node][1] if node in best else -1 for node in range(len(self.graph))]
        return Tree.of_parents(source, parent, settled)

    def parent(self, source: int, node: int) -> int:
        return self._trees[source].parent[node]

    def children(self, source: int, node: int) -> tuple[int, ...]:
        return self._trees[source].children[node]

    def subtree(self, source: int, node: int) -> int:
        return self._trees[source].subtree[node]
