"""``secroute subscribe``: print what matches, as it comes. TRUSTED side."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import signal
import sys

from secroute.cli.connection import add_arguments, client_of
from secroute.client import Gap, ReceivedMessage
from secroute.output import say


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_arguments(parser)
    parser.add_argument("predicate", help="what is wanted, for example: dest = 'ATL' AND price < 500")
    parser.add_argument("--durable", metavar="NAME", help="keep messages under this name while nobody is attached")
    parser.add_argument("--shared", action="store_true", help="several consumers share the durable subscription")
    parser.add_argument("--match-all", action="store_true", help="allow a predicate that leaves no bits")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="end after so many messages")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(_subscribe(args))


async def _subscribe(args: argparse.Namespace) -> int:
    async with client_of(args) as client:
        subscription = client.subscribe(
            args.predicate, durable=args.durable, shared=args.shared, match_all=args.match_all, on_gap=_say_gap
        )
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            async with subscription as messages:
                say("subscribed")
                left = args.count or -1
                async for message in messages:
                    print(_line(message, args.json), flush=True)
                    await message.ack()
                    left -= 1
                    if left == 0:
                        break
        stats = client.stats
        say(f"{stats.delivered} messages, {stats.false_positives} false positives paid, {stats.duplicates} repeats")
    return 0


def _line(message: ReceivedMessage, as_json: bool) -> str:
    if as_json:
        record: dict[str, object] = {"attributes": message.attributes, "redelivered": message.redelivered}
        if message.payload:
            record["payload"] = base64.b64encode(message.payload).decode()
        return json.dumps(record, ensure_ascii=False)
    text = " ".join(f"{name}={value!r}" for name, value in message.attributes.items())
    return text + (f"  [{len(message.payload)} bytes]" if message.payload else "")


def _say_gap(gap: Gap) -> None:
    sys.stderr.write(f"gap: messages were not kept ({gap.reason}, {gap.messages or 'unknown'})\n")
