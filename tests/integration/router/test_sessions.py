"""What a session promises: matching, order, credits, resume, quotas, refusals. Real processes, real sockets."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from secroute.opaque import EncodedFilters, Scope
from secroute.wire import frames
from secroute.wire.frames import Mode
from tests.integration.router.conftest import MakeRouter
from tests.integration.router.raw import SCOPE, RawClient, Router, durable, filters_for, message_batch, wait_for

BEST = Mode.BEST_EFFORT


def test_subscribe_publish_deliver(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as one, RawClient(router.target) as two, RawClient(router.target) as pub:
            for client in (one, two, pub):
                await client.hello()
            assert (await one.subscribe(1, filters_for([1, 2]))).problem is None
            assert (await two.subscribe(7, filters_for([2, 3]))).problem is None
            for mode in (Mode.BEST_EFFORT, Mode.AT_LEAST_ONCE):
                assert (await pub.publish(message_batch([1, 2, 3, 4]), mode)).problem is None
                assert await one.values(2) == [1, 2]
                assert await two.values(2) == [2, 3]
            assert (await one.unsubscribe(1)).problem is None
            await pub.publish(message_batch([1, 2, 3]), BEST)
            assert await two.values(2) == [2, 3]
            assert await one.nothing_more()
            await pub.send(frames.Goodbye())
            assert (await pub.expect(frames.Goodbye)).problem is None
            assert await pub.read() is None

    asyncio.run(scenario())
    assert router.stop() == 0


def test_a_message_comes_once_whichever_subscriptions_matched(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            await client.subscribe(1, filters_for([5]))
            await client.subscribe(2, filters_for([5, 6]))
            await client.publish(message_batch([5, 6]))
            assert await client.values(2) == [5, 6]
            await client.unsubscribe(2)
            await client.publish(message_batch([6, 5]))
            assert await client.values(1) == [5]

    asyncio.run(scenario())


def test_order_of_a_publisher_is_kept_across_modes(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as sub, RawClient(router.target) as pub:
            await sub.hello()
            await pub.hello()
            await sub.subscribe(1, filters_for(range(128)))
            await sub.subscribe(2, filters_for(range(128)), durable=durable())
            for first in range(0, 400, 10):
                mode = Mode.AT_LEAST_ONCE if first % 3 else BEST
                await pub.publish_only(message_batch(range(first, first + 10)), mode)
            results: list[int] = []
            while len(results) < 40:
                results += [r.sequence for r in (await pub.expect(frames.PublishResults)).results]
            assert results == list(range(1, 41))
            seen: dict[int, list[int]] = {0: [], 2: []}
            while any(len(values) < 400 for values in seen.values()):
                delivery = await sub.expect(frames.Delivery)
                for part in delivery.slices:
                    seen[delivery.subscription] += [int.from_bytes(bytes(i[:8]), "big") for i in part.batch.ids]
            assert seen[0] == list(range(400))
            assert seen[2] == list(range(400))

    asyncio.run(scenario())


def test_credits_bound_what_is_sent(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as sub, RawClient(router.target) as pub:
            await sub.hello(credit=frames.Credit(0, 3, 1_000_000))
            await pub.hello()
            await sub.subscribe(1, filters_for(range(10)))
            await pub.publish(message_batch(range(10)), BEST)
            assert await sub.values(3) == [0, 1, 2]
            assert await sub.nothing_more()
            await sub.send(frames.Credit(0, 100, 0))
            size = 48 + 16
            await sub.send(frames.Ack(0, 3, credit_bytes=0))
            assert await sub.values(7) == [3, 4, 5, 6, 7, 8, 9]
            # Bytes bound, too: enough for two and a bit lets the third overdraw.
            async with RawClient(router.target) as thin:
                await thin.hello(credit=frames.Credit(0, 100, 2 * size + 1))
                await thin.subscribe(1, filters_for(range(10)))
                await pub.publish(message_batch(range(10)), BEST)
                assert await thin.values(3) == [0, 1, 2]
                assert await thin.nothing_more()

    asyncio.run(scenario())


def test_resume_within_grace(make_router: MakeRouter) -> None:
    router = make_router("[sessions]\nresume_grace_s = 20").start()

    async def scenario() -> None:
        async with RawClient(router.target) as pub:
            await pub.hello()
            sub = RawClient(router.target)
            welcome = await sub.hello()
            await sub.subscribe(1, filters_for(range(20)))
            await pub.publish(message_batch(range(6)), BEST)
            slices = await sub.collect(6)
            assert slices[0].sequences[0][0] == 1
            await sub.ack(0, up_to=4)
            await sub.publish_only(message_batch([100]))
            await sub.expect(frames.PublishResults)
            await sub.close()
            await asyncio.to_thread(wait_for, lambda: router.events("stream-lost"), "the router to notice")
            await pub.publish(message_batch(range(6, 12)), BEST)
            async with RawClient(router.target) as again:
                back = await again.hello(resume_token=welcome.resume_token)
                assert back.resumed
                assert back.session_id == welcome.session_id
                assert back.resume_token != welcome.resume_token
                assert back.publish_sequence == 1
                assert [r.sequence for r in (await again.expect(frames.PublishResults)).results] == [1]
                slices = await again.collect(8)
                got = [(s.sequences, s.redelivered) for s in slices]
                assert got[0] == (((5, 2),), True)
                assert not slices[-1].redelivered
                again.sequence = 1
                assert (await again.publish(message_batch([101]))).problem is None
            # The old token is spent.
            async with RawClient(router.target) as late:
                assert not (await late.hello(resume_token=welcome.resume_token)).resumed

    asyncio.run(scenario())


def test_sessions_end_after_grace_and_their_filters_go(make_router: MakeRouter) -> None:
    router = make_router("[sessions]\nresume_grace_s = 0").start()

    async def scenario() -> None:
        sub = RawClient(router.target)
        welcome = await sub.hello()
        await sub.subscribe(1, filters_for([1]))
        await sub.close()
        for _ in range(100):
            await asyncio.sleep(0.05)
            if router.events("session-end"):
                break
        async with RawClient(router.target) as again:
            assert not (await again.hello(resume_token=welcome.resume_token)).resumed

    asyncio.run(scenario())
    assert len(router.events("session-end")) >= 1


def test_profiles_are_pinned_by_first_use_and_across_restarts(make_router: MakeRouter) -> None:
    router = make_router().start()
    other = Scope(SCOPE.space, SCOPE.epoch, b"\x33" * 32)

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            wrong = await client.subscribe(1, filters_for([1], other))
            assert wrong.problem is not None
            assert wrong.problem.code == "profile-mismatch"
            refused = await client.publish(message_batch([1], scope=other))
            assert refused.problem is not None
            assert refused.problem.code == "profile-mismatch"
            wide = EncodedFilters(SCOPE, np.ones((1, 3), np.uint64))
            narrow = await client.subscribe(1, wide)
            assert narrow.problem is not None
            assert "words wide" in narrow.problem.message
            assert (await client.publish(message_batch([1]))).problem is None

    async def pin() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            await client.publish(message_batch([1]))

    asyncio.run(pin())
    asyncio.run(scenario())
    router.kill()
    router.start()
    asyncio.run(scenario())


def test_unknown_versions_are_refused_politely(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.send(frames.Hello(version_min=7, version_max=9))
            goodbye = await client.expect(frames.Goodbye)
            assert goodbye.problem is not None
            assert goodbye.problem.code == "version"
            assert "1..1" in goodbye.problem.message
            assert await client.read() is None

    asyncio.run(scenario())


@pytest.mark.parametrize("policy", ["spill", "slow"])
def test_a_slow_consumer_is_bounded_and_others_do_not_notice(make_router: MakeRouter, policy: str) -> None:
    text = f'[sessions]\nslow_consumer = "{policy}"\nslow_timeout_s = 0.1\nspill_mib_max = 6\n'
    text += '[[client]]\nname = "insecure"\nqueue_mib = 1\nmay = ["publish", "subscribe", "admin"]\n'
    router = make_router(text).start()

    async def scenario() -> None:
        async with RawClient(router.target) as slow, RawClient(router.target) as good, RawClient(router.target) as pub:
            await slow.hello(credit=frames.Credit(0, 0, 0))
            await good.hello()
            await pub.hello()
            await slow.subscribe(1, filters_for([1]))
            await good.subscribe(1, filters_for([1]))
            for _ in range(20):  # 20 times half a MiB
                await pub.publish(message_batch([1] * 8, 65_536), BEST)
                slices = await good.collect(8)
                await good.ack(0, up_to=slices[-1].sequences[-1][0] + 7)
                await good.send(frames.Credit(0, 8, 8 * 70_000))
            await slow.send(PLENTY_TWICE)
            kept = 0
            while True:
                frame = await slow.read()
                if isinstance(frame, frames.Delivery):
                    kept += sum(len(part.batch) for part in frame.slices)
                    await slow.send(frames.Ack(0, frame.slices[-1].sequences[-1][0] + 1_000))
                elif isinstance(frame, frames.Gap):
                    assert kept + frame.messages <= 160
                    assert frame.messages > 0
                    break

    asyncio.run(scenario())
    assert any(event["gap"] for event in router.events("slow-consumer"))


PLENTY_TWICE = frames.Credit(0, 1_000, 64 * 1_048_576)


def test_rates_slow_a_publisher_down(make_router: MakeRouter) -> None:
    router = make_router('[[client]]\nname = "insecure"\nmib_per_s = 1.0\n').start()

    async def scenario() -> float:
        async with RawClient(router.target) as pub:
            await pub.hello()
            loop = asyncio.get_running_loop()
            began = loop.time()
            for _ in range(5):
                await pub.publish(message_batch([1] * 8, 65_536), BEST)
            return loop.time() - began

    assert asyncio.run(scenario()) > 1.2  # 2.5 MiB, one of them saved up


def test_keep_alive_notices_half_open_connections(make_router: MakeRouter) -> None:
    router = make_router("[sessions]\nkeepalive_s = 1\nresume_grace_s = 1").start()

    async def scenario() -> None:
        async with RawClient(router.target) as silent:
            await silent.hello()
            assert isinstance(await silent.read(), frames.Ping)
            for _ in range(100):
                await asyncio.sleep(0.1)
                if router.events("session-end"):
                    return
        raise AssertionError("the silent session was never ended")

    asyncio.run(scenario())
    assert router.events("stream-silent")


def test_no_hello_in_time(make_router: MakeRouter) -> None:
    router = make_router("[sessions]\nhello_timeout_s = 0.5").start()

    async def scenario() -> None:
        async with RawClient(router.target) as silent:
            goodbye = await silent.expect(frames.Goodbye)
            assert goodbye.problem is not None
            assert "Hello" in goodbye.problem.message

    asyncio.run(scenario())


def test_epochs_that_nobody_uses_are_dropped(make_router: MakeRouter) -> None:
    router = make_router("[limits]\nepoch_idle_s = 0.5").start()

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            await client.publish(message_batch([1]), BEST)
            for _ in range(100):
                await asyncio.sleep(0.1)
                if router.events("epoch-dropped"):
                    break
            # Free again: another profile may take it.
            other = Scope(SCOPE.space, SCOPE.epoch, b"\x44" * 32)
            assert (await client.publish(message_batch([1], scope=other), BEST)).problem is None

    asyncio.run(scenario())


def test_ttl(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario(router: Router) -> None:
        async with RawClient(router.target) as sub, RawClient(router.target) as pub:
            await sub.hello(credit=frames.Credit(0, 0, 0))
            await pub.hello()
            await sub.subscribe(1, filters_for([1]))
            await sub.subscribe(2, filters_for([1]), durable=durable(credit=frames.Credit(0, 0, 0)))
            await pub.publish(message_batch([1]), ttl_ms=200)
            await pub.publish(message_batch([129]), ttl_ms=60_000)
            await asyncio.sleep(0.4)
            await sub.send(frames.Credit(0, 10, 10_000))
            await sub.send(frames.Credit(2, 10, 10_000))
            assert await sub.values(1, 0) == [129]
            assert await sub.values(1, 2) == [129]

    asyncio.run(scenario(router))
