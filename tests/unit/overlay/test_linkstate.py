"""Link states: everybody agrees on the graph; lies, replays and foreign identities change nothing."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute.errors import LimitError, LinkStateError
from secroute.overlay.linkstate import (
    Effect,
    GraphChanged,
    Heard,
    LinkDown,
    LinkStates,
    LinkUp,
    SaveSequence,
    Send,
    Tick,
    sign,
)
from tests.cases import cases
from tests.unit.overlay.random_graphs import random_graph


def key(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


class Net:
    """Routers joined by queues: in order on every link, links served in random order."""

    def __init__(self, n: int, seed: int) -> None:
        self.nodes = [LinkStates(key(i + 1)) for i in range(n)]
        self.number = {node.router: i for i, node in enumerate(self.nodes)}
        self.queues: dict[tuple[int, int], deque[Send]] = {}
        self.rng = random.Random(seed)

    def do(self, i: int, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                queue = self.queues.get((i, self.number[effect.neighbour]))
                if queue is not None:
                    queue.append(effect)

    def join(self, a: int, b: int, weight: int) -> None:
        self.queues[a, b], self.queues[b, a] = deque(), deque()
        self.do(a, self.nodes[a].step(LinkUp(self.nodes[b].router, weight), 0))
        self.do(b, self.nodes[b].step(LinkUp(self.nodes[a].router, weight), 0))

    def cut(self, a: int, b: int) -> None:
        del self.queues[a, b], self.queues[b, a]
        self.do(a, self.nodes[a].step(LinkDown(self.nodes[b].router), 0))
        self.do(b, self.nodes[b].step(LinkDown(self.nodes[a].router), 0))

    def settle(self) -> None:
        while ready := sorted(link for link, queue in self.queues.items() if queue):
            a, b = self.rng.choice(ready)
            state = self.queues[a, b].popleft().state
            self.do(b, self.nodes[b].step(Heard(self.nodes[a].router, state), 0))

    def edges_seen_by(self, i: int) -> set[tuple[int, int, int]]:
        graph = self.nodes[i].graph()
        names = [self.number[router] for router in graph.ids]
        return {(*sorted((names[a], names[b])), w) for (a, b), w in graph.weights.items()}  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(cases(15, 300)))
def test_all_routers_see_the_same_graph_also_after_a_cut(seed: int) -> None:
    graph = random_graph(seed, weight_max=5)
    net = Net(len(graph), seed)
    for (a, b), weight in graph.weights.items():
        net.join(a, b, weight)
        for _ in range(net.rng.randrange(2)):
            net.settle()
    net.settle()
    wanted = {(a, b, w) for (a, b), w in graph.weights.items()}
    assert all(net.edges_seen_by(i) == wanted for i in range(len(graph)))
    cut = max(graph.weights)
    net.cut(*cut)
    net.settle()
    assert all((*cut, graph.weights[cut]) not in net.edges_seen_by(i) for i in range(len(graph)))


def pair() -> tuple[LinkStates, LinkStates]:
    a, b = LinkStates(key(1)), LinkStates(key(2))
    a.step(LinkUp(b.router), 0)
    return a, b


def test_an_edge_that_one_end_denies_does_not_count() -> None:
    a, b = pair()
    assert a.step(Heard(b.router, sign(key(2), 1, {})), 0) == []
    assert not a.graph().weights
    assert GraphChanged() in a.step(Heard(b.router, sign(key(2), 2, {a.router: 3})), 0)
    assert list(a.graph().weights.values()) == [3]


def test_a_liar_cannot_claim_links_of_others() -> None:
    a, b = pair()
    victim = LinkStates(key(3)).router
    a.step(Heard(b.router, sign(key(2), 1, {a.router: 1, victim: 1})), 0)
    a.step(Heard(b.router, sign(key(3), 1, {})), 0)
    assert len(a.graph().weights) == 1


def test_what_is_not_signed_by_its_router_is_refused_and_changes_nothing() -> None:
    a, b = pair()
    good = sign(key(2), 5, {a.router: 1})
    for bad in (
        replace(good, sequence=6),
        replace(good, links=()),
        replace(good, public_key=key(3).public_key().public_bytes_raw()),
        replace(good, signature=bytes(64)),
        replace(good, public_key=b"short"),
    ):
        with pytest.raises(LinkStateError, match="not signed"):
            a.step(Heard(b.router, bad), 0)
    assert GraphChanged() in a.step(Heard(b.router, good), 0)


def test_old_records_are_not_taken_even_after_expiry() -> None:
    a, b = pair()
    old, new = sign(key(2), 1, {a.router: 9}), sign(key(2), 2, {a.router: 1})
    a.step(Heard(b.router, new), 0)
    assert a.step(Heard(b.router, old), 1) == []
    assert GraphChanged() in a.step(Tick(), 300)
    assert not a.graph().weights
    assert a.step(Heard(b.router, old), 301) == a.step(Heard(b.router, new), 301) == []
    assert not a.graph().weights


def test_sequence_numbers_are_saved_first_and_survive_a_restart() -> None:
    a, b = pair()
    effects = a.step(Tick(), 100)
    assert isinstance(effects[0], SaveSequence)
    again = LinkStates(key(1), saved_sequence=effects[0].sequence)
    first = again.step(LinkUp(b.router), 200)[0]
    assert isinstance(first, SaveSequence)
    assert first.sequence > effects[0].sequence


def test_a_router_that_lost_its_numbers_speaks_louder_than_its_past() -> None:
    a, b = pair()
    effects = a.step(Heard(b.router, sign(key(1), 77, {})), 0)
    assert effects[0] == SaveSequence(78)
    assert isinstance(effects[1], Send)
    assert effects[1].state.links == ((b.router, 1),)


def test_strangers_and_oversized_records_are_refused() -> None:
    a, b = pair()
    with pytest.raises(LinkStateError, match="not a neighbour"):
        a.step(Heard(LinkStates(key(9)).router, sign(key(9), 1, {})), 0)
    many = {i.to_bytes(16, "big"): 1 for i in range(2_000)}
    with pytest.raises(LimitError):
        a.step(Heard(b.router, sign(key(2), 1, many)), 0)
    with pytest.raises(LinkStateError, match="weights"):
        a.step(Heard(b.router, sign(key(2), 1, {a.router: 0})), 0)
