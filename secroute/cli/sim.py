"""``secroute sim``: a routing scheme over a generated network and synthetic traffic, as one JSON line."""

from __future__ import annotations

import argparse

from secroute import limits
from secroute.errors import LimitError
from secroute.output import emit_json, say


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from secroute.overlay.schemes import SCHEMES
    from secroute.overlay.topology import FORMS

    parser.add_argument("--topology", default="ring:5", help=FORMS)
    parser.add_argument("--scheme", default="pif", choices=list(SCHEMES))
    parser.add_argument("--receivers", type=int, default=100, help="subscriptions, spread over the routers at random")
    parser.add_argument("--messages", type=int, default=100, help="each enters at a random router")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weight-max", type=int, default=1, help="link weights are random in 1..this")
    parser.set_defaults(run=run)


def _bounded(what: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise LimitError(f"--{what} must be {low}..{high}, not {value}")
    return value


def run(args: argparse.Namespace) -> int:
    """0 if nothing was lost and nothing came twice, else 1."""
    from secroute.sim.report import static_run

    result = static_run(
        args.topology,
        args.scheme,
        receivers=_bounded("receivers", args.receivers, 0, limits.SIM_RECEIVERS_MAX),
        messages=_bounded("messages", args.messages, 0, limits.SIM_MESSAGES_MAX),
        seed=_bounded("seed", args.seed, 0, 2**63 - 1),
        weight_max=_bounded("weight-max", args.weight_max, 1, limits.LINK_WEIGHT_MAX),
    )
    say(
        f"{result['scheme']} on {result['topology']}: {result['deliveries']} deliveries, "
        f"{result['false_negatives']} lost, {result['hops']} hops where {result['ideal_hops']} are ideal"
    )
    emit_json(result)
    return 1 if result["false_negatives"] or result["duplicates"] else 0
