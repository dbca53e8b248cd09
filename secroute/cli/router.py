"""``secroute router``: init, run, status, top. Imports nothing from the trusted side."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from secroute.errors import ConfigError, SecrouteError
from secroute.output import emit_json, say

_FIGURES = ("messages_in", "messages_matched", "messages_out", "acks", "messages_redelivered", "messages_duplicate")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="write a commented configuration")
    init.add_argument("path", nargs="?", type=Path, default=Path("router.toml"))
    init.set_defaults(run=_init)

    run = commands.add_parser("run", help="run a router until SIGTERM")
    run.add_argument("--config", type=Path, required=True)
    run.add_argument("--insecure", action="store_true", help="plaintext; only if it listens on loopback")
    run.add_argument("--engine", default="auto", help="auto, or reference where nothing can be compiled")
    run.add_argument("--address-file", type=Path, help="write the bound addresses here, as JSON, when ready")
    run.set_defaults(run=_run)

    for name, text, function in (
        ("status", "figures of a running router, as JSON", _status),
        ("top", "live figures of a running router", _top),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--router", required=True, metavar="HOST:PORT")
        command.add_argument("--identity", metavar="PREFIX", help="PREFIX.crt, PREFIX.key and ca.crt beside them")
        command.add_argument("--insecure", action="store_true", help="plaintext")
        command.set_defaults(run=function)
        if name == "top":
            command.add_argument("--interval", type=float, default=1.0, metavar="S")
            command.add_argument("--count", type=int, default=0, help="stop after so many; 0: until interrupted")


def _init(args: argparse.Namespace) -> int:
    from secroute.router.template import TEMPLATE

    try:
        with args.path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise ConfigError(f"{args.path} is there already; it is not overwritten") from None
    say(f"wrote {args.path}")
    return 0


def _run(args: argparse.Namespace) -> int:
    from secroute.router.tls13 import require_tls13

    require_tls13()
    from secroute.router.logs import Log
    from secroute.router.run import RouterProcess

    log = Log()

    async def main() -> int:
        process = RouterProcess(
            args.config, engine=args.engine, insecure=args.insecure, address_file=args.address_file, log=log
        )
        return await process.run()

    try:
        return asyncio.run(main())
    except SecrouteError as error:
        log.error("refused-to-start", code=error.code, reason=str(error))
        return 2


def _channel(args: argparse.Namespace) -> Any:
    import grpc

    if args.insecure:
        return grpc.insecure_channel(args.router)
    if not args.identity:
        raise ConfigError("--identity PREFIX is needed (or --insecure)")
    prefix = Path(args.identity)
    credentials = grpc.ssl_channel_credentials(
        (prefix.parent / "ca.crt").read_bytes(),
        prefix.with_name(prefix.name + ".key").read_bytes(),
        prefix.with_name(prefix.name + ".crt").read_bytes(),
    )
    return grpc.secure_channel(args.router, credentials)


def _ask(args: argparse.Namespace, channel: Any) -> tuple[Any, Any, Any]:
    import grpc

    from secroute.wire._generated import admin_pb2, admin_pb2_grpc, gateway_pb2

    admin = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
    try:
        return (
            admin.Status(admin_pb2.StatusRequest(), timeout=10),
            admin.ListSessions(admin_pb2.ListSessionsRequest(), timeout=10),
            admin.ListDurable(gateway_pb2.ListDurableRequest(), timeout=10),
        )
    except grpc.RpcError as error:
        raise SecrouteError(f"{args.router}: {error.code().name.lower()}: {error.details()}") from None


def _status(args: argparse.Namespace) -> int:
    from google.protobuf.json_format import MessageToDict

    with _channel(args) as channel:
        status, sessions, durable = _ask(args, channel)
    result = {}
    for message in (status, sessions, durable):
        result.update(
            MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
        )
    emit_json(result)
    return 0


def _top(args: argparse.Namespace) -> int:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout)
    before: Any = None
    with _channel(args) as channel, Live(console=console, auto_refresh=False, transient=False) as live:
        shown = 0
        while True:
            status, sessions, durable = _ask(args, channel)
            live.update(_table(args.router, status, sessions, durable, before, args.interval), refresh=True)
            before = status
            shown += 1
            if args.count and shown >= args.count:
                return 0
            time.sleep(args.interval)


def _table(router: str, status: Any, sessions: Any, durable: Any, before: Any, interval: float) -> Any:
    from rich.console import Group
    from rich.table import Table

    head = Table(title=f"{router}  router {status.router_id.hex()[:8]}  up {status.uptime_s:.0f} s")
    for name in ("figure", "total", "per second"):
        head.add_column(name, justify="left" if name == "figure" else "right")
    for name in _FIGURES:
        total = getattr(status.counters, name)
        rate = (total - getattr(before.counters, name)) / interval if before is not None else 0.0
        head.add_row(name.replace("_", " "), f"{total:,}", f"{rate:,.0f}")
    head.add_row("sessions", f"{status.sessions} (+{status.sessions_resumable} resumable)", "")
    head.add_row("filters", f"{status.filters:,}", "")
    head.add_row("queued", f"{status.queued_messages:,} ({status.queued_bytes / 2**20:.1f} MiB)", "")
    head.add_row("match p50 / p99", f"{status.match_p50_ms:.2f} / {status.match_p99_ms:.2f} ms", "")
    rows = Table("session", "owner", "filters", "queued", "in", "out", title="busiest sessions")
    for session in sorted(sessions.sessions, key=lambda s: -(s.messages_in + s.messages_out))[:15]:
        mark = "" if session.connected else " (away)"
        counts = (session.filters, session.queued_messages, session.messages_in, session.messages_out)
        rows.add_row(session.session_id.hex()[:8] + mark, session.owner, *(f"{count:,}" for count in counts))
    queues = Table(
        "durable", "owner", "queued", "in flight", "dead", "gaps", "consumers", title="longest durable queues"
    )
    for item in sorted(durable.durable, key=lambda d: -d.queued)[:10]:
        figures = (item.queued, item.in_flight, item.dead, item.gaps, item.consumers)
        queues.add_row(item.name.hex()[:8], item.owner, *(f"{figure:,}" for figure in figures))
    return Group(head, rows, queues)
