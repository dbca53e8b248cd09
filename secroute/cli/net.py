"""``secroute net``: a whole network of router processes on loopback; start it, look at it, end it."""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

from secroute.errors import ConfigError
from secroute.output import emit_json, say

_FOLDER = Path("secroute-net")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare ``up``, ``status`` and ``down``."""
    from secroute.overlay.schemes import SCHEMES
    from secroute.overlay.topology import FORMS

    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a network")
    up.add_argument("--topology", default="ring:5", help=f"{FORMS}, or a .toml file with [[link]] tables: a, b, weight")
    up.add_argument("--scheme", default="pif", choices=list(SCHEMES))
    up.add_argument("--seed", type=int, default=0, help="of powerlaw networks")
    up.set_defaults(run=_up)
    status = commands.add_parser("status", help="draw it, with tables and rates on the links")
    status.add_argument("--seconds", type=float, default=1.0, help="over which rates are measured")
    status.add_argument("--dot", type=Path, metavar="FILE", help="also write it for Graphviz")
    status.set_defaults(run=_status)
    down = commands.add_parser("down", help="end it and remove its folder")
    down.set_defaults(run=_down)
    for command in (up, status, down):
        command.add_argument("--folder", type=Path, default=_FOLDER, help="certificates, configurations, stores, logs")


def _up(args: argparse.Namespace) -> int:
    from secroute.bench.net_lab import Network, plan

    names, links = plan(args.topology, args.seed)
    began = time.monotonic()
    net = Network.create(args.folder, names, links, scheme=args.scheme, topology=args.topology)
    try:
        net.start()
        net.wait_whole(30.0 + len(names))
    except BaseException:
        net.stop()
        raise
    say(f"{len(names)} routers, {len(links)} links, {args.scheme}; clients: --identity {args.folder / 'client'}")
    targets = {name: net.target(name) for name in names}
    emit_json(
        {
            "folder": str(args.folder),
            "scheme": args.scheme,
            "seconds": round(time.monotonic() - began, 2),
            "routers": targets,
        }
    )
    return 0


def _network(folder: Path) -> Any:
    from secroute.bench.net_lab import STATE, Network

    if not (folder / STATE).exists():
        raise ConfigError(f"{folder} holds no network; start one with `secroute net up --folder {folder}`")
    return Network(folder)


def _status(args: argparse.Namespace) -> int:
    from secroute.cli.net_picture import ascii_picture, dot_picture, gather

    net = _network(args.folder)
    first = gather(net)
    time.sleep(max(0.0, args.seconds))
    seen = gather(net, first, args.seconds)
    say(ascii_picture(net, seen))
    if args.dot is not None:
        args.dot.write_text(dot_picture(seen))
    emit_json(seen)
    return 0 if seen["whole"] else 1


def _down(args: argparse.Namespace) -> int:
    net = _network(args.folder)
    ended = net.stop()
    shutil.rmtree(args.folder)
    say(f"{ended} routers ended, {args.folder} removed")
    emit_json({"ended": ended})
    return 0
