"""Streams that break, stall or carry too much: whoever is at the other end hears of it, and nothing hangs for ever."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

from secroute import limits
from secroute.bench.net_lab import Network
from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.wire import frames
from secroute.wire.client_frames import encode_client_frame
from tests.integration.net.conftest import MakeNetwork
from tests.integration.router.raw import RawClient, filters_for, message_batch

WIDE = Scope(b"\x33" * 16, 1, b"\x22" * 32)


def client(net: Network, name: str, **options: Any) -> RawClient:
    identity = net.identity()
    credentials = grpc.ssl_channel_credentials(identity.ca, identity.key, identity.certificate)
    return RawClient(net.target(name), credentials, [("grpc.ssl_target_name_override", name)], **options)  # type: ignore[list-item]


def events(net: Network, name: str, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in net.log(name).read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


async def until(true: Callable[[], Any], timeout_s: float = 10.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not true():
            await asyncio.sleep(0.02)


def fullest_batch() -> EncodedBatch:
    """As much as one frame of a client can hold, but for a few bytes."""
    count = 8_100
    ids = [number.to_bytes(8, "big") * 2 for number in range(count)]
    bits, payloads = np.ones((count, limits.WORDS_MAX), np.uint64), [os.urandom(2_000) for _ in range(count)]
    batch = EncodedBatch.of(WIDE, bits, ids, payloads)
    frame = encode_client_frame(frames.Publish(1, frames.Mode.AT_LEAST_ONCE, batch, 0))
    payloads[-1] += bytes(limits.FRAME_BYTES_MAX - frame.ByteSize() - 8)
    return EncodedBatch.of(WIDE, bits, ids, payloads)


@pytest.mark.parametrize("scheme", ["pif", "drp"])
def test_the_fullest_frame_of_a_client_passes_a_link(make_network: MakeNetwork, scheme: str) -> None:
    """A transfer says more than the frame it came in; the neighbour once refused it, and the link broke for ever."""
    net = make_network("line:2", scheme)

    async def work() -> None:
        async with client(net, "r1") as receiver, client(net, "r0") as publisher:
            await receiver.hello()
            await receiver.subscribe(1, EncodedFilters(WIDE, np.ones((1, limits.WORDS_MAX), np.uint64)))
            await asyncio.to_thread(net.wait_whole, 30, filters=1)
            await publisher.hello()
            batch = fullest_batch()
            assert (await publisher.publish(batch)).problem is None
            slices = await receiver.collect(len(batch))
            got = sorted(row.tobytes() for part in slices for row in part.batch.ids)
            assert got == [row.tobytes() for row in batch.ids]

    asyncio.run(work())
    for name in net.names:
        assert len(events(net, name, "link-up")) == 1
        assert not events(net, name, "link-down")


def test_a_batch_that_was_received_has_its_result_after_a_resume(make_network: MakeNetwork) -> None:
    """Its stream broke while it waited for its turn: it was dropped, and the client waited for the result for ever."""
    net = make_network("line:2", more="mib_per_s = 0.2")

    async def work() -> None:
        async with client(net, "r0") as before:
            welcome = await before.hello()
            for _ in range(2):
                await before.publish_only(message_batch(range(6), payload_bytes=50_000))
            await before.expect(frames.PublishResults)
            await asyncio.sleep(0.2)  # the second one waits now: its publisher is beyond its rate
        async with client(net, "r0") as after:
            welcome = await after.hello(resume_token=welcome.resume_token)
            assert welcome.resumed
            assert welcome.publish_sequence == 2
            results: set[int] = set()
            while len(results) < 2:
                results |= {each.sequence for each in (await after.expect(frames.PublishResults, 5)).results}
            assert (await publish_next(after, 3)).problem is None

    asyncio.run(work())


async def publish_next(session: RawClient, sequence: int) -> frames.PublishResult:
    session.sequence = sequence - 1
    return await session.publish(message_batch([1]))


def test_a_client_that_did_not_read_for_long_learns_that_its_stream_is_over(make_network: MakeNetwork) -> None:
    """The router had given the stream up without a word: it stayed open and mute."""
    net = make_network("line:2", start=False, more="[sessions]\nkeepalive_s = 1")
    net.start("r0")

    async def work() -> None:
        async with client(net, "r0") as sleeper, client(net, "r0") as publisher:
            await sleeper.hello()
            await sleeper.subscribe(1, filters_for(range(128)))
            await publisher.hello()
            sleeper.reading = False
            for _ in range(8):  # more than the transport keeps for a client that does not read
                await publisher.publish(message_batch(range(20), payload_bytes=50_000))
            await until(lambda: len(events(net, "r0", "stream-silent")) >= 1)
            await asyncio.sleep(2.5)  # the router lingers before it gives up
            sleeper.reading = True
            began = time.monotonic()
            while await sleeper.read(5) is not None:
                pass
            assert time.monotonic() - began < 5

    asyncio.run(work())
