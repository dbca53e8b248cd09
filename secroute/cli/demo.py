"""``secroute demo``: a flight exchange over a router that knows nothing, on loopback, with throw-away keys.

TRUSTED side. Starts a router as its own process (mutual TLS), publishers and subscribers; checks against the oracle
that every interested subscriber got every message and nobody got another; says what each side saw.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from secroute.bench.router_lab import Lab, RouterProcess
from secroute.client import Client, ClientStats, Options, connect
from secroute.content import Value, matches, parse
from secroute.encoding.profile import Profile
from secroute.encoding.schema import Schema
from secroute.keyring import OwnerKeyring
from secroute.output import emit_json

SCHEMA = {
    "price": {"type": "number", "low": 0, "high": 2048, "levels": 8},
    "delay": {"type": "number", "low": 0, "high": 256, "levels": 6},
    "dest": {"type": "string", "prefixes": [1, 2]},
}
DESKS: dict[str, tuple[str, bool]] = {  # who: (what, durable)
    "atlanta": ("dest = 'ATL' AND price < 500", True),
    "bargains": ("price < 120", False),
    "new-york": ("dest IN ('JFK', 'LGA', 'EWR') AND carrier != 'XX'", False),
    "s-airports": ("dest LIKE 'S%' OR origin = 'SFO'", False),
    "late-desk": ("delay >= 60 AND NOT cancelled = TRUE", True),
}
AIRPORTS = ("ATL", "JFK", "LGA", "EWR", "SFO", "SEA", "SLC", "ORD", "DEN", "BOS")
_SETTLE_S = 10.0


@dataclass
class Desk:
    """One subscriber and what came to it."""

    name: str
    predicate: str
    durable: bool
    stats: ClientStats
    got: list[int] = field(default_factory=list)
    example: dict[str, Value] | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command."""
    parser.add_argument("--messages", type=int, default=4000, help="how many are published in all")
    parser.add_argument("--seconds", type=float, default=5.0, help="spread over this time")
    parser.add_argument("--seed", type=int, default=7)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    started = time.monotonic()
    with Lab() as lab:
        result = asyncio.run(_demo(args, lab))
    from secroute.cli.demo_net import three_hops  # it needs the desks of this module

    result["network"] = three_hops(args.messages // 2, args.seed)
    result["ok"] = result["ok"] and result["network"]["false_negatives"] == 0
    result["seconds"] = round(time.monotonic() - started, 1)
    _conclude(result)
    emit_json(result)
    return 0 if result["ok"] else 1


def flight(number: int, chance: random.Random) -> dict[str, Value]:
    """One made-up offer."""
    return {
        "number": number,
        "carrier": chance.choice(("DL", "UA", "AA", "B6", "XX")),
        "origin": chance.choice(AIRPORTS),
        "dest": chance.choice(AIRPORTS),
        "price": chance.randrange(40, 1500),
        "delay": max(0, int(chance.gauss(10, 40))),
        "cancelled": chance.random() < 0.02,
    }


async def _demo(args: argparse.Namespace, lab: Lab) -> dict[str, Any]:
    router = lab.router()
    # Open ranges ("delay >= 60") as up to four intervals: one interval over them would be nearly the whole domain.
    profile = replace(Profile.for_schema(Schema.from_dict(SCHEMA), attributes=7), cover_disjuncts=4)
    keyring = OwnerKeyring.new("flights", profile, now=time.time())
    chance = random.Random(args.seed)  # noqa: S311 - made-up flights
    flights = [flight(number, chance) for number in range(args.messages)]
    options = Options(linger_s=0.005)
    async with contextlib.AsyncExitStack() as stack:

        async def client(name: str) -> Client:
            connection = connect(router.target, keyring=keyring, identity=lab.identity(name), options=options)
            return await stack.enter_async_context(connection)

        desks: list[Desk] = []
        readers: list[asyncio.Task[None]] = []
        for name, (predicate, durable) in DESKS.items():
            desk_client = await client(name)
            desk = Desk(name, predicate, durable, desk_client.stats)
            messages = await stack.enter_async_context(
                desk_client.subscribe(predicate, durable=name if durable else None)
            )
            desks.append(desk)
            readers.append(asyncio.create_task(_read(desk, messages)))
        publishers = [await client(f"publisher-{n}") for n in (1, 2)]
        expected = {desk.name: _expected(desk.predicate, flights) for desk in desks}
        with _table(desks, publishers, expected):
            await asyncio.gather(
                *(_publish(each, flights[n::2], args.seconds) for n, each in enumerate(publishers)),
            )
            await _settle(desks, expected)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        _explain(desks, publishers[0], flights)
        result = _verdict(desks, publishers, expected, profile)
        result |= _searched(router)
        result["ok"] = result["ok"] and not result["found_in_clear"]
        return result


async def _read(desk: Desk, messages: Any) -> None:
    async for message in messages:
        desk.got.append(int(message.attributes["number"]))
        desk.example = desk.example or dict(message.attributes)
        await message.ack()


async def _publish(client: Client, flights: list[dict[str, Value]], seconds: float) -> None:
    step = 50
    started = time.monotonic()
    for at in range(0, len(flights), step):
        await client.publish_many(flights[at : at + step])
        ahead = started + seconds * (at + step) / max(len(flights), 1) - time.monotonic()
        if ahead > 0:
            await asyncio.sleep(ahead)


def _expected(predicate: str, flights: list[dict[str, Value]]) -> set[int]:
    node = parse(predicate)
    return {int(each["number"]) for each in flights if matches(node, each)}


async def _settle(desks: list[Desk], expected: dict[str, set[int]]) -> None:
    end = time.monotonic() + _SETTLE_S
    while time.monotonic() < end and any(len(desk.got) < len(expected[desk.name]) for desk in desks):
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)  # whatever came too much would come now


def _rows(desks: list[Desk], publishers: list[Client], expected: dict[str, set[int]]) -> Table:
    published = sum(each.stats.published for each in publishers)
    table = Table(title=f"{published} published, sealed and encoded")
    for heading in ("desk", "wants", "got", "of", "false positives"):
        table.add_column(heading, justify="left" if heading in ("desk", "wants") else "right")
    for desk in desks:
        name = desk.name + (" (durable)" if desk.durable else "")
        wanted = len(expected[desk.name])
        table.add_row(name, desk.predicate, str(len(desk.got)), str(wanted), str(desk.stats.false_positives))
    return table


@contextlib.contextmanager
def _table(desks: list[Desk], publishers: list[Client], expected: dict[str, set[int]]) -> Any:
    """Live on a terminal, printed once elsewhere; always on stderr."""
    console = Console(stderr=True)
    if console.is_terminal:
        with Live(console=console, refresh_per_second=8, get_renderable=lambda: _rows(desks, publishers, expected)):
            yield
    else:
        yield
        console.print(_rows(desks, publishers, expected))


def _explain(desks: list[Desk], publisher: Client, flights: list[dict[str, Value]]) -> None:
    """One message from both sides."""
    desk = next((each for each in desks if each.example), None)
    if desk is None or desk.example is None:
        return
    batch = publisher.encode([desk.example])
    bits = batch.bits.tobytes().hex()
    sys.stderr.write(
        f"what {desk.name} gets:   {desk.example}\n"
        f"what a router sees: space {batch.scope.space.hex()}, epoch {batch.scope.epoch}, "
        f"bits {bits[:48]}... ({batch.bits.shape[1] * 64}), "
        f"id {batch.ids[0].tobytes().hex()}, payload {batch.payload(0).hex()[:48]}... ({len(batch.payload(0))} bytes)\n"
    )


def _searched(router: RouterProcess) -> dict[str, int]:
    """Look for names and predicates in everything the router wrote: its store, its log, its configuration."""
    written = b"".join(path.read_bytes() for path in router.directory.rglob("*") if path.is_file())
    names = [name for name in flight(0, random.Random(0)) if len(name) >= 5]  # noqa: S311 - shorter ones occur by chance
    words = [*names, *(predicate for predicate, _ in DESKS.values())]
    found = sum(word.encode() in written for word in words)
    return {"written_bytes": len(written), "looked_for": len(words), "found_in_clear": found}


def _verdict(
    desks: list[Desk], publishers: list[Client], expected: dict[str, set[int]], profile: Profile
) -> dict[str, Any]:
    missing = sum(len(expected[desk.name] - set(desk.got)) for desk in desks)
    unwanted = sum(len(set(desk.got) - expected[desk.name]) for desk in desks)
    repeated = sum(len(desk.got) - len(set(desk.got)) for desk in desks)
    published = sum(each.stats.published for each in publishers)
    false_positives = sum(desk.stats.false_positives for desk in desks)
    received = sum(desk.stats.received for desk in desks)
    return {
        "ok": missing == unwanted == repeated == 0 and published > 0,
        "routers": 1,
        "published": published,
        "delivered": sum(len(desk.got) for desk in desks),
        "missing": missing,
        "unwanted": unwanted,
        "repeated": repeated,
        "false_positives": false_positives,
        "false_positive_share": round(false_positives / max(received, 1), 4),
        "profile": f"{profile.bits} bits, {profile.hashes} hashes",
    }


def _conclude(result: dict[str, Any]) -> None:
    """What a person should remember of it."""
    network, price = result["network"], f"{100 * result['false_positive_share']:.1f}% of what came"
    wrong = f"{result['missing']} missing, {result['unwanted']} unwanted, {result['repeated']} twice"
    searched = f"{result['looked_for']} names and predicates looked for there, {result['found_in_clear']} found"
    lines = [
        "",
        f"{'it worked' if result['ok'] else 'IT FAILED'}, in {result['seconds']:.0f} s:",
        f"  subscribers  got {result['delivered']} messages: {wrong}",
        f"  the router   carried {result['published']} and wrote {result['written_bytes']:,} bytes; {searched}",
        f"  the price    {result['false_positives']} false positives ({price}), removed before an application saw them",
        f"  {network['hops']} hops       {network['published']} published, {network['delivered']} delivered",
        f"  {result['missing'] + network['false_negatives']} false negatives",
        "",
    ]
    sys.stderr.write("\n".join(lines))
