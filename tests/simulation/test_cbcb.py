"""CBCB in the simulator: nothing lost, no loop, narrow tables, after faults and churn; and what weaker rules lose."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from secroute.errors import OverlayError
from secroute.overlay.cbcb import Advertise, Cbcb, Heard, Subscribe, Unsubscribe, Withdraw
from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths, Trees
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes import Pif
from secroute.overlay.topology import generate
from secroute.sim.network import Faults, Network
from tests.cases import cases
from tests.unit.overlay.random_graphs import LowestIdWins, random_graph

BITS = 6  # few bits, so that filters often cover each other


def random_filter(rng: random.Random) -> int:
    return sum(1 << bit for bit in rng.sample(range(BITS), rng.randint(1, 3)))


def churn(net: Network, rng: random.Random, steps: int) -> list[Counter[int]]:
    """Receivers come and go while messages of the protocol are still on their way."""
    asked: list[Counter[int]] = [Counter() for _ in net.routers]
    for _ in range(steps):
        node = rng.randrange(len(net.routers))
        if asked[node] and rng.random() < 0.45:
            bits = rng.choice(sorted(asked[node].elements()))
            asked[node] -= Counter([bits])
            net.inject(node, Unsubscribe(bits))
        else:
            bits = random_filter(rng)
            asked[node][bits] += 1
            net.inject(node, Subscribe(bits))
        for _ in range(rng.randrange(4)):
            net.tick()
    net.settle()
    return asked


def count_lost(net: Network) -> int:
    return sum(len(net.lost(source, message)) for source in range(len(net.routers)) for message in range(1 << BITS))


def subscribed(trees: Trees, seed: int, **how: object) -> Network:
    net = Network(trees, seed=seed, **how)  # type: ignore[arg-type]
    rng = random.Random(seed)
    for _ in range(3 * len(trees.graph)):
        net.inject(rng.randrange(len(trees.graph)), Subscribe(random_filter(rng)))
        net.settle()
    return net


def check(net: Network, asked: list[Counter[int]]) -> None:
    n = len(net.routers)
    for source in range(n):
        for message in range(0, 1 << BITS, 3):
            arrived = net.publish(source, message)
            assert len(arrived) == len(set(arrived)), "a loop or a duplicate"
            wanted = {u for u in range(n) if any(f & ~message == 0 for f in asked[u])}
            assert wanted <= set(arrived), "a false negative"
    # Tables are as narrow as if they had been computed from the receivers that are left.
    predicates = Predicates([np.array(sorted(own), np.uint64).reshape(-1, 1) for own in asked])
    ideal = Pif(net.trees, predicates).behind
    for u, router in enumerate(net.routers):
        for w in net.trees.graph.neighbours[u]:
            rows = predicates.union(ideal[u].get(w, 0), across=True)
            assert sorted(router.table(w)) == sorted(int(f) for f in predicates.filters[rows, 0])


@pytest.mark.parametrize("seed", range(cases(100, 2000)))
def test_after_faults_and_churn_nothing_is_lost_and_tables_are_narrow(seed: int) -> None:
    rng = random.Random(seed)
    specs = ["ring:6", "line:5", "star:6", "tree:9,2", "powerlaw:10"]
    graph = random_graph(seed, n_max=9) if seed % 2 else generate(rng.choice(specs), seed=seed, weight_max=2)
    faults = Faults(loss=rng.uniform(0, 0.3), duplicate=rng.uniform(0, 0.2), reorder=rng.uniform(0, 0.5))
    net = Network(ShortestPaths(graph), seed=seed, faults=faults)
    check(net, churn(net, rng, 30))


def test_the_papers_stopping_rule_loses_messages_and_ours_does_not() -> None:
    lost = 0
    for seed in range(60):
        trees = ShortestPaths(random_graph(seed))
        lost += count_lost(subscribed(trees, seed, may_stop=lambda *_: True)) > 0
        assert count_lost(subscribed(trees, seed)) == 0
    assert lost > 5


def test_lowest_id_wins_loses_messages_live_too() -> None:
    lost = sum(count_lost(subscribed(LowestIdWins(random_graph(seed)), seed)) > 0 for seed in range(60))
    assert lost > 5


def test_advertisements_stop_where_they_are_covered() -> None:
    net = Network(ShortestPaths(generate("line:6")))
    net.inject(0, Subscribe(0b1))
    net.settle()
    assert net.control == {"advertise": 5}
    net.inject(0, Subscribe(0b11))
    net.settle()
    assert net.control == {"advertise": 5}
    net.inject(0, Unsubscribe(0b1))
    net.settle()
    assert net.control == {"advertise": 10, "withdraw": 5}
    assert [router.table(u - 1) for u, router in enumerate(net.routers)][1:] == [[0b11]] * 5


def test_a_message_is_matched_at_every_moment_of_a_change_of_cover() -> None:
    net = Network(ShortestPaths(generate("line:6")))
    net.inject(0, Subscribe(0b1))
    net.inject(0, Subscribe(0b11))
    net.settle()
    net.inject(0, Unsubscribe(0b1))
    for _ in range(20):
        assert not net.lost(5, 0b11)
        net.tick()


def test_the_same_seed_gives_the_same_run() -> None:
    runs = []
    for _ in range(2):
        net = Network(ShortestPaths(random_graph(3)), seed=9, faults=Faults(0.2, 0.2, 0.2))
        churn(net, random.Random(9), 40)
        runs.append((net.now, net.frames, net.control))
    assert runs[0] == runs[1]


def test_a_neighbour_may_only_pass_on_what_comes_its_way() -> None:
    router = Cbcb(1, ShortestPaths(Graph.numbered(3, [(0, 1, 1), (1, 2, 1)])))
    for message in (Advertise(2, 1), Advertise(1, 1), Advertise(7, 1), Advertise(-1, 1), Withdraw(2, 1)):
        with pytest.raises(OverlayError, match="not on the way"):
            router.step(Heard(0, message), 0)
    assert router.step(Heard(0, Withdraw(0, 1)), 0) == []
    with pytest.raises(OverlayError, match="no local receiver"):
        router.step(Unsubscribe(1), 0)
