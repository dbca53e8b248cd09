"""``secroute router status|top|epochs|durable|dead|drain``: the operator's commands to a running router.

Imports nothing from the trusted side. They need a certificate whose name has the admin role.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from secroute.errors import ConfigError, SecrouteError
from secroute.output import emit_json

_FIGURES = ("messages_in", "messages_matched", "messages_out", "acks", "messages_redelivered", "messages_duplicate")
_TIMEOUT_S = 10


def configure(commands: Any) -> None:
    """Add the sub-commands."""
    _command(commands, "status", "figures of a running router, as JSON", _status)
    top = _command(commands, "top", "live figures of a running router", _top)
    top.add_argument("--interval", type=float, default=1.0, metavar="S")
    top.add_argument("--count", type=int, default=0, help="stop after so many; 0: until interrupted")
    _command(commands, "epochs", "epochs seen, their profiles and tables, as JSON", _epochs)
    durable = _command(commands, "durable", "list durable subscriptions, or delete one, as JSON", _durable)
    durable.add_argument("--delete", metavar="HEX", help="the opaque name of one; needs --owner")
    durable.add_argument("--owner", metavar="NAME", help="whose it is")
    dead = _command(commands, "dead", "put the dead letters of a durable subscription back, or drop them", _dead)
    dead.add_argument("what", choices=("requeue", "drop"))
    dead.add_argument("name", metavar="HEX", help="the subscription's opaque name")
    dead.add_argument("--owner", required=True, metavar="NAME", help="whose it is")
    drain = _command(commands, "drain", "ask clients to leave, then stop the router", _drain)
    drain.add_argument("--deadline", type=int, default=0, metavar="S", help="0: as configured")


def _command(commands: Any, name: str, text: str, run: Callable[..., int]) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=text)
    command.add_argument("--router", required=True, metavar="HOST:PORT")
    command.add_argument("--identity", metavar="PREFIX", help="PREFIX.crt, PREFIX.key and ca.crt beside them")
    command.add_argument("--insecure", action="store_true", help="plaintext")
    command.set_defaults(run=lambda args: _asked(args, run))
    return command


def _asked(args: argparse.Namespace, run: Callable[..., int]) -> int:
    """Run a command with the admin's stub; what the router or the network says becomes one line."""
    import grpc

    from secroute.wire._generated import admin_pb2_grpc

    with _channel(args) as channel:
        admin = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
        try:
            return run(args, admin)
        except grpc.RpcError as error:
            raise SecrouteError(f"{args.router}: {error.code().name.lower()}: {error.details()}") from None


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


def _name(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not the hexadecimal name of a durable subscription") from None


def _as_dict(*messages: Any) -> dict[str, Any]:
    """Protobuf as JSON, with ids in hexadecimal (as logs and ``top`` show them) instead of base64."""
    result: dict[str, Any] = {}
    for message in messages:
        for field in message.DESCRIPTOR.fields:
            value = getattr(message, field.name)
            if field.message_type is None:
                result[field.name] = _plain(value)
            elif hasattr(value, "DESCRIPTOR"):
                result[field.name] = _as_dict(value)
            else:
                result[field.name] = [_as_dict(each) for each in value]
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool) else list(value)


def _look(admin: Any) -> tuple[Any, Any, Any]:
    from secroute.wire._generated import admin_pb2, gateway_pb2

    return (
        admin.Status(admin_pb2.StatusRequest(), timeout=_TIMEOUT_S),
        admin.ListSessions(admin_pb2.ListSessionsRequest(), timeout=_TIMEOUT_S),
        admin.ListDurable(gateway_pb2.ListDurableRequest(), timeout=_TIMEOUT_S),
    )


def _status(args: argparse.Namespace, admin: Any) -> int:
    status, sessions, durable = map(_as_dict, _look(admin))
    emit_json({**status, "session_list": sessions["sessions"], "durable_list": durable["durable"]})
    return 0


def _epochs(args: argparse.Namespace, admin: Any) -> int:
    from secroute.wire._generated import admin_pb2

    epochs = admin.ListEpochs(admin_pb2.ListEpochsRequest(), timeout=_TIMEOUT_S)
    tables = admin.ListTables(admin_pb2.ListTablesRequest(), timeout=_TIMEOUT_S)
    emit_json(_as_dict(epochs, tables))
    return 0


def _durable(args: argparse.Namespace, admin: Any) -> int:
    from secroute.wire._generated import gateway_pb2

    if args.delete is None:
        emit_json(_as_dict(admin.ListDurable(gateway_pb2.ListDurableRequest(), timeout=_TIMEOUT_S)))
        return 0
    if args.owner is None:
        raise ConfigError("--owner NAME is needed: two owners may have the same name")
    request = gateway_pb2.DeleteDurableRequest(name=_name(args.delete), owner=args.owner)
    emit_json(_as_dict(admin.DeleteDurable(request, timeout=_TIMEOUT_S)))
    return 0


def _dead(args: argparse.Namespace, admin: Any) -> int:
    from secroute.wire._generated import admin_pb2

    request = admin_pb2.SettleDeadRequest(name=_name(args.name), owner=args.owner, drop=args.what == "drop")
    emit_json(_as_dict(admin.SettleDead(request, timeout=_TIMEOUT_S)))
    return 0


def _drain(args: argparse.Namespace, admin: Any) -> int:
    from secroute.wire._generated import admin_pb2

    admin.Drain(admin_pb2.DrainRequest(deadline_s=args.deadline), timeout=_TIMEOUT_S)
    emit_json({"draining": True})
    return 0


def _top(args: argparse.Namespace, admin: Any) -> int:
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stdout)
    before: Any = None
    with Live(console=console, auto_refresh=False, transient=False) as live:
        shown = 0
        while True:
            status, sessions, durable = _look(admin)
            live.update(_table(args.router, status, sessions, durable, before), refresh=True)
            before = status
            shown += 1
            if args.count and shown >= args.count:
                return 0
            time.sleep(args.interval)


def _table(router: str, status: Any, sessions: Any, durable: Any, before: Any) -> Any:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    state = "  draining" if status.draining else ""
    head = Table(title=f"{router}  router {status.router_id.hex()[:8]}  up {status.uptime_s:.0f} s{state}")
    for name in ("figure", "total", "per second"):
        head.add_column(name, justify="left" if name == "figure" else "right")
    elapsed = max(status.uptime_s - before.uptime_s, 1e-3) if before is not None else 1.0
    for name in _FIGURES:
        total = getattr(status.counters, name)
        rate = (total - getattr(before.counters, name)) / elapsed if before is not None else 0.0
        head.add_row(name.replace("_", " "), f"{total:,}", f"{rate:,.0f}")
    head.add_row("sessions", f"{status.sessions} (+{status.sessions_resumable} resumable)", "")
    head.add_row("filters", f"{status.filters:,}", "")
    head.add_row("queued", f"{status.queued_messages:,} ({status.queued_bytes / 2**20:.1f} MiB)", "")
    head.add_row("match p50 / p99", f"{status.match_p50_ms:.2f} / {status.match_p99_ms:.2f} ms", "")
    rows = Table("session", "owner", "filters", "queued", "in", "out", title="busiest sessions")
    for session in sorted(sessions.sessions, key=lambda s: -(s.messages_in + s.messages_out))[:15]:
        mark = "" if session.connected else " (away)"
        counts = (session.filters, session.queued_messages, session.messages_in, session.messages_out)
        rows.add_row(session.session_id.hex()[:8] + mark, escape(session.owner), *(f"{count:,}" for count in counts))
    queues = Table(
        "durable", "owner", "queued", "in flight", "dead", "gaps", "consumers", title="longest durable queues"
    )
    for item in sorted(durable.durable, key=lambda d: -d.queued)[:10]:
        figures = (item.queued, item.in_flight, item.dead, item.gaps, item.consumers)
        queues.add_row(item.name.hex()[:8], escape(item.owner), *(f"{figure:,}" for figure in figures))
    return Group(head, rows, queues)
