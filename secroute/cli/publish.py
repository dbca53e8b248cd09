"""``secroute publish``: one message from arguments, or many from JSONL on stdin. TRUSTED side."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator

from secroute import limits
from secroute.cli.connection import add_arguments, client_of
from secroute.content import Message, Value
from secroute.errors import FileFormatError, InputError, SecrouteError
from secroute.output import emit_json


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    add_arguments(parser)
    parser.add_argument("attributes", nargs="*", metavar="NAME=VALUE", help="one message; none: JSONL from stdin")
    parser.add_argument("--payload", default="", help="text that goes along, sealed")
    parser.add_argument("--best-effort", action="store_true", help="do not wait for the disk")
    parser.add_argument("--ttl", type=float, default=0.0, metavar="SECONDS", help="drop it after this time")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return asyncio.run(_publish(args))


async def _publish(args: argparse.Namespace) -> int:
    async with client_of(args) as client:
        if args.attributes:
            message = Message(dict(parse_pair(pair) for pair in args.attributes))
            await client.publish(message, args.payload.encode(), best_effort=args.best_effort, ttl_s=args.ttl)
            count = 1
        else:
            count = await client.publish_many(_stdin(), best_effort=args.best_effort, ttl_s=args.ttl)
    emit_json({"published": count})
    return 0


def parse_pair(pair: str) -> tuple[str, Value]:
    """``NAME=VALUE``; a value that reads as a JSON number or boolean is one, quotes make it text."""
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise InputError(f"{pair!r} is not NAME=VALUE")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not isinstance(value, str | int | float | bool):
        value = text
    return name, value


async def _stdin() -> AsyncIterator[Message]:
    number = 0
    while line := await asyncio.to_thread(sys.stdin.buffer.readline, limits.RECORD_BYTES_MAX + 1):
        number += 1
        if not line.strip():
            continue
        yield parse_line(line, number)


def parse_line(line: bytes, number: int) -> Message:
    """One line of a neutral file: ``{"attributes": {...}}``, or the attributes alone."""
    if len(line) > limits.RECORD_BYTES_MAX:
        raise FileFormatError("stdin", f"longer than {limits.RECORD_BYTES_MAX} bytes", number)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise FileFormatError("stdin", "not JSON", number) from None
    if isinstance(record, dict) and isinstance(record.get("attributes"), dict):
        record = record["attributes"]
    try:
        return Message(record)
    except SecrouteError as error:
        raise FileFormatError("stdin", str(error), number) from None
