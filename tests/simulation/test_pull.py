"""Sender requests and update replies: the slides' example, narrow tables after churn, and what a naive merge loses."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from secroute.errors import OverlayError
from secroute.overlay.cbcb import Arrived, Heard, Pull, Reply, Request, Subscribe, Unsubscribe
from secroute.overlay.cbcb_events import Key
from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths
from secroute.overlay.pull import PullState
from secroute.overlay.topology import generate
from secroute.sim.network import Faults, Network
from tests.cases import cases
from tests.simulation.test_cbcb import BITS, check, random_filter
from tests.unit.overlay.random_graphs import random_graph

# The slides' figure is not in their text; this network makes every statement of the text true. Router 0 is not used.
SLIDES = [(1, 2, 1), (1, 3, 1), (2, 3, 1), (3, 5, 1), (2, 4, 2), (3, 4, 1), (4, 6, 1)]
P6, P6_NEW = 0b01, 0b11  # p6 covers p6'


@pytest.fixture
def slides() -> Network:
    net = Network(ShortestPaths(Graph.numbered(7, SLIDES)), withdrawals=False)
    net.inject(6, Subscribe(P6))
    net.settle()
    return net


def test_advertisements_inflate_the_tables(slides: Network) -> None:
    net = slides
    before = net.control["advertise"]
    net.inject(6, Subscribe(P6_NEW))
    net.inject(6, Unsubscribe(P6))
    net.settle()
    # The new predicate is covered by the old one wherever it comes, so the tables stay as they were ...
    assert net.routers[4].table(6) == [P6]
    assert net.routers[5].table(3) == [P6]
    assert net.control["advertise"] - before <= 1
    # ... and router 6 gets messages that match p6 and not p6'.
    assert 6 in net.publish(5, 0b01)
    assert not net.routers[6].wants(0b01)
    assert not net.lost(5, 0b11)


def test_request_and_replies_repair_the_issuers_table(slides: Network) -> None:
    net = slides
    net.inject(6, Subscribe(P6_NEW))
    net.inject(6, Unsubscribe(P6))
    net.settle()
    net.inject(5, Pull())
    net.settle()
    assert net.routers[5].table(3) == [P6_NEW]
    assert net.publish(5, 0b01) == [5]
    assert net.publish(5, 0b11) == [5, 3, 4, 6]
    assert (net.control["request"], net.control["reply"]) == (5, 5)
    # Replies name their origins, so the routers that they pass narrow, too; a router that none passed does not.
    assert net.routers[3].table(4) == net.routers[4].table(6) == [P6_NEW]
    assert net.routers[1].table(3) == [P6]
    net.inject(1, Pull())
    net.settle()
    assert net.routers[1].table(3) == [P6_NEW]


def test_a_reply_is_reused_across_the_bridge(slides: Network) -> None:
    net = slides
    for issuer in (5, 1):
        net.inject(issuer, Pull())
        net.settle()
    asked_6 = net.control["request"]
    net.inject(2, Pull())
    net.settle()
    assert net.control["request"] < 3 * asked_6 / 2, "router 4 asked 6 again"
    # Anything that passes the link makes the remembered reply worthless.
    net.inject(6, Subscribe(0b100))
    net.settle()
    net.inject(1, Pull())
    net.settle()
    assert not net.lost(1, 0b100)


def test_messages_in_vain_trigger_a_request(slides: Network) -> None:
    net = slides
    net.inject(6, Subscribe(P6_NEW))
    net.inject(6, Unsubscribe(P6))
    net.settle()
    for _ in range(20):
        net.inject(6, Arrived(4, wanted=False))
    net.settle()
    assert net.control["unwanted"] == 1
    assert net.routers[4].table(6) == [P6_NEW]


def churn(net: Network, rng: random.Random, steps: int) -> list[Counter[int]]:
    asked: list[Counter[int]] = [Counter() for _ in net.routers]
    for _ in range(steps):
        node = rng.randrange(len(net.routers))
        chance = rng.random()
        if asked[node] and chance < 0.35:
            bits = rng.choice(sorted(asked[node].elements()))
            asked[node] -= Counter([bits])
            net.inject(node, Unsubscribe(bits))
        elif chance < 0.55:
            net.inject(node, Pull())
        else:
            bits = random_filter(rng)
            asked[node][bits] += 1
            net.inject(node, Subscribe(bits))
        for _ in range(rng.randrange(4)):
            net.tick()
    net.settle()
    return asked


def lost(net: Network) -> int:
    return sum(len(net.lost(source, m)) for source in range(len(net.routers)) for m in range(1 << BITS))


@pytest.mark.parametrize("seed", range(cases(60, 2000)))
@pytest.mark.parametrize("withdrawals", [True, False])
def test_requests_during_churn_lose_nothing_and_tables_narrow_again(seed: int, withdrawals: bool) -> None:
    rng = random.Random(seed)
    graph = (
        random_graph(seed, n_max=8)
        if seed % 2
        else generate(rng.choice(["ring:6", "powerlaw:8", "tree:7,2"]), seed=seed)
    )
    faults = Faults(loss=rng.uniform(0, 0.2), duplicate=rng.uniform(0, 0.2), reorder=rng.uniform(0, 0.5))
    net = Network(ShortestPaths(graph), seed=seed, faults=faults, withdrawals=withdrawals)
    asked = churn(net, rng, 30)
    assert lost(net) == 0
    net.now += 100  # remembered replies are too old now
    for _ in range(2):  # whoever was narrowed first is told of what others had stopped for it
        for node in range(len(net.routers)):
            net.inject(node, Pull())
            net.settle()
    check(net, asked)


def test_a_naive_merge_of_replies_and_advertisements_loses_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgets(self: PullState, neighbour: int, key: Key, advertised: bool) -> None:
        self._cache.pop(neighbour, None)  # what passed since the request is not remembered

    def losers() -> int:
        count = 0
        for seed in range(60):
            rng = random.Random(seed)
            net = Network(ShortestPaths(random_graph(seed, n_max=8)), seed=seed, faults=Faults(0.1, 0.1, 0.5))
            churn(net, rng, 60)
            count += lost(net) > 0
        return count

    assert losers() == 0
    monkeypatch.setattr(PullState, "passed", forgets)
    assert losers() > 0


def test_a_reply_may_speak_only_for_routers_behind_its_link() -> None:
    net = Network(ShortestPaths(generate("line:3")))
    liar = net.routers[1]
    liar.step(Heard(0, Request(0, 1)), 0)
    with pytest.raises(OverlayError, match="not behind it"):
        liar.step(Heard(2, Reply(0, 1, ((0, 0b1),))), 0)


@pytest.mark.parametrize("seed", range(cases(40, 1000)))
def test_crashes_and_partitions_leave_nothing_behind(seed: int) -> None:
    rng = random.Random(seed)
    net = Network(ShortestPaths(random_graph(seed, n_max=8)), seed=seed, faults=Faults(0.1, 0.1, 0.3))
    asked: list[Counter[int]] = [Counter() for _ in net.routers]
    links = sorted(net.trees.graph.weights)
    for _ in range(20):
        node, chance = rng.randrange(len(net.routers)), rng.random()
        if chance < 0.15:
            net.crash(node)
            for bits in asked[node]:
                net.inject(node, Subscribe(bits))
        elif chance < 0.3:
            net.cut(set(rng.sample(links, rng.randint(0, len(links)))))
        elif asked[node] and chance < 0.5:
            bits = rng.choice(sorted(asked[node]))
            del asked[node][bits]
            net.inject(node, Unsubscribe(bits))
        elif (bits := random_filter(rng)) not in asked[node]:
            asked[node][bits] = 1
            net.inject(node, Subscribe(bits))
        for _ in range(rng.randrange(6)):
            net.tick()
    net.cut(set())
    net.settle()
    check(net, asked)
