"""How a network comes to know who wants what: the protocols' cost and time under faults, before any message is sent.

UNTRUSTED side. ``pages`` is what live routers do, for every scheme; ``cbcb`` is the papers' protocol, for PIF alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from secroute.errors import OverlayError
from secroute.opaque import Words
from secroute.overlay.cbcb import Subscribe
from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes import Pif
from secroute.sim.network import Faults, Network
from secroute.sim.pages import PageNetwork

PROTOCOLS = ("pages", "cbcb")
_APART_TICKS = 40  # how long a partition or a dead router lasts


@dataclass(frozen=True, slots=True)
class Troubles:
    """What goes wrong while the network converges."""

    faults: Faults = field(default_factory=Faults)
    partitions: int = 0
    crashes: int = 0


def converge(protocol: str, graph: Graph, predicates: Sequence[Words], seed: int, troubles: Troubles) -> dict[str, Any]:
    """Let all routers tell one another what their receivers want; what it cost, and whether everybody knows.

    If everybody does, messages travel as ``static`` evaluates them: it works on the very same tables.
    """
    if protocol == "pages":
        return _pages(graph, predicates, seed, troubles)
    if protocol == "cbcb":
        return _cbcb(graph, predicates, seed, troubles)
    raise OverlayError(f"no protocol {protocol[:32]!r}: it must be one of {', '.join(PROTOCOLS)}")


def _sides(rng: random.Random, graph: Graph) -> set[tuple[int, int]]:
    """The edges between two random halves."""
    half = set(rng.sample(range(len(graph)), max(1, len(graph) // 2)))
    return {(a, b) for a, b in graph.weights if (a in half) != (b in half)}


def _pages(graph: Graph, predicates: Sequence[Words], seed: int, troubles: Troubles) -> dict[str, Any]:
    rng = random.Random(f"troubles/{seed}")
    net = PageNetwork(graph, seed=seed, faults=troubles.faults)
    for number, bits in enumerate(predicates):
        if len(bits):
            net.subscribe(number, bits)
    for _ in range(troubles.partitions):
        net.cut(_sides(rng, graph))
        _wait(net)
        net.cut(set())
        _wait(net)
    for _ in range(troubles.crashes):
        number = rng.randrange(len(graph))
        net.crash(number)
        _wait(net)
        net.restart(number)
    net.settle()
    complete = net.whole() and all(
        router.book.filters(other.id) == len(np.unique(predicates[number], axis=0))
        for router in net.routers
        for number, other in enumerate(net.routers)
        if other is not router
    )
    return {
        "control": dict(sorted(net.control.items())),
        "frames": net.frames,
        "convergence_ticks": net.now,
        "everybody_knows": complete,
    }


def _wait(net: PageNetwork | Network) -> None:
    for _ in range(_APART_TICKS):
        net.tick()


def _cbcb(graph: Graph, predicates: Sequence[Words], seed: int, troubles: Troubles) -> dict[str, Any]:
    rng = random.Random(f"troubles/{seed}")
    net = Network(ShortestPaths(graph), seed=seed, faults=troubles.faults)
    asked = [[int.from_bytes(row.tobytes(), "little") for row in bits] for bits in predicates]
    for number, filters in enumerate(asked):
        for bits in filters:
            net.inject(number, Subscribe(bits))
    for _ in range(troubles.partitions):
        net.cut(_sides(rng, graph))
        _wait(net)
        net.cut(set())
    for _ in range(troubles.crashes):
        _wait(net)
        number = rng.randrange(len(graph))
        net.crash(number)
        for bits in asked[number]:
            net.inject(number, Subscribe(bits))
    net.settle()
    return {
        "control": dict(sorted(net.control.items())),
        "frames": net.frames,
        "convergence_ticks": net.now,
        "advertisements_stopped": sum(router.stopped for router in net.routers),
        "everybody_knows": _as_computed(net, predicates),
    }


def _as_computed(net: Network, predicates: Sequence[Words]) -> bool:
    """Whether every table is exactly what follows from the receivers."""
    wanted = Predicates(list(predicates))
    ideal = Pif(net.trees, wanted).behind
    numbers = [int.from_bytes(row.tobytes(), "little") for row in wanted.filters]
    return all(
        set(router.table(w)) == {numbers[row] for row in wanted.union(ideal[u].get(w, 0), across=True)}
        for u, router in enumerate(net.routers)
        for w in net.trees.graph.neighbours[u]
    )
