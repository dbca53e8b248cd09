"""Five real routers in a ring: messages flow while one is killed (kill -9) and comes back; nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from secroute.bench.net_lab import Network
from secroute.client import Client, Options, connect
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring
from tests.cases import cases
from tests.integration.net.conftest import MakeNetwork

OPTIONS = Options(backoff_first_s=0.02, backoff_max_s=0.2, attempt_timeout_s=1.0, request_timeout_s=60.0)
SUBSCRIPTIONS = 10_000
REROUTED_WITHIN_S = 5.0


class Desk:
    """Everything that came to the clients of one router."""

    def __init__(self) -> None:
        self.ordinary: list[int] = []
        self.durable: list[int] = []
        self.late: list[tuple[float, float]] = []
        """(published at, seconds on the way) of every ordinary message."""


async def read(messages: object, into: list[int], late: list[tuple[float, float]] | None = None) -> None:
    async for message in messages:  # type: ignore[attr-defined]
        into.append(int(message.attributes["n"]))
        if late is not None:
            at = float(message.attributes["at"])
            late.append((at, time.monotonic() - at))
        await message.ack()


class Traffic:
    """A client on every router, with subscriptions, and a publisher at the first router."""

    def __init__(self, net: Network, subscriptions: int, bystanders: int = 0) -> None:
        """``bystanders`` are more subscriptions, for messages that nobody sends."""
        self.net = net
        self.subscriptions = subscriptions
        self.bystanders = bystanders
        self.keyring = OwnerKeyring.new("ring", Profile(bits=512, hashes=4), now=time.time() - 10)
        self.desks = {name: Desk() for name in net.names}
        self.published: list[tuple[int, int]] = []
        """(number, key)."""

    @property
    def filters(self) -> int:
        return self.subscriptions + self.bystanders + len(self.desks)

    def home(self, key: int) -> str:
        return self.net.names[key % len(self.net.names)]

    async def _client(self, stack: contextlib.AsyncExitStack, name: str) -> Client:
        made = connect(self.net.target(name), keyring=self.keyring, identity=self.net.identity(), options=OPTIONS)
        return await stack.enter_async_context(made)

    async def subscribe(self, stack: contextlib.AsyncExitStack) -> None:
        readers: list[asyncio.Task[None]] = []
        for index, name in enumerate(self.net.names):
            client, desk = await self._client(stack, name), self.desks[name]
            keys = [key for key in range(self.subscriptions) if self.home(key) == name]
            made = await asyncio.gather(*(stack.enter_async_context(client.subscribe(f"key = {key}")) for key in keys))
            readers += [asyncio.create_task(read(each, desk.ordinary, desk.late)) for each in made]
            durable = await stack.enter_async_context(client.subscribe(f"group = {index}", durable=f"d{index}"))
            readers.append(asyncio.create_task(read(durable, desk.durable)))
            quiet = await self._client(stack, name)
            others = range(index, self.bystanders, len(self.net.names))
            await asyncio.gather(*(stack.enter_async_context(quiet.subscribe(f"key = {-1 - key}")) for key in others))
        for reader in readers:
            stack.callback(reader.cancel)

    async def publish(self, client: Client, until: float) -> None:
        number = len(self.published)
        while time.monotonic() < until:
            keys = [(number + i) * 7919 % self.subscriptions for i in range(20)]
            now = time.monotonic()
            await client.publish_many(
                {"n": number + i, "key": key, "group": (number + i) % 5, "at": now} for i, key in enumerate(keys)
            )
            self.published += [(number + i, key) for i, key in enumerate(keys)]
            number += len(keys)
            await asyncio.sleep(0.02)

    def missing(self, *, ordinary_except: str) -> int:
        lost = 0
        for index, (name, desk) in enumerate(self.desks.items()):
            lost += len({n for n, _ in self.published if n % 5 == index} - set(desk.durable))
            if name != ordinary_except:
                lost += len({n for n, key in self.published if self.home(key) == name} - set(desk.ordinary))
        return lost

    async def settle(self, *, ordinary_except: str) -> int:
        end = time.monotonic() + 20
        while self.missing(ordinary_except=ordinary_except) and time.monotonic() < end:
            await asyncio.sleep(0.1)
        return self.missing(ordinary_except=ordinary_except)


async def kill_and_return(traffic: Traffic, victim: str, away_s: float) -> float:
    """Publish throughout; the longest way of a message published while the victim was away or just back."""
    async with contextlib.AsyncExitStack() as stack:
        await traffic.subscribe(stack)
        publisher = await traffic._client(stack, traffic.net.names[0])
        await asyncio.to_thread(traffic.net.wait_whole, 90.0, filters=traffic.filters)
        began = time.monotonic()
        publishing = asyncio.create_task(traffic.publish(publisher, began + away_s + 2.5))
        await asyncio.sleep(1.0)
        await asyncio.to_thread(traffic.net.kill, victim)
        killed = time.monotonic()
        await asyncio.sleep(away_s)
        await asyncio.to_thread(traffic.net.start, victim)
        await publishing
        assert await traffic.settle(ordinary_except=victim) == 0
        for name, desk in traffic.desks.items():
            assert len(desk.ordinary) == len(set(desk.ordinary)), f"an application at {name} got a message twice"
            assert len(desk.durable) == len(set(desk.durable)), f"a durable subscription at {name} got a message twice"
        others = [late for name, desk in traffic.desks.items() if name != victim for late in desk.late]
        return max(seconds for at, seconds in others if at >= killed - 1.0)


@pytest.mark.parametrize("victim", ["r1", "r4"][: cases(1, 2)])
def test_a_router_is_killed_and_comes_back_while_messages_flow(make_network: MakeNetwork, victim: str) -> None:
    net = make_network("ring:5")
    traffic = Traffic(net, 500, SUBSCRIPTIONS - 500 if victim == "r1" else 0)
    slowest = asyncio.run(kill_and_return(traffic, victim, away_s=2.0))
    assert len(traffic.published) > 100
    assert slowest < REROUTED_WITHIN_S
    print(f"{len(traffic.published)} published, the slowest took {slowest:.2f} s")


@pytest.mark.parametrize("scheme", ["psf", "ips", "drp"])
def test_the_other_schemes_live(make_network: MakeNetwork, scheme: str) -> None:
    traffic = Traffic(make_network("ring:5", scheme), cases(100, 2000))
    assert asyncio.run(kill_and_return(traffic, "r1", away_s=0.5)) < REROUTED_WITHIN_S
