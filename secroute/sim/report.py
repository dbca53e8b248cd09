"""One run as a plain mapping, ready to be printed as JSON: the network converges, then messages are sent.

UNTRUSTED side, pure.
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from secroute.errors import OverlayError
from secroute.overlay.paths import ShortestPaths
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes import make_scheme
from secroute.overlay.topology import generate
from secroute.sim.converge import Troubles, converge
from secroute.sim.static import evaluate, synthetic


def static_run(
    topology: str, scheme: str, *, receivers: int, messages: int, seed: int, weight_max: int = 1
) -> dict[str, Any]:
    """Build the network and its tables, send the messages, and tell what happened and what the tables hold."""
    graph = generate(topology, seed=seed, weight_max=weight_max)
    traffic = synthetic(len(graph), receivers, messages, seed=seed)
    trees, predicates = ShortestPaths(graph), Predicates(traffic.predicates)
    routing = make_scheme(scheme, trees, predicates)
    tally = evaluate(routing, trees, predicates, traffic.messages, traffic.sources)
    sizes = [routing.table_size(node) for node in range(len(graph))]
    filters = [size.filters for size in sizes]
    bits = [size.bits(predicates.bits) for size in sizes]
    return {
        "topology": topology,
        "scheme": scheme,
        "routers": len(graph),
        "links": len(graph.weights),
        "receivers": receivers,
        "messages": messages,
        "seed": seed,
        "distinct_filters": len(predicates.filters),
        **asdict(tally),
        "table_filters": {"total": sum(filters), "mean": fmean(filters), "max": max(filters)},
        "table_bits": {"total": sum(bits), "mean": fmean(bits), "max": max(bits)},
    }


def full_run(
    topology: str,
    scheme: str,
    *,
    receivers: int,
    messages: int,
    seed: int,
    weight_max: int = 1,
    protocol: str = "pages",
    troubles: Troubles | None = None,
    cost: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """:func:`static_run`, and what it took until every router knew what it needs for that, under ``troubles``.

    ``cost`` is that of an earlier run with the same network and receivers: pages serve every scheme alike.
    """
    if protocol == "cbcb" and scheme != "pif":
        raise OverlayError(f"the papers' CBCB makes the tables of pif, not of {scheme}: use --protocol pages")
    result = static_run(topology, scheme, receivers=receivers, messages=messages, seed=seed, weight_max=weight_max)
    if cost is None:
        graph = generate(topology, seed=seed, weight_max=weight_max)
        traffic = synthetic(len(graph), receivers, messages, seed=seed)
        troubles = troubles or Troubles()
        faults = {**asdict(troubles.faults), "partitions": troubles.partitions, "crashes": troubles.crashes}
        cost = {"protocol": protocol, "faults": faults, **converge(protocol, graph, traffic.predicates, seed, troubles)}
    return {**result, **cost}


COST_KEYS = ("protocol", "faults", "control", "frames", "convergence_ticks", "everybody_knows")
