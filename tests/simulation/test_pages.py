"""Live routers in the simulator: loss, duplication, reordering, partitions, crashes and churn, for every scheme."""

from __future__ import annotations

import random

import numpy as np
import pytest

from secroute.opaque import Words
from secroute.overlay.paths import ShortestPaths, path
from secroute.overlay.schemes import SCHEMES
from secroute.overlay.topology import generate
from secroute.sim.network import Faults
from secroute.sim.pages import PageNetwork
from tests.cases import cases
from tests.unit.overlay.random_graphs import random_graph

BITS = 6
SPECS = ["ring:6", "line:5", "star:6", "tree:9,2", "powerlaw:9"]


def some_filter(rng: random.Random) -> Words:
    return np.array([[sum(1 << bit for bit in rng.sample(range(BITS), rng.randint(1, 3)))]], np.uint64)


def trouble(net: PageNetwork, rng: random.Random, steps: int) -> None:
    """Everything that may happen, in any order, while the protocol is at work; in the end all is mended."""
    n = len(net.routers)
    for _ in range(steps):
        chance, number = rng.random(), rng.randrange(n)
        if chance < 0.5:
            net.subscribe(number, some_filter(rng))
        elif chance < 0.7 and net.routers[number].asked:
            net.unsubscribe(number, rng.randrange(len(net.routers[number].asked)))
        elif chance < 0.8:
            net.crash(number)
        elif chance < 0.9:
            net.restart(number)
        elif chance < 0.95:
            side = set(rng.sample(range(n), rng.randint(1, n - 1)))
            net.cut({(a, b) for a, b in net.cables if (a in side) != (b in side)})
        else:
            net.cut(set())
        for _ in range(rng.randrange(6)):
            net.tick()
    net.cut(set())
    for number in range(n):
        net.restart(number)
    net.settle()


def check(net: PageNetwork) -> None:
    assert net.whole()
    number = {router.id: index for index, router in enumerate(net.routers)}
    ids = net.routers[0].states.component().ids
    assert len(ids) == len(net.routers), "a router is missing from the network"
    trees = ShortestPaths(net.routers[0].states.component())
    for scheme in SCHEMES:
        for source in range(len(net.routers)):
            for message in (0b111111, 0b010110, 0b101001, 0b001011):
                bits = np.array([[message]], np.uint64)
                arrived = net.publish(scheme, source, bits)
                assert len(arrived) == len(set(arrived)), f"{scheme}: a loop or a duplicate"
                asked = [any(not (f & ~bits).any() for f in router.asked) for router in net.routers]
                wanted = {u for u, wants in enumerate(asked) if wants}
                assert wanted <= set(arrived), f"{scheme}: a false negative"
                if scheme != "pif":
                    at = ids.index(net.routers[source].id)
                    ways = [path(trees, at, ids.index(net.routers[u].id)) for u in wanted]
                    ideal = {source} | {number[ids[step]] for way in ways for step in way}
                    assert set(arrived) == ideal, f"{scheme}: not the ideal tree"


@pytest.mark.parametrize("seed", range(cases(100, 2000)))
def test_after_faults_crashes_and_churn_nothing_is_lost_in_any_scheme(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(seed, n_max=8) if seed % 2 else generate(rng.choice(SPECS), seed=seed, weight_max=2)
    faults = Faults(loss=rng.uniform(0, 0.3), duplicate=rng.uniform(0, 0.2), reorder=rng.uniform(0, 0.5))
    net = PageNetwork(graph, seed=seed, faults=faults)
    trouble(net, rng, 30)
    check(net)
