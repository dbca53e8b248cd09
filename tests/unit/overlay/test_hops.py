"""The batch step of live routers is the schemes' forwarding, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from secroute.overlay.hops import Hops, Wanted
from secroute.overlay.paths import ShortestPaths
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes import SCHEMES, make_scheme
from secroute.sim.static import carry, synthetic
from tests.cases import cases
from tests.unit.overlay.random_graphs import random_graph


def walk(trees: ShortestPaths, scheme: str, source: int, wanted: Wanted) -> list[tuple[int, int, int]]:
    """(row, from, to) of every hop of a batch."""
    taken: list[tuple[int, int, int]] = []
    pending: list[tuple[int, int, np.ndarray, Wanted]] = [(source, source, np.arange(len(wanted)), wanted)]
    while pending:
        node, header, rows, here = pending.pop()
        here = here.copy()
        here[:, node] = False
        for hop in Hops(scheme, trees, node).next(header, here):
            taken += [(int(rows[row]), node, hop.neighbour) for row in hop.rows]
            further = here[hop.rows] if hop.destinations is None else hop.destinations
            # A router that is not told of destinations matches again, against everybody's filters.
            pending.append(
                (
                    hop.neighbour,
                    hop.source,
                    rows[hop.rows],
                    wanted[rows[hop.rows]] if hop.destinations is None else further,
                )
            )
    return sorted(taken)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("seed", range(cases(10, 100)))
def test_batches_go_where_single_messages_go(name: str, seed: int) -> None:
    graph = random_graph(seed)
    traffic = synthetic(len(graph), 2 * len(graph), 20, seed=seed, vocabulary=60)
    trees, predicates = ShortestPaths(graph), Predicates(traffic.predicates)
    hits = predicates.hits(traffic.messages)
    masks = [predicates.receivers(row) for row in hits]
    wanted = np.array([[bool(mask >> u & 1) for u in range(len(graph))] for mask in masks])
    scheme = make_scheme(name, trees, predicates)
    for source in range(len(graph)):
        single = [(row, a, b) for row, hit in enumerate(hits) for a, b in carry(scheme, source, hit, hops_max=1000)[1]]
        assert walk(trees, name, source, wanted) == sorted(single)
