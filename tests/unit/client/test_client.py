"""The client against a gateway that a test controls: happy path, false positives, repeats, faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from secroute.client import Options, connect
from secroute.encoding.profile import Profile
from secroute.errors import (
    ClientError,
    ConnectError,
    EmptyFilterError,
    GapError,
    InputError,
    PublishTimeoutError,
    RefusedError,
)
from secroute.keyring import OwnerKeyring
from secroute.wire import frames
from tests.unit.client.scripted import ScriptedGateway

QUICK = Options(backoff_first_s=0.01, backoff_max_s=0.05, keyring_poll_s=0.05, publish_timeout_s=5.0)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(bounded())


def owner(**more: Any) -> OwnerKeyring:
    return OwnerKeyring.new("flights", Profile(bits=512), now=time.time() - 10, **more)


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        await asyncio.sleep(0.01)


def test_publish_and_subscribe() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("dest = 'ATL' AND price < 500") as messages:
                await client.publish({"dest": "ATL", "price": 248}, b"seat 4A")
                await client.publish({"dest": "ATL", "price": 900})
                await client.publish({"dest": "JFK", "price": 100})
                await client.publish({"dest": "ATL", "price": 2**53 + 1 - 2**53}, best_effort=True)
                first = await messages.next(5)
                second = await messages.next(5)
                assert first is not None
                assert second is not None
                assert first.attributes == {"dest": "ATL", "price": 248}
                assert first.payload == b"seat 4A"
                assert second.attributes["price"] == 1
                await until(lambda: client.stats.false_positives == 1)
                assert await messages.next(0.05) is None
            assert client.stats.published == 4
            assert client.stats.delivered == 2

    run(work())


def test_one_delivery_serves_several_ordinary_subscriptions() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1") as ones, client.subscribe("b = 2") as twos:
                await client.publish({"a": 1, "b": 2})
                await client.publish({"a": 1})
                assert (await ones.next(5)).attributes == {"a": 1, "b": 2}
                assert (await ones.next(5)).attributes == {"a": 1}
                assert (await twos.next(5)).attributes == {"a": 1, "b": 2}
                assert await twos.next(0.05) is None
                await until(lambda: sum(n for a in gateway.sessions[0].of(frames.Ack) for _, n in a.runs) == 2)

    run(work())


def test_many_messages_travel_in_few_batches_in_order() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("kind = 'tick'") as messages:
                assert await client.publish_many({"kind": "tick", "n": n} for n in range(1000)) == 1000
                assert [(await messages.next(5)).attributes["n"] for _ in range(1000)] == list(range(1000))
            assert len(gateway.sessions[0].of(frames.Publish)) <= 8

    run(work())


def test_repeats_are_suppressed_and_acked_again() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                await client.publish({"a": 1})
                message = await messages.next(5)
                assert message is not None
                await message.ack(confirmed=True)
                session = gateway.sessions[0]
                batch = session.of(frames.Publish)[0].batch
                before = len(session.of(frames.Ack))
                session.deliver(1, batch, redelivered=True)
                assert await messages.next(0.1) is None
                assert client.stats.duplicates == 1
                await until(lambda: len(session.of(frames.Ack)) > before)

    run(work())


def test_retry_shows_a_message_again_and_reject_does_not() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                await client.publish({"a": 1})
                message = await messages.next(5)
                assert message is not None
                await message.retry()
                session = gateway.sessions[0]
                await until(lambda: [a.verdict for a in session.of(frames.Ack)] == [frames.Verdict.RETRY])
                session.deliver(1, session.of(frames.Publish)[0].batch, redelivered=True)
                again = await messages.next(5)
                assert again is not None
                assert again.redelivered
                await again.reject()
                await until(lambda: session.of(frames.Ack)[-1].verdict is frames.Verdict.DEAD)

    run(work())


def test_altered_payload_never_reaches_the_application() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1") as messages:
                await client.publish({"a": 1})
                assert await messages.next(5) is not None
                batch = gateway.sessions[0].of(frames.Publish)[0].batch
                payloads = batch.payloads.copy()
                payloads[-1] ^= 1
                changed = type(batch)(batch.scope, batch.bits, batch.ids, payloads, batch.offsets)
                gateway.sessions[0].deliver(0, changed)
                assert await messages.next(0.1) is None
                assert client.stats.rejected == 1

    run(work())


def test_reconnects_subscribes_again_and_resends_identical_bytes() -> None:
    async def work() -> None:
        gaps = []
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1", on_gap=gaps.append) as messages:
                gateway.silent = True
                pending = asyncio.create_task(client.publish({"a": 1}))
                await until(lambda: gateway.sessions[0].of(frames.Publish))
                gateway.silent = False
                gateway.sessions[0].out.put_nowait(None)  # the stream ends without a goodbye
                await pending
                assert (await messages.next(5)).attributes == {"a": 1}
                first, second = (session.of(frames.Publish)[0].batch for session in gateway.sessions)
                assert first.payloads.tobytes() == second.payloads.tobytes()
                assert [gap.reason for gap in gaps] == ["reconnected"]
                assert client.stats.connects == 2

    run(work())


def test_refused_for_now_is_sent_again() -> None:
    async def work() -> None:
        full = frames.Problem("queue-full", "full", True)
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1") as messages:
                gateway.refuse = [full, full, full]
                await client.publish_many({"a": 1, "n": n} for n in range(600))
                assert {(await messages.next(5)).attributes["n"] for _ in range(600)} == set(range(600))
                assert client.stats.duplicates == 0

    run(work())


def test_refused_for_good_raises_with_the_routers_reason() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            gateway.refuse = [frames.Problem("profile-mismatch", "another profile")]
            with pytest.raises(RefusedError, match="profile-mismatch") as caught:
                await client.publish({"a": 1})
            assert caught.value.reason == "profile-mismatch"
            gateway.subscribe_problem = frames.Problem("quota", "too many filters", True)
            with pytest.raises(RefusedError, match="quota"):
                async with client.subscribe("a = 1"):
                    pass

    run(work())


def test_silence_is_given_up() -> None:
    async def work() -> None:
        options = Options(publish_timeout_s=0.3)
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=options) as client:
            gateway.silent = True
            with pytest.raises(PublishTimeoutError):
                await client.publish({"a": 1})

    run(work())


def test_half_open_connection_is_noticed() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            gateway.silent = True
            await until(lambda: client.connected_to is None)
            gateway.silent = False
            await until(lambda: client.connected_to is not None and len(gateway.sessions) > 1)
            await client.publish({"a": 1})

    run(work())


def test_gap_is_raised_once_and_acknowledged() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                gap = frames.Gap(1, 9, frames.GapReason.SPOOL_FULL, bytes(16), 1, 12, 5, 6)
                gateway.sessions[0].send(gap)
                gateway.sessions[0].send(gap)
                with pytest.raises(GapError, match="up to 12 messages") as caught:
                    await messages.next(5)
                assert caught.value.gap.reason == "spool-full"
                await until(lambda: gateway.sessions[0].of(frames.GapAck) == [frames.GapAck(1, 9)])
                await client.publish({"a": 1})
                assert await messages.next(5) is not None

    run(work())


def test_goes_to_another_router() -> None:
    async def work() -> None:
        async with ScriptedGateway() as one, ScriptedGateway() as two:
            async with connect([one.target, two.target], keyring=owner(), options=QUICK) as client:
                async with client.subscribe("a = 1") as messages:
                    one.sessions[0].send(frames.Drain(1))
                    await until(lambda: client.connected_to == two.target)
                    await client.publish({"a": 1})
                    assert await messages.next(5) is not None

    run(work())


def test_takes_up_a_new_epoch_without_a_restart() -> None:
    async def work() -> None:
        keyring = owner(overlap_s=5)
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=keyring, options=QUICK) as client:
            async with client.subscribe("a = 1", durable="desk-7") as messages:
                await client.publish({"a": 1})
                assert (await messages.next(5)).epoch == 1
                now = time.time()
                keyring.rotate(now=now, activates_s=int(now) + 1, overlap_s=5)
                await until(lambda: (1, 2) in gateway.sessions[0].filters)
                await asyncio.sleep(int(now) + 1.1 - time.time())
                await client.publish({"a": 1})
                assert (await messages.next(5)).epoch == 2
                subscribes = gateway.sessions[0].of(frames.Subscribe)
                assert subscribes[0].durable.name != b"desk-7"
                assert len({s.subscription for s in subscribes}) == 1

    run(work())


def test_wrong_use_is_told() -> None:
    async def work() -> None:
        async with ScriptedGateway() as gateway:
            gateway.welcome_problem = frames.Problem("forbidden", "no rights here")
            with pytest.raises(RefusedError, match="forbidden"):
                async with connect(gateway.target, keyring=owner(), options=QUICK):
                    pass
        with pytest.raises(ConnectError, match="no router answered"):
            async with connect("127.0.0.1:1", keyring=owner(), options=Options(connect_timeout_s=0.3)):
                pass
        with pytest.raises(InputError, match="needs an identity"):
            connect("router.example:7000", keyring=owner())
        with pytest.raises(InputError, match="host:port"):
            connect("nowhere", keyring=owner())
        async with ScriptedGateway() as gateway, connect(gateway.target, keyring=owner(), options=QUICK) as client:
            with pytest.raises(EmptyFilterError):
                async with client.subscribe("a IS NULL"):
                    pass
            async with client.subscribe("a = 1", durable="x"):
                with pytest.raises(ClientError, match="already open"):
                    client.subscribe("a = 1", durable="x")
        with pytest.raises(ClientError, match="closed"):
            await client.publish({"a": 1})

    run(work())
