"""The demo's second act: the same desks, three hops away from the publisher, over routers in a line. TRUSTED side."""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from secroute.bench.net_lab import Network, plan
from secroute.cli.demo import DESKS, SCHEMA, flight
from secroute.client import Options, Subscription, connect
from secroute.content import Value, matches, parse
from secroute.encoding.profile import Profile
from secroute.encoding.schema import Schema
from secroute.keyring import OwnerKeyring
from secroute.output import say

TOPOLOGY = "line:4"
_SETTLE_S = 10.0


def three_hops(messages: int, seed: int) -> dict[str, Any]:
    """Publish at one end of the line, subscribe at the other, compare with the oracle; says how it ended."""
    with tempfile.TemporaryDirectory(prefix="secroute-net-") as folder:
        names, links = plan(TOPOLOGY)
        net = Network.create(Path(folder) / "net", names, links, topology=TOPOLOGY)
        try:
            net.start()
            net.wait_whole()
            missing, delivered = asyncio.run(_across(net, messages, seed))
        finally:
            net.stop()
    say(f"{messages} published at {names[0]}, {delivered} delivered at {names[-1]}")
    say(f"{missing} false negatives across three hops")
    return {"hops": len(names) - 1, "published": messages, "delivered": delivered, "false_negatives": missing}


async def _across(net: Network, messages: int, seed: int) -> tuple[int, int]:
    chance = random.Random(seed)  # noqa: S311 - made-up flights
    flights = [flight(number, chance) for number in range(messages)]
    profile = Profile.for_schema(Schema.from_dict(SCHEMA), attributes=7)
    keyring = OwnerKeyring.new("flights", profile, now=time.time())
    options = Options(linger_s=0.005)
    got: dict[str, set[int]] = {name: set() for name in DESKS}
    async with contextlib.AsyncExitStack() as stack:
        ends = [
            await stack.enter_async_context(
                connect(net.target(name), keyring=keyring, identity=net.identity(), options=options)
            )
            for name in (net.names[0], net.names[-1])
        ]
        first, last = ends
        readers = []
        for name, (predicate, durable) in DESKS.items():
            handle = last.subscribe(predicate, durable=name if durable else None)
            readers.append(asyncio.create_task(_read(await stack.enter_async_context(handle), got[name])))
        await asyncio.to_thread(_wait_for_filters, net)
        await first.publish_many(flights)
        expected = {name: _wanted(predicate, flights) for name, (predicate, _) in DESKS.items()}
        end = time.monotonic() + _SETTLE_S
        while time.monotonic() < end and any(expected[name] - got[name] for name in DESKS):
            await asyncio.sleep(0.02)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    missing = sum(len(expected[name] - got[name]) for name in DESKS)
    return missing, sum(map(len, got.values()))


async def _read(messages: Subscription, into: set[int]) -> None:
    async for message in messages:
        into.add(int(message.attributes["number"]))
        await message.ack()


def _wait_for_filters(net: Network) -> None:
    """Until the far end's filters have come to this end."""
    end = time.monotonic() + _SETTLE_S
    while time.monotonic() < end:
        far, near = net.ask(net.names[-1]), net.ask(net.names[0])
        if far and near and sum(each.filters for each in near[0].routers) >= far[1].filters > 0:
            return
        time.sleep(0.05)


def _wanted(predicate: str, flights: list[dict[str, Value]]) -> set[int]:
    node = parse(predicate)
    return {int(each["number"]) for each in flights if matches(node, each)}
