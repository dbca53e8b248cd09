"""The worked examples of the routing-schemes paper.

The paper's text says which trees, tables and partitions its 12-node figure has, not the figure's weights. The weights
here are ours, chosen so that every statement of the text holds; the tests are those statements.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths
from secroute.overlay.predicates import Hits, Predicates
from secroute.overlay.schemes import Drp, Ips, Pif, Psf, Scheme
from secroute.sim.static import carry

EDGES = [
    (1, 5, 2), (1, 6, 2), (5, 9, 1), (6, 9, 2), (9, 10, 1), (7, 10, 3), (6, 7, 1),
    (2, 6, 1), (2, 3, 1), (4, 7, 1), (7, 8, 1), (7, 11, 1), (8, 12, 1),
]  # fmt: skip


def mask(nodes: Iterable[int]) -> int:
    return sum(1 << node for node in nodes)


def own_bit(nodes: int) -> Predicates:
    """p_x: wants the messages that have bit x; router 0 is not used (the papers count from 1)."""
    none = np.zeros((0, 1), np.uint64)
    return Predicates([none, *(np.array([[1 << x]], np.uint64) for x in range(1, nodes))])


def message(predicates: Predicates, wanted_by: Iterable[int]) -> Hits:
    return predicates.hits(np.array([[mask(wanted_by)]], np.uint64))[0]


@pytest.fixture
def network() -> tuple[ShortestPaths, Predicates]:
    return ShortestPaths(Graph.numbered(13, EDGES)), own_bit(13)


def test_figure_1_the_tree_of_processor_1(network: tuple[ShortestPaths, Predicates]) -> None:
    trees, predicates = network
    assert trees.subtree(1, 6) == mask({6, 2, 3, 4, 7, 8, 11, 12})
    psf = Psf(trees, predicates)
    assert trees.children(1, 6) == (2, 7)
    for target in (2, 3):
        assert psf.forward(6, 1, message(predicates, {target})) == (2,)
    for target in (4, 7, 8, 11, 12):
        assert psf.forward(6, 1, message(predicates, {target})) == (7,)
    for target in (1, 5, 6, 9, 10):
        assert psf.forward(6, 1, message(predicates, {target})) == ()


def test_section_3_2_processors_1_5_and_9_are_indistinguishable_at_6(
    network: tuple[ShortestPaths, Predicates],
) -> None:
    trees, predicates = network
    ips = Ips(trees, predicates)
    assert ips.view(6, 1) == ips.view(6, 5) == ips.view(6, 9)
    assert ips.header(6, 1) == 6
    for node in (2, 3, 4, 7, 8, 11, 12):
        assert ips.view(node, 1) == ips.view(node, 5) == ips.view(node, 9) == ips.view(node, 6)


def test_figure_2_the_predicate_of_an_interface_speaks_for_all_sources(
    network: tuple[ShortestPaths, Predicates],
) -> None:
    trees, predicates = network
    union = 0
    for source in range(1, 13):
        if 9 in trees.children(source, 6):
            union |= trees.subtree(source, 9)
    assert union == mask({5, 9, 10})
    assert Pif(trees, predicates).behind[6][9] == union


def test_figure_3_pif_is_not_minimal() -> None:
    trees = ShortestPaths(Graph.numbered(5, [(1, 2, 5), (2, 3, 2), (3, 4, 2), (1, 4, 2)]))
    predicates = own_bit(5)
    assert trees.parent(1, 3) == 4
    assert trees.parent(4, 2) == 3

    def edges(scheme: Scheme) -> set[tuple[int, int]]:
        return set(carry(scheme, 1, message(predicates, {2, 4}), hops_max=20)[1])

    assert edges(Pif(trees, predicates)) == {(1, 2), (1, 4), (4, 3)}
    for minimal in (Psf, Ips, Drp):
        assert edges(minimal(trees, predicates)) == {(1, 2), (1, 4)}


def test_figure_4_processor_6_partitions_the_destinations(network: tuple[ShortestPaths, Predicates]) -> None:
    trees, predicates = network
    drp = Drp(trees, predicates)
    first = drp.init(1, message(predicates, {2, 3, 4, 8}))
    assert first == {6: mask({2, 3, 4, 8})}
    assert drp.header(6, first) == {2: mask({2, 3}), 7: mask({4, 8})}
    assert drp.forward(6, first, message(predicates, {2, 3, 4, 8})) == (2, 7)


def test_section_3_4_unique_paths_take_away_the_double_visit(network: tuple[ShortestPaths, Predicates]) -> None:
    trees, predicates = network
    arrived, _ = carry(Drp(trees, predicates), 5, message(predicates, {7, 8, 11}), hops_max=50)
    assert len(arrived) == len(set(arrived))
