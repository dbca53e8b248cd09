"""``secroute sim``: a routing scheme over a generated network and synthetic traffic, as one JSON line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from secroute import limits
from secroute.errors import LimitError
from secroute.output import emit_json, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from secroute.overlay.schemes import SCHEMES
    from secroute.overlay.topology import FORMS

    parser.add_argument("--topology", default="ring:5", help=FORMS)
    parser.add_argument("--scheme", default="pif", choices=[*SCHEMES, "all"], help="all: every scheme, in one table")
    parser.add_argument("--receivers", type=int, default=100, help="subscriptions, spread over the routers at random")
    parser.add_argument("--messages", type=int, default=100, help="each enters at a random router")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weight-max", type=int, default=1, help="link weights are random in 1..this")
    parser.add_argument("--protocol", default="pages", choices=("pages", "cbcb"), help="how routers learn of filters")
    for name, text in (("loss", "lost"), ("duplicate", "sent twice"), ("reorder", "late")):
        parser.add_argument(f"--{name}", type=float, default=0.0, metavar="P", help=f"share of frames that are {text}")
    parser.add_argument(
        "--partition", type=int, default=0, metavar="N", help="so often the network falls apart and heals"
    )
    parser.add_argument("--crash", type=int, default=0, metavar="N", help="so many routers die and come back")
    parser.add_argument(
        "--plots", type=Path, metavar="DIR", help="with all: also draw hops, and memory as networks grow"
    )
    parser.add_argument("--grow-to", type=int, default=1_000, metavar="N", help="the largest network that is drawn")
    parser.set_defaults(run=run)


Number = TypeVar("Number", int, float)


def _bounded(what: str, value: Number, low: Number, high: Number) -> Number:
    if not low <= value <= high:
        raise LimitError(f"--{what} must be {low}..{high}, not {value}")
    return value


def run(args: argparse.Namespace) -> int:
    """0 if nothing was lost and nothing came twice, else 1."""
    from secroute.sim.converge import Troubles
    from secroute.sim.network import Faults
    from secroute.sim.report import full_run

    shares = [_bounded(name, getattr(args, name), 0.0, 0.9) for name in ("loss", "duplicate", "reorder")]
    troubles = Troubles(
        Faults(*shares), _bounded("partition", args.partition, 0, 1_000), _bounded("crash", args.crash, 0, 1_000)
    )

    def one(scheme: str, cost: dict[str, Any] | None = None) -> dict[str, Any]:
        return full_run(
            args.topology,
            scheme,
            receivers=_bounded("receivers", args.receivers, 0, limits.SIM_RECEIVERS_MAX),
            messages=_bounded("messages", args.messages, 0, limits.SIM_MESSAGES_MAX),
            seed=_bounded("seed", args.seed, 0, 2**63 - 1),
            weight_max=_bounded("weight-max", args.weight_max, 1, limits.LINK_WEIGHT_MAX),
            protocol=args.protocol,
            troubles=troubles,
            cost=cost,
        )

    if args.scheme == "all":
        return _all(args, one)
    result = one(args.scheme)
    say(
        f"{result['scheme']} on {result['topology']}: {result['deliveries']} deliveries, "
        f"{result['false_negatives']} lost, {result['hops']} hops where {result['ideal_hops']} are ideal; "
        f"converged in {result['convergence_ticks']} ticks"
    )
    emit_json(result)
    return _verdict(result)


def _verdict(result: dict[str, Any]) -> int:
    return 1 if result["false_negatives"] or result["duplicates"] or not result["everybody_knows"] else 0


def _all(args: argparse.Namespace, one: Callable[[str, dict[str, Any] | None], dict[str, Any]]) -> int:
    """Every scheme on the same network, receivers and messages."""
    from secroute.overlay.schemes import SCHEMES
    from secroute.sim.compare import growth, table
    from secroute.sim.report import COST_KEYS

    runs: list[dict[str, Any]] = []
    for scheme in SCHEMES:
        runs.append(one(scheme, {key: runs[0][key] for key in COST_KEYS} if runs else None))
    say(table(runs))
    result: dict[str, Any] = {"runs": runs, "growth": {}}
    if args.plots is not None:
        from secroute.cli.sim_plots import plot_growth, plot_hops

        plot_hops(runs, args.plots / "sim-hops.svg")
        most = _bounded("grow-to", args.grow_to, 50, limits.OVERLAY_ROUTERS_MAX)
        for kind, spec in (("powerlaw", "powerlaw:{}"), ("tree", "tree:{},3")):
            sizes = [n for n in (50, 100, 200, 400, 700, 1000) if n <= most]
            points = [growth(spec.format(n), receivers=2 * n, seed=args.seed) for n in sizes]
            title = f"memory of the schemes, {kind} networks, two filters a router"
            plot_growth(points, args.plots / f"sim-memory-{kind}.svg", title)
            result["growth"][kind] = points
    emit_json(result)
    return max(map(_verdict, runs))
