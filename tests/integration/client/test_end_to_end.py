"""The SDK, its commands and examples against a real router process over real sockets."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from secroute.bench.router_lab import Lab, RouterProcess
from secroute.client import Options, connect, connect_blocking
from secroute.encoding.profile import Profile
from secroute.errors import ConnectionLostError, RefusedError
from secroute.keyring import OwnerKeyring

QUICK = Options(backoff_first_s=0.02, backoff_max_s=0.1, keyring_poll_s=0.1, attempt_timeout_s=1.0)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as made:
        yield made


@pytest.fixture(scope="module")
def router(lab: Lab) -> RouterProcess:
    return lab.router(sessions={"resume_grace_s": 10}, durable={"ack_timeout_s": 1.0})


def owner(**more: int) -> OwnerKeyring:
    return OwnerKeyring.new("flights", Profile(bits=512), now=time.time() - 10, **more)


def test_durable_subscription_keeps_messages_while_nobody_is_attached(lab: Lab, router: RouterProcess) -> None:
    async def work() -> None:
        keyring, desk = owner(), lab.identity("desk")
        async with connect(router.target, keyring=keyring, identity=desk, options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7"):
                pass
            assert await client.publish_many({"a": n % 2, "n": n} for n in range(400)) == 400
        async with connect(router.target, keyring=keyring, identity=desk, options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                got = []
                for _ in range(200):
                    message = await messages.next(10)
                    assert message is not None
                    got.append(message.attributes["n"])
                    await message.ack()
                assert got == list(range(1, 400, 2))
                assert await messages.next(0.1) is None
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                assert await messages.next(0.2) is None
                await messages.close(delete=True)

    asyncio.run(work())


def test_retry_comes_again_marked(lab: Lab, router: RouterProcess) -> None:
    async def work() -> None:
        async with connect(router.target, keyring=owner(), identity=lab.identity("desk"), options=QUICK) as client:
            async with client.subscribe("a = 1", durable="retry") as messages:
                await client.publish({"a": 1})
                first = await messages.next(10)
                assert first is not None
                assert not first.redelivered
                await first.retry()
                again = await messages.next(10)
                assert again is not None
                assert again.redelivered
                await again.ack(confirmed=True)
                await messages.close(delete=True)

    asyncio.run(work())


def test_survives_kill_of_the_router(lab: Lab) -> None:
    router = lab.router("killed")

    async def work() -> None:
        keyring = owner()
        async with connect(router.target, keyring=keyring, identity=lab.identity("desk"), options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                await client.publish({"a": 1, "n": 0})
                router.kill()
                pending = asyncio.create_task(client.publish_many({"a": 1, "n": n} for n in range(1, 50)))
                await asyncio.sleep(0.2)
                assert not pending.done()
                await asyncio.to_thread(router.start)
                await pending
                got = [(await messages.next(15)) for _ in range(50)]
                assert [message and message.attributes["n"] for message in got] == list(range(50))
                for message in got:
                    assert message is not None
                    await message.ack()
                await messages.flush()
                assert client.stats.connects == 2

    asyncio.run(work())


def test_rotation_with_a_durable_subscriber_offline(lab: Lab, router: RouterProcess) -> None:
    async def work() -> None:
        keyring = owner(overlap_s=1)
        desk = lab.identity("desk")
        async with connect(router.target, keyring=keyring, identity=desk, options=QUICK) as client:
            async with client.subscribe("a = 1", durable="away"):
                await client.publish({"a": 1, "n": 1})
            now = time.time()
            keyring.rotate(now=now, activates_s=int(now) + 1, overlap_s=1)
            await asyncio.sleep(int(now) + 1.05 - time.time())
            await client.publish({"a": 1, "n": 2})
            await client.publish({"a": 2, "n": 3})
            async with client.subscribe("a = 1", durable="away") as messages:
                got = [await messages.next(10), await messages.next(10)]
                assert [m and (m.attributes["n"], m.epoch) for m in got] == [(1, 1), (2, 2)]
                assert await messages.next(0.3) is None
                assert client.stats.spooled_unwanted + client.stats.false_positives == 1
                await messages.close(delete=True)

    asyncio.run(work())


def test_unconfirmed_ack_is_said_to_be_so(lab: Lab) -> None:
    router = lab.router("gone")

    async def work() -> None:
        async with connect(router.target, keyring=owner(), identity=lab.identity("desk"), options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                await client.publish({"a": 1})
                message = await messages.next(10)
                assert message is not None
                router.kill()
                with pytest.raises(ConnectionLostError):
                    await message.ack(confirmed=True)

    asyncio.run(work())


def test_blocking_client(lab: Lab, router: RouterProcess) -> None:
    with connect_blocking(router.target, keyring=owner(), identity=lab.identity("desk")) as client:
        with client.subscribe("a = 1") as messages:
            client.publish({"a": 1}, b"hello")
            client.publish({"a": 2})
            message = messages.next(10)
            assert message is not None
            assert (message.attributes, message.payload) == ({"a": 1}, b"hello")
            assert messages.next(0.05) is None
        assert client.stats.published == 2
        with client.subscribe("a = 3", durable="blocking"):
            pass
        client.publish({"a": 3}, ttl_s=60)
        assert [(state.queued, state.consumers) for state in client.durables() if state.queued] == [(1, 0)]
        assert client.delete_durable("blocking") == 1
        with pytest.raises(RefusedError, match="no durable"):
            client.delete_durable("blocking")


def test_a_draining_router_hands_its_clients_over(lab: Lab) -> None:
    """Publishing goes on at the next address; no call fails, and nothing is published twice."""
    old, new = lab.router("old"), lab.router("new")

    async def work() -> None:
        keyring, targets = owner(), f"{old.target},{new.target}"
        watch = connect(new.target, keyring=keyring, identity=lab.identity("watch"), options=QUICK)
        feed = connect(targets, keyring=keyring, identity=lab.identity("feed"), options=QUICK)
        async with watch as watching, feed as client, watching.subscribe("a = 1") as messages:
            assert client.connected_to == old.target
            for number in range(40):
                await client.publish({"a": 1, "n": number})
                if number == 20:
                    stopped = asyncio.create_task(asyncio.to_thread(old.stop))
                await asyncio.sleep(0.02)
            assert await stopped == 0
            assert client.connected_to == new.target
            got = []
            while (message := await messages.next(1.0)) is not None:
                got.append(message.attributes["n"])
        assert got == list(range(got[0], 40))
        assert got[0] > 20
        assert client.stats.publish_failed == 0

    asyncio.run(work())


def test_commands(lab: Lab, router: RouterProcess, tmp_path: Path) -> None:
    lab.save_identity("desk", tmp_path)
    owner().create(tmp_path / "flights.keys")
    shared = ["--router", router.target, "--keyring", str(tmp_path / "flights.keys"), "--tls", str(tmp_path)]
    shared += ["--name", "desk"]
    command = [sys.executable, "-m", "secroute.cli.main"]
    reading = subprocess.Popen(
        [*command, "subscribe", *shared, "--json", "--count", "2", "dest = 'ATL' AND price < 500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reading.stderr is not None
    assert reading.stderr.readline() == "subscribed\n"
    one = subprocess.run(
        [*command, "publish", *shared, "dest=ATL", "price=248"], capture_output=True, text=True, check=True
    )
    assert json.loads(one.stdout) == {"published": 1}
    lines = (
        '{"attributes": {"dest": "ATL", "price": 900}}\n'
        '{"dest": "ATL", "price": 9007199254740993}\n'
        '{"dest": "ATL", "price": 1.5}\n'
    )
    many = subprocess.run(
        [*command, "publish", *shared, "--best-effort"], input=lines, capture_output=True, text=True, check=True
    )
    assert json.loads(many.stdout) == {"published": 3}
    out, err = reading.communicate(timeout=30)
    assert reading.returncode == 0, err
    assert [json.loads(line)["attributes"]["price"] for line in out.splitlines()] == [248, 1.5]


def test_demo() -> None:
    started = time.monotonic()
    command = [sys.executable, "-m", "secroute.cli.main", "demo", "--messages", "1000", "--seconds", "1"]
    nowhere = {"PATH": str(Path(sys.executable).parent), "HOME": str(Path.home())}  # no Java to be found
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=nowhere)
    assert done.returncode == 0, done.stderr
    assert "  0 false negatives" in done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["ok"]
    assert result["missing"] == result["unwanted"] == result["repeated"] == result["found_in_clear"] == 0
    assert time.monotonic() - started < 30
