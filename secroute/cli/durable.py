"""``secroute durable``: list and delete one's own durable subscriptions. TRUSTED side."""

from __future__ import annotations

import argparse
import asyncio

from secroute.cli.connection import add_arguments, client_of
from secroute.output import emit_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the commands."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="what waits in them, as JSON; names are opaque")
    add_arguments(listing)
    listing.set_defaults(run=lambda args: asyncio.run(_list(args)))
    delete = commands.add_parser("delete", help="delete one with everything that waits in it")
    add_arguments(delete)
    delete.add_argument("durable", metavar="NAME", help="as given to subscribe --durable")
    delete.set_defaults(run=lambda args: asyncio.run(_delete(args)))


async def _list(args: argparse.Namespace) -> int:
    async with client_of(args) as client:
        found = await client.durables()
    fields = ("shared", "epochs", "queued", "in_flight", "dead", "gaps", "consumers")
    emit_json({"durable": [{"name": d.name.hex(), **{name: getattr(d, name) for name in fields}} for d in found]})
    return 0


async def _delete(args: argparse.Namespace) -> int:
    async with client_of(args) as client:
        dropped = await client.delete_durable(args.durable)
    emit_json({"deleted": args.durable, "messages_dropped": dropped})
    return 0
