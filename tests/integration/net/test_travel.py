"""Messages travel only where somebody wants them, best effort too; a durable subscription misses nothing far away."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from secroute.bench.net_lab import Network, plan
from secroute.client import Options, connect
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring

QUICK = Options(backoff_first_s=0.02, backoff_max_s=0.1, keyring_poll_s=0.1, attempt_timeout_s=1.0)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder: Path = tmp_path_factory.mktemp("line") / "net"
    net = Network.create(folder, *plan("line:3"), topology="line:3")
    try:
        net.start()
        net.wait_whole()
        yield net
    finally:
        for name in net.names:
            net.kill(name, signal.SIGKILL)


def owner(**more: int) -> OwnerKeyring:
    return OwnerKeyring.new("line", Profile(bits=512), now=time.time() - 10, **more)


def client(net: Network, name: str, keyring: OwnerKeyring) -> Any:
    return connect(net.target(name), keyring=keyring, identity=net.identity(), options=QUICK)


def sent(net: Network, name: str, to: str) -> int:
    answer = net.ask(name)
    assert answer is not None
    return next(int(link.messages_out) for link in answer[0].links if link.name == to)


async def known_at(net: Network, name: str, filters: int) -> None:
    """Wait until a router knows of so many filters elsewhere."""
    for _ in range(400):
        answer = await asyncio.to_thread(net.ask, name)
        if answer is not None and sum(each.filters for each in answer[0].routers) == filters:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{name} does not know of {filters} filters")


def test_messages_go_only_where_they_are_wanted_and_stop_when_they_are_not(line: Network) -> None:
    async def work() -> None:
        keyring = owner()
        async with client(line, "r0", keyring) as publisher, client(line, "r1", keyring) as receiver:
            async with receiver.subscribe("a = 1") as messages:
                await known_at(line, "r0", 1)
                first, second = sent(line, "r0", "r1"), sent(line, "r1", "r2")
                for best_effort in (True, False):
                    await publisher.publish_many(({"a": n % 2} for n in range(100)), best_effort=best_effort)
                    assert all([await messages.next(10) for _ in range(50)])
                # Bloom filters may let a few more pass, never fewer.
                assert 100 <= sent(line, "r0", "r1") - first < 150
                assert sent(line, "r1", "r2") == second
            await known_at(line, "r0", 0)
            before = sent(line, "r0", "r1")
            await publisher.publish_many({"a": 1} for _ in range(50))
            assert sent(line, "r0", "r1") == before

    asyncio.run(work())


def test_a_durable_subscription_far_away_survives_a_rotation_that_it_missed(line: Network) -> None:
    async def work() -> None:
        keyring = owner(overlap_s=1)
        async with client(line, "r2", keyring) as receiver, receiver.subscribe("a = 1", durable="away"):
            await known_at(line, "r0", 1)
        async with client(line, "r0", keyring) as publisher:
            await publisher.publish({"a": 1, "n": 1})
            now = time.time()
            keyring.rotate(now=now, activates_s=int(now) + 1, overlap_s=1)
            await asyncio.sleep(int(now) + 1.05 - time.time())
            await publisher.publish({"a": 1, "n": 2})
            await publisher.publish({"a": 2, "n": 3})
        async with client(line, "r2", keyring) as receiver, receiver.subscribe("a = 1", durable="away") as messages:
            got = [await messages.next(10), await messages.next(10)]
            assert [m and (m.attributes["n"], m.epoch) for m in got] == [(1, 1), (2, 2)]
            await messages.close(delete=True)
        await known_at(line, "r0", 0)

    asyncio.run(work())


def test_messages_wait_for_the_durable_subscription_of_a_router_that_is_stopped(line: Network) -> None:
    async def work() -> None:
        keyring = owner()
        async with client(line, "r2", keyring) as receiver, receiver.subscribe("a = 1", durable="stopped"):
            await known_at(line, "r0", 1)
        await asyncio.to_thread(line.kill, "r2", signal.SIGTERM)
        async with client(line, "r0", keyring) as publisher:
            await publisher.publish_many({"a": 1, "n": n} for n in range(40))
        await asyncio.to_thread(line.kill, "r0", signal.SIGKILL)  # what it keeps for r2 is on its disk
        await asyncio.to_thread(line.start, "r0", "r2")
        async with client(line, "r2", keyring) as receiver, receiver.subscribe("a = 1", durable="stopped") as messages:
            got = [await messages.next(15) for _ in range(40)]
            assert sorted(m.attributes["n"] for m in got if m) == list(range(40))
            for message in got:
                assert message is not None
                await message.ack(confirmed=message is got[-1])
            await messages.close(delete=True)
        await known_at(line, "r0", 0)

    asyncio.run(work())
