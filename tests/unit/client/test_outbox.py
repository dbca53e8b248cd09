"""Publishing: whoever waits for a message hears of it, whatever happens to it on the way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from secroute.client.options import Options
from secroute.client.outbox import Outbox
from secroute.client.stats import ClientStats
from secroute.errors import ClientError, PublishTimeoutError
from secroute.opaque import EncodedBatch, Scope
from secroute.wire.frames import Mode, Publish
from tests.unit.client.scripted import LIMITS

SCOPE = Scope(b"s" * 16, 1, b"p" * 32)
MANY = 20  # so many are sealed in a thread


def sealed(messages: list[Any], bodies: list[bytes]) -> EncodedBatch:
    n = len(messages)
    payloads, offsets = np.zeros(n, np.uint8), np.arange(n + 1, dtype=np.int64)
    return EncodedBatch(SCOPE, np.ones((n, 2), np.uint64), np.zeros((n, 16), np.uint8), payloads, offsets)


class Book:
    """Seals by a function of the test."""

    def __init__(self, seal: Callable[..., EncodedBatch]) -> None:
        self.seal = seal


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


def run(seal: Callable[..., EncodedBatch], work: Callable[[Outbox, list[Publish]], Any], **options: Any) -> None:
    async def started() -> None:
        box, sent = Outbox(Book(seal), Options(linger_s=0, **options), ClientStats()), []  # type: ignore[arg-type,var-annotated]
        box.attach(sent.append, LIMITS, resumed=False, received=0)
        tasks = [asyncio.create_task(box.run()), asyncio.create_task(box.expire())]
        try:
            await work(box, sent)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(started())


def put(box: Outbox, count: int = MANY) -> list[asyncio.Future[None]]:
    return [box.put({"a": n}, b"", Mode.AT_LEAST_ONCE, 0) for n in range(count)]


def test_what_is_being_sealed_is_not_forgotten() -> None:
    """It once stood in no list: flush() returned before it was sent, and closing left its publisher waiting."""
    begun, go = threading.Event(), threading.Event()

    def slow(messages: list[Any], bodies: list[bytes]) -> EncodedBatch:
        begun.set()
        go.wait(5)
        return sealed(messages, bodies)

    async def work(box: Outbox, sent: list[Publish]) -> None:
        futures = put(box)
        await until(begun.is_set)
        assert not box.idle
        box.fail(ClientError("closed"))
        go.set()
        for future in futures:
            with pytest.raises(ClientError, match="closed"):
                await future

    run(slow, work)


def test_a_message_that_cannot_be_sealed_fails_alone() -> None:
    def seal(messages: list[Any], bodies: list[bytes]) -> EncodedBatch:
        if len(messages) == 3:
            raise RuntimeError("a secret")
        return sealed(messages, bodies)

    async def work(box: Outbox, sent: list[Publish]) -> None:
        for future in put(box, 3):
            with pytest.raises(ClientError, match="could not be sealed") as caught:
                await asyncio.wait_for(future, 5)
            assert "secret" not in str(caught.value)
        put(box, 2)
        await until(lambda: len(sent) == 1)

    run(seal, work)


def test_flush_does_not_wait_for_what_was_given_up() -> None:
    async def work(box: Outbox, sent: list[Publish]) -> None:
        (future,) = put(box, 1)
        await until(lambda: len(sent) == 1)
        assert not box.idle
        with pytest.raises(PublishTimeoutError):
            await asyncio.wait_for(future, 5)
        assert box.idle

    run(sealed, work, publish_timeout_s=0.1)
