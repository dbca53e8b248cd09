"""Laws of the paths: shortest, unique, symmetric, suffix-consistent; and what goes wrong without them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths, Trees, next_hop, path, perturbation
from tests.cases import cases
from tests.unit.overlay.random_graphs import LowestIdWins, random_graph


def asymmetric_pairs(trees: Trees) -> int:
    n = len(trees.graph)
    return sum(path(trees, a, b) != path(trees, b, a)[::-1] for a in range(n) for b in range(a))


@pytest.mark.parametrize("seed", range(cases(40, 500)))
def test_paths_are_symmetric_and_their_parts_are_paths(seed: int) -> None:
    trees = ShortestPaths(random_graph(seed))
    n = len(trees.graph)
    for source in range(n):
        for target in range(n):
            way = path(trees, source, target)
            assert way == path(trees, target, source)[::-1]
            for i in range(len(way)):
                assert way[i:] == path(trees, way[i], target)
                assert way[: i + 1] == path(trees, source, way[i])
            if source != target:
                assert next_hop(trees, source, target) == way[1]


@pytest.mark.parametrize("seed", range(cases(20, 200)))
def test_paths_are_as_short_as_without_perturbation(seed: int) -> None:
    graph = random_graph(seed)
    ours, plain = ShortestPaths(graph), LowestIdWins(graph)

    def length(trees: Trees, a: int, b: int) -> int:
        return sum(graph.weight(x, y) for x, y in pairwise(path(trees, a, b)))

    n = len(graph)
    assert all(length(ours, a, b) == length(plain, a, b) for a in range(n) for b in range(n))


@pytest.mark.parametrize("seed", range(cases(20, 200)))
def test_subtrees_hold_exactly_the_routers_whose_path_passes(seed: int) -> None:
    trees = ShortestPaths(random_graph(seed))
    n = len(trees.graph)
    for source in range(n):
        for node in range(n):
            behind = {x for x in range(n) if node in path(trees, source, x)}
            assert trees.subtree(source, node) == sum(1 << x for x in behind)
            assert trees.children(source, node) == tuple(x for x in range(n) if trees.parent(source, x) == node)


def test_lowest_id_wins_is_not_symmetric() -> None:
    asymmetric = sum(asymmetric_pairs(LowestIdWins(random_graph(seed))) > 0 for seed in range(150))
    assert asymmetric > 30
    assert all(asymmetric_pairs(ShortestPaths(random_graph(seed))) == 0 for seed in range(150))


def test_an_edge_is_perturbed_alike_from_both_ends() -> None:
    assert perturbation(b"a" * 16, b"b" * 16) == perturbation(b"b" * 16, b"a" * 16)
    assert perturbation(b"a" * 16, b"b" * 16) != perturbation(b"a" * 16, b"c" * 16)


def test_what_cannot_be_reached_has_no_path() -> None:
    trees = ShortestPaths(Graph.numbered(4, [(0, 1, 1), (2, 3, 1)]))
    assert path(trees, 0, 3) == ()
    assert trees.subtree(0, 3) == 0
