"""All schemes side by side: one table on the same seed and traffic, and how memory grows beside the papers' formulas.

UNTRUSTED side, pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from secroute.overlay.graph import Graph
from secroute.overlay.paths import ShortestPaths, path
from secroute.overlay.predicates import Predicates
from secroute.overlay.schemes import SCHEMES, make_scheme
from secroute.overlay.topology import generate
from secroute.sim.static import synthetic

COLUMNS = (
    ("scheme", "scheme"),
    ("deliveries", "deliveries"),
    ("false_negatives", "lost"),
    ("duplicates", "twice"),
    ("hops", "hops"),
    ("ideal_hops", "ideal"),
    ("false_positive_hops", "in vain"),
    ("filters_mean", "filters a router"),
    ("kib_mean", "KiB a router"),
    ("kib_total", "KiB in all"),
)


def table(runs: Iterable[dict[str, Any]]) -> str:
    """Runs as one Markdown table."""
    lines = ["| " + " | ".join(name for _, name in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    for run in runs:
        shown = {
            **run,
            "filters_mean": f"{run['table_filters']['mean']:.0f}",
            "kib_mean": f"{run['table_bits']['mean'] / 8192:.1f}",
            "kib_total": f"{run['table_bits']['total'] / 8192:.0f}",
        }
        lines.append("| " + " | ".join(str(shown[key]) for key, _ in COLUMNS) + " |")
    return "\n".join(lines)


def formulas(graph: Graph, trees: ShortestPaths, predicates: Predicates) -> dict[str, float]:
    """The papers' memory in bits, every router a sender, without any disjunction advantage (alpha = 1).

    For iPS the papers have a formula on trees only; it is that of PSF with sources replaced by neighbours.
    """
    n = len(graph)
    wanted = [u for u in range(n) if len(predicates.own[u])]
    bits_of_one = sum(len(predicates.own[u]) for u in wanted) * predicates.bits / max(1, len(wanted))
    distance = sum(len(path(trees, v, x)) - 1 for v in range(n) for x in wanted) / max(1, n * len(wanted))
    log_n, r = math.log2(max(2, n)), len(wanted)
    degree = 2 * len(graph.weights) / n
    return {
        "psf": n * log_n + n * r * bits_of_one * distance,
        "pif": n * (n * degree * log_n + r * bits_of_one),
        "drp": n * r * log_n + n * r * bits_of_one,
        **({"ips": n * r * bits_of_one} if len(graph.weights) == n - 1 else {}),
    }


def growth(topology: str, *, receivers: int, seed: int) -> dict[str, Any]:
    """Total memory of every scheme on one network, measured and by formula, in bits."""
    graph = generate(topology, seed=seed)
    trees = ShortestPaths(graph)
    predicates = Predicates(synthetic(len(graph), receivers, 0, seed=seed).predicates)
    measured = {}
    for name in SCHEMES:
        scheme = make_scheme(name, trees, predicates)
        measured[name] = sum(scheme.table_size(u).bits(predicates.bits) for u in range(len(graph)))
    return {
        "topology": topology,
        "routers": len(graph),
        "receivers": receivers,
        "measured_bits": measured,
        "formula_bits": formulas(graph, trees, predicates),
    }
