"""Every scheme on random graphs: nothing lost, nothing twice; PSF, iPS and DRP along the ideal tree exactly."""

from __future__ import annotations

import numpy as np
import pytest

from secroute.errors import OverlayError
from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths, Trees
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes import SCHEMES, Ips, make_scheme, require_one_scheme
from secroute.overlay.topology import generate
from secroute.sim.static import Tally, Traffic, carry, evaluate, synthetic
from tests.cases import cases
from tests.unit.overlay.random_graphs import LowestIdWins, random_graph

TOPOLOGIES = ["ring:7", "line:6", "star:6", "tree:13,3", "powerlaw:20"]


def run(name: str, trees: Trees, traffic: Traffic) -> Tally:
    predicates = Predicates(traffic.predicates)
    return evaluate(make_scheme(name, trees, predicates), trees, predicates, traffic.messages, traffic.sources)


def traffic_for(graph: Graph, seed: int) -> Traffic:
    return synthetic(len(graph), 2 * len(graph), 20, seed=seed, vocabulary=60)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("spec", TOPOLOGIES + [f"random {seed}" for seed in range(cases(15, 300))])
def test_nothing_is_lost_and_nothing_comes_twice(name: str, spec: str) -> None:
    graph = random_graph(int(spec.split()[1])) if spec.startswith("random") else generate(spec, weight_max=3)
    tally = run(name, ShortestPaths(graph), traffic_for(graph, len(spec)))
    assert tally.deliveries > 0
    assert (tally.false_negatives, tally.duplicates) == (0, 0)
    assert tally.hops == tally.ideal_hops + tally.false_positive_hops
    if name != "pif":
        assert tally.hops == tally.ideal_hops


@pytest.mark.parametrize("name", SCHEMES)
def test_receivers_are_those_that_a_plain_comparison_finds(name: str) -> None:
    graph = random_graph(5)
    traffic = traffic_for(graph, 5)
    predicates = Predicates(traffic.predicates)
    scheme = make_scheme(name, ShortestPaths(graph), predicates)
    for source, message, hits in zip(traffic.sources, traffic.messages, predicates.hits(traffic.messages), strict=True):
        wanted = {u for u, own in enumerate(traffic.predicates) if any(not (f & ~message).any() for f in own)}
        assert predicates.receivers(hits) == sum(1 << u for u in wanted)
        assert wanted <= set(carry(scheme, source, hits, hops_max=1000)[0])


def test_lowest_id_wins_loses_messages_and_unique_paths_do_not() -> None:
    lost = kept = 0
    for seed in range(150):
        graph = random_graph(seed)
        traffic = traffic_for(graph, seed)
        lost += run("pif", LowestIdWins(graph), traffic).false_negatives > 0
        kept += run("pif", ShortestPaths(graph), traffic).false_negatives == 0
    assert lost > 15
    assert kept == 150


def test_on_a_tree_every_source_behind_a_neighbour_is_one_class() -> None:
    graph = generate("tree:13,3")
    scheme = Ips(ShortestPaths(graph), Predicates(traffic_for(graph, 1).predicates))
    for node in range(13):
        # headers are rewritten at every hop, so only neighbours (and the router itself) are ever seen
        assert set(scheme.classes(node)) <= {node, *graph.neighbours[node]}


def test_tables_of_ips_are_never_larger_than_those_of_psf() -> None:
    for seed in range(20):
        graph = random_graph(seed)
        trees, predicates = ShortestPaths(graph), Predicates(traffic_for(graph, seed).predicates)
        psf, ips = (make_scheme(name, trees, predicates) for name in ("psf", "ips"))
        assert all(ips.table_size(u).filters <= psf.table_size(u).filters for u in range(len(graph)))


def test_mixed_and_unknown_schemes_are_refused() -> None:
    assert require_one_scheme({0: "pif", 1: "pif"}) == "pif"
    with pytest.raises(OverlayError, match="mixes drp at router 1, pif at router 0"):
        require_one_scheme({0: "pif", 1: "drp", 2: "pif"})
    graph = random_graph(0)
    with pytest.raises(OverlayError, match="one of pif, psf, ips, drp"):
        make_scheme("rip", ShortestPaths(graph), Predicates(traffic_for(graph, 0).predicates))


def test_covered_filters_leave_the_tables() -> None:
    wide, narrow = np.array([[1]], np.uint64), np.array([[3]], np.uint64)
    predicates = Predicates([np.concatenate([narrow, wide, wide]), narrow])
    assert [len(rows) for rows in predicates.own] == [1, 1]
    assert len(predicates.union(0b11, across=True)) == 1
    assert len(predicates.union(0b11, across=False)) == 2
