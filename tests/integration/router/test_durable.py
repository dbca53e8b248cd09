"""Durable subscriptions and at-least-once publishing: acks, redelivery, dead letters, sharing, rotation, duplicates."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from secroute.opaque import Scope
from secroute.wire import frames
from secroute.wire._generated import admin_pb2, admin_pb2_grpc, gateway_pb2, gateway_pb2_grpc
from secroute.wire.frames import Mode, Verdict
from tests.integration.router.conftest import MakeRouter
from tests.integration.router.raw import PLENTY, SCOPE, RawClient, Router, durable, filters_for, message_batch

NEXT = Scope(SCOPE.space, SCOPE.epoch + 1, b"\x55" * 32)
NONE = frames.Credit(0, 0, 0)


async def publish(router: Router, values: range | list[int], scope: Scope = SCOPE) -> None:
    async with RawClient(router.target) as pub:
        await pub.hello()
        assert (await pub.publish(message_batch(values, scope=scope))).problem is None
        await pub.send(frames.Goodbye())
        await pub.expect(frames.Goodbye)


def test_offline_messages_wait_and_survive_a_crash(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def before() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            made = await sub.subscribe(1, filters_for(range(128)), durable=durable())
            assert (made.created, made.epochs) == (True, (1,))
        await publish(router, range(10))
        async with RawClient(router.target) as sub:
            await sub.hello()
            again = await sub.subscribe(1, durable=durable())
            assert not again.created
            slices = await sub.collect(10, 1)
            assert not slices[0].redelivered
            await sub.ack(1, runs=((1, 3), (7, 1)))

    async def after() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, durable=durable())
            slices = await sub.collect(6, 1)
            assert all(part.redelivered for part in slices)
            sequences = sorted(n for s in slices for first, count in s.sequences for n in range(first, first + count))
            assert sequences == [4, 5, 6, 8, 9, 10]
            await sub.ack(1, up_to=10)
            await publish(router, [77])
            (part,) = await sub.collect(1, 1)
            assert not part.redelivered
            assert part.sequences == ((11, 1),)

    asyncio.run(before())
    router.kill()
    router.start()
    asyncio.run(after())
    assert not router.events("recovered")[-1]["clean"]


def test_an_orderly_restart_marks_nothing_that_was_never_sent(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def fill() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, filters_for([1]), durable=durable())
        await publish(router, [1])

    async def look() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, durable=durable())
            (part,) = await sub.collect(1, 1)
            assert not part.redelivered

    asyncio.run(fill())
    assert router.stop() == 0
    router.start()
    assert router.events("recovered")[-1]["clean"]
    asyncio.run(look())


def test_redelivery_and_dead_letters(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, filters_for(range(3)), durable=durable(ack_timeout_ms=300, tries_max=3))
            await publish(router, range(3))
            first = await sub.collect(3, 1)
            assert not any(part.redelivered for part in first)
            await sub.ack(1, runs=((1, 1),))
            await sub.ack(1, runs=((2, 1),), verdict=Verdict.DEAD)
            for _ in range(2):
                (part,) = await sub.collect(1, 1)
                assert part.redelivered
                assert part.sequences == ((3, 1),)
            assert await sub.nothing_more(1.0)
            admin = admin_pb2_grpc.AdminStub(sub.channel)
            (status,) = (await admin.ListDurable(gateway_pb2.ListDurableRequest())).durable
            assert (status.dead, status.queued, status.in_flight) == (2, 0, 0)
            request = admin_pb2.SettleDeadRequest(name=durable().name, owner="insecure")
            assert (await admin.SettleDead(request)).messages == 2
            assert sum(len(s.batch) for s in await sub.collect(2, 1)) == 2
            await sub.ack(1, runs=((2, 1),), verdict=Verdict.RETRY)
            (part,) = await sub.collect(1, 1)
            assert part.sequences == ((2, 1),)

    asyncio.run(scenario())


def test_shared_and_exclusive(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as one, RawClient(router.target) as two:
            await one.hello()
            await two.hello()
            small = frames.Credit(0, 5, 1_000_000)
            await one.subscribe(1, filters_for(range(128)), durable=durable(1, shared=True, credit=small))
            await two.subscribe(4, durable=durable(1, shared=True, credit=small))
            await publish(router, range(10))
            got = await one.values(5, 1) + await two.values(5, 4)
            assert sorted(got) == list(range(10))
            await one.subscribe(2, filters_for([1]), durable=durable(2))
            await two.subscribe(2, durable=durable(2))
            assert (await one.expect(frames.Detached)).subscription == 2
            # A session that goes leaves its messages to the other.
            await one.close()
            await two.send(frames.Credit(4, 100, 1_000_000))
            slices = await two.collect(5, 4)
            assert all(part.redelivered for part in slices)

    asyncio.run(scenario())


def test_list_and_delete(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            for number in (1, 2):
                await sub.subscribe(number, filters_for([1]), durable=durable(number, credit=NONE))
            await publish(router, [1, 1, 2])
            gateway = gateway_pb2_grpc.GatewayStub(sub.channel)
            listed = (await gateway.ListDurable(gateway_pb2.ListDurableRequest())).durable
            assert [(d.name[:1], d.queued) for d in listed] == [(b"\x01", 2), (b"\x02", 2)]
            deleted = await gateway.DeleteDurable(gateway_pb2.DeleteDurableRequest(name=b"\x01" * 16))
            assert deleted.messages_dropped == 2
            assert (await sub.expect(frames.Detached)).subscription == 1
            assert (await sub.unsubscribe(2, delete=True)).problem is None
            assert len((await gateway.ListDurable(gateway_pb2.ListDurableRequest())).durable) == 0
            missing = await sub.subscribe(3, durable=durable(9))
            assert missing.problem is not None
            assert missing.problem.code == "durable"

    asyncio.run(scenario())


def test_rotation_while_offline_spools_everything_then_records_a_gap(make_router: MakeRouter) -> None:
    router = make_router("[durable]\nspool_messages_max = 6").start()

    async def scenario() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, filters_for([1]), durable=durable())
            await publish(router, [1, 2])
            await sub.collect(1, 1)
            await sub.ack(1, up_to=1)
        await publish(router, [1, 2, 3], NEXT)
        await publish(router, [4, 5, 1], NEXT)
        router.kill()
        router.start()
        await publish(router, [1, 6], NEXT)
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, filters_for([1], NEXT), durable=durable())
            gap = await sub.expect(frames.Gap)
            assert (gap.reason, gap.epoch, gap.messages) == (frames.GapReason.SPOOL_FULL, 2, 2)
            slices = await sub.collect(6, 1)
            assert all(part.spooled for part in slices)
            await sub.ack(1, up_to=100)
            await sub.send(frames.GapAck(1, gap.gap))
            # Back in step: only what matches, in both epochs.
            await publish(router, [1, 2], NEXT)
            await publish(router, [1, 2])
            assert await sub.values(2, 1) == [1, 1]
            await sub.ack(1, up_to=100)
            assert (await sub.unsubscribe(1, SCOPE)).problem is None
            await publish(router, [1, 2])
            assert await sub.nothing_more()
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, durable=durable())
            assert not any(isinstance(frame, frames.Gap) for frame in sub.kept)

    asyncio.run(scenario())


def test_duplicates_are_taken_once_even_after_a_crash(make_router: MakeRouter) -> None:
    router = make_router().start()
    batch = message_batch(range(5))
    squatter = replace(message_batch(range(5)), ids=batch.ids)  # the same ids, other payloads: somebody else's messages

    async def scenario(expected: int) -> None:
        async with RawClient(router.target) as pub:
            await pub.hello()
            result = await pub.publish(batch)
            assert (result.problem, result.duplicates) == (None, expected)
            mixed = message_batch(range(10, 12))
            assert (await pub.publish(mixed)).duplicates == 0
            assert (await pub.publish(mixed)).duplicates == 2

    async def first() -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, filters_for(range(128)), durable=durable())
        await scenario(0)

    async def second() -> None:
        await scenario(5)
        async with RawClient(router.target) as pub:
            await pub.hello()
            assert (await pub.publish(squatter)).duplicates == 0
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, durable=durable())
            values = await sub.values(14, 1)
            assert sorted(values) == sorted([*range(5), 10, 11, 10, 11, *range(5)])
            assert await sub.nothing_more()

    asyncio.run(first())
    router.kill()
    router.start()
    asyncio.run(second())
    assert router.events("recovered")[-1]["guard_keys"] == 7


def test_a_full_queue_refuses_or_records_a_gap(make_router: MakeRouter) -> None:
    refusing = make_router("[durable]\nqueue_messages_max = 5", name="a").start()
    gapping = make_router('[durable]\nqueue_messages_max = 5\noverflow = "gap"', name="b").start()

    async def fill(router: Router) -> frames.PublishResult:
        async with RawClient(router.target) as sub, RawClient(router.target) as pub:
            await sub.hello()
            await pub.hello()
            await sub.subscribe(1, filters_for([1]), durable=durable(credit=NONE))
            assert (await pub.publish(message_batch([1, 1, 1, 2]))).problem is None
            full = await pub.publish(message_batch([1, 1, 1, 2]))
            assert (await pub.publish(message_batch([2, 3]))).problem is None
            return full

    async def gap(router: Router) -> None:
        async with RawClient(router.target) as sub:
            await sub.hello()
            await sub.subscribe(1, durable=durable())
            found = await sub.expect(frames.Gap)
            assert (found.reason, found.messages) == (frames.GapReason.QUEUE_FULL, 3)
            assert await sub.values(3, 1) == [1, 1, 1]

    problem = asyncio.run(fill(refusing)).problem
    assert problem is not None
    assert (problem.code, problem.retryable) == ("queue-full", True)
    assert asyncio.run(fill(gapping)).problem is None
    asyncio.run(gap(gapping))


def test_best_effort_reaches_durable_subscriptions_too(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as sub, RawClient(router.target) as pub:
            await sub.hello()
            await pub.hello()
            await sub.subscribe(1, filters_for([1]), durable=durable(credit=PLENTY))
            await pub.publish(message_batch([1, 2]), Mode.BEST_EFFORT)
            assert await sub.values(1, 1) == [1]

    asyncio.run(scenario())
