"""Bad input and bad luck, with real routers: nothing acknowledged is lost, nobody else notices, the log says it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest

from secroute import limits
from secroute.opaque import EncodedBatch
from secroute.wire import frames
from secroute.wire._generated import gateway_pb2 as pb
from secroute.wire.client_frames import encode_client_frame
from tests.integration.router.conftest import MakeRouter
from tests.integration.router.raw import (
    METHOD,
    RawClient,
    Router,
    durable,
    filters_for,
    message_batch,
    wait_for,
)

BEST = frames.Mode.BEST_EFFORT


class RawBytes:
    """A stream on which anything can be sent, frame or not."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.aio.insecure_channel(target, options=[("grpc.max_send_message_length", -1)])
        self.call = self._channel.stream_stream(METHOD, bytes, pb.RouterFrame.FromString)()

    async def __aenter__(self) -> RawBytes:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        await self._channel.close()

    async def frame(self, frame: frames.ClientFrame | pb.ClientFrame) -> None:
        message = frame if isinstance(frame, pb.ClientFrame) else encode_client_frame(frame)
        await self.call.write(message.SerializeToString())


@asynccontextmanager
async def bystanders(target: str, mode: frames.Mode = frames.Mode.AT_LEAST_ONCE) -> AsyncIterator[None]:
    """A publisher and a subscriber that must not notice anything of what happens inside."""
    async with RawClient(target) as reader, RawClient(target) as writer:
        await reader.hello()
        await writer.hello()
        await reader.subscribe(1, filters_for([9]))
        over = asyncio.Event()

        async def chat() -> int:
            rounds = 0
            while not over.is_set() or rounds < 3:
                result = await writer.publish(message_batch([9]), mode)
                assert result.problem is None
                assert await reader.values(1, timeout_s=5) == [9]
                rounds += 1
                await asyncio.sleep(0.02)
            return rounds

        talk = asyncio.create_task(chat())
        yield
        over.set()
        await talk


def bad_batch(**columns: object) -> pb.ClientFrame:
    frame = encode_client_frame(frames.Publish(1, BEST, message_batch([1, 2])))
    for name, value in columns.items():
        setattr(frame.publish.batch, name, value)
    return frame


MALFORMED = {
    "noise": b"\xff\xff\xff\xff not a frame",
    "cut short": encode_client_frame(frames.Publish(1, BEST, message_batch([1]))).SerializeToString()[:-9],
    "empty": b"",
    "bits of the wrong width": bad_batch(words=3).SerializeToString(),
    "too wide": bad_batch(words=100_000).SerializeToString(),
    "ids that are no ids": bad_batch(ids=b"123").SerializeToString(),
    "payloads too short": bad_batch(payloads=b"").SerializeToString(),
    "a lying length column": bad_batch(payload_lengths=b"\xff" * 8).SerializeToString(),
    "a space of 3 bytes": pb.ClientFrame(
        subscribe=pb.Subscribe(request=1, subscription=1, filters=[{"scope": {"space": b"abc"}, "words": 1}])
    ).SerializeToString(),
    "a sequence from the future": encode_client_frame(
        frames.Publish(2**62, BEST, message_batch([1]))
    ).SerializeToString(),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Router:  # type: ignore[misc]
    """One router for everything that must leave it as it was."""
    router = Router(tmp_path_factory.mktemp("shared")).configure().start()
    yield router  # type: ignore[misc]
    router.kill()


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_frames_end_their_own_session_only(shared: Router, kind: str) -> None:
    async def scenario() -> None:
        async with bystanders(shared.target), RawBytes(shared.target) as client:
            await client.frame(frames.Hello())
            assert (await client.call.read()).WhichOneof("frame") == "welcome"
            await client.call.write(MALFORMED[kind])
            frame = await asyncio.wait_for(client.call.read(), 10)
            assert frame.goodbye.error.code in ("wire", "limit", "opaque", "protocol")

    before = len(shared.events("session-end"))
    asyncio.run(scenario())
    (entry,) = wait_for(lambda: [e for e in shared.events("session-end")[before:] if e["code"]], "a word in the log")
    assert entry["reason"]


def test_an_oversized_frame_is_refused_by_the_transport(shared: Router) -> None:
    async def scenario() -> None:
        async with bystanders(shared.target), RawBytes(shared.target) as client:
            await client.frame(frames.Hello())
            await client.call.read()
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await client.call.write(bytes(limits.FRAME_BYTES_MAX + 1))
            assert await client.call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

    asyncio.run(scenario())


def test_a_flood_beyond_the_window_ends_the_flooder(make_router: MakeRouter) -> None:
    router = make_router("[sessions]\npublish_window_batches = 4\n[limits]\nbatch_linger_ms = 50.0").start()

    async def scenario() -> None:
        async with bystanders(router.target), RawClient(router.target) as flooder:
            await flooder.hello()
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                for _ in range(64):
                    await flooder.publish_only(message_batch([1]), BEST)
            problem = (await flooder.expect(frames.Goodbye)).problem
            assert problem is not None
            assert problem.code == "flow"

    asyncio.run(scenario())
    assert [event["code"] for event in router.events("session-end") if event["code"]] == ["flow"]


LITTLE_ROOM = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1_024)]  # HTTP/2 windows stay small


def test_a_client_that_never_reads_holds_little_memory(make_router: MakeRouter) -> None:
    """It is not read either: what waits for it is bounded, and nobody else notices."""
    router = make_router("[sessions]\nkeepalive_s = 2\nresume_grace_s = 1").start()
    assert router.process is not None
    pid = router.process.pid

    def rss_mb() -> float:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def scenario() -> None:
        async with bystanders(router.target), RawClient(router.target, options=LITTLE_ROOM) as deaf:
            await deaf.hello()
            deaf.reading = False
            before, sent = rss_mb(), 0

            async def pings() -> None:
                nonlocal sent
                while True:
                    await deaf.send(frames.Ping(sent))
                    sent += 1

            task = asyncio.create_task(pings())
            deadline = time.monotonic() + 30
            while not router.events("stream-silent") and not task.done() and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert router.events("stream-silent"), f"{sent} pings were read"
            assert rss_mb() - before < 60

    asyncio.run(scenario())


def test_a_captured_session_cannot_be_replayed(make_router: MakeRouter) -> None:
    """Every frame of a session, sent again byte by byte: no message is taken twice, no session is taken over."""
    router = make_router("[sessions]\nresume_grace_s = 60").start()

    async def scenario() -> None:
        captured: list[bytes] = []
        async with RawClient(router.target) as desk, RawBytes(router.target) as victim:
            await desk.hello()
            await desk.subscribe(1, filters_for([1]), durable=durable())

            async def send(frame: frames.ClientFrame) -> None:
                captured.append(encode_client_frame(frame).SerializeToString())
                await victim.call.write(captured[-1])

            await send(frames.Hello())
            first = (await victim.call.read()).welcome
            await send(frames.Publish(1, frames.Mode.AT_LEAST_ONCE, message_batch([1, 1])))
            assert (await victim.call.read()).publish_results.results[0].duplicates == 0
            assert await desk.values(2, 1) == [1, 1]
            async with RawBytes(router.target) as replay:
                for frame in captured:
                    await replay.call.write(frame)
                again = (await replay.call.read()).welcome
                assert again.session_id != first.session_id
                assert not again.resumed
                assert (await replay.call.read()).publish_results.results[0].duplicates == 2
            assert await desk.nothing_more()
            # The token of a Welcome works once: after that it names nothing.
            async with RawClient(router.target) as thief:
                assert (await thief.hello(resume_token=first.resume_token)).resumed
            async with RawClient(router.target) as thief:
                assert not (await thief.hello(resume_token=first.resume_token)).resumed

    asyncio.run(scenario())


# --- the disk --------------------------------------------------------------------------------------------------------


def limit_files(router: Router, size: str) -> None:
    assert router.process is not None
    subprocess.run(["prlimit", "--pid", str(router.process.pid), f"--fsize={size}:unlimited"], check=True)


def test_a_full_disk_refuses_and_loses_nothing(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as desk, RawClient(router.target) as pub:
            await desk.hello()
            await pub.hello()
            await desk.subscribe(1, filters_for([1]), durable=durable(credit=frames.Credit(0, 0, 0)))
            assert (await pub.publish(message_batch([1] * 4))).problem is None
            limit_files(router, str(1_048_576))
            taken, refused = 4, None
            for _ in range(200):
                result = await pub.publish(message_batch([1] * 4, 65_536))
                if result.problem is not None:
                    refused = result.problem
                    break
                taken += 4
            assert refused is not None
            assert (refused.code, refused.retryable) == ("store-full", True)
            assert "nothing of it was taken" in refused.message
            # What needs no disk goes on.
            assert (await pub.publish(message_batch([7]), BEST)).problem is None
            limit_files(router, "unlimited")
            assert (await pub.publish(message_batch([1]))).problem is None
            await desk.send(frames.Credit(1, 10_000, 200 * 1_048_576))
            assert len(await desk.values(taken + 1, 1)) == taken + 1

    asyncio.run(scenario())
    assert router.events("store-refuses")
    assert router.events("store-recovered")


def test_a_store_beyond_its_size_refuses(make_router: MakeRouter) -> None:
    router = make_router("[store]\nmib_max = 2").start()

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            await client.subscribe(1, filters_for([1]), durable=durable(credit=frames.Credit(0, 0, 0)))
            for _ in range(40):
                result = await client.publish(message_batch([1] * 2, 65_536))
                if result.problem is not None:
                    assert result.problem.code == "store-full"
                    return
            raise AssertionError("the store never filled up")

    asyncio.run(scenario())


def test_a_full_disk_under_a_spill_is_a_gap(make_router: MakeRouter) -> None:
    text = '[[client]]\nname = "insecure"\nqueue_mib = 1\nmay = ["publish", "subscribe"]\n'
    router = make_router(text).start()

    async def scenario() -> None:
        # Nothing can be committed to a full disk: whoever asks for that would be refused, and rightly.
        others = bystanders(router.target, BEST)
        async with others, RawClient(router.target) as slow, RawClient(router.target) as pub:
            await slow.hello(credit=frames.Credit(0, 0, 0))
            await pub.hello()
            await slow.subscribe(1, filters_for([1]))
            limit_files(router, str(524_288))
            for _ in range(16):
                assert (await pub.publish(message_batch([1] * 4, 65_536), BEST)).problem is None
            limit_files(router, "unlimited")
            await slow.send(frames.Credit(0, 1_000, 64 * 1_048_576))
            kept = 0
            while True:
                frame = await slow.read()
                if isinstance(frame, frames.Delivery):
                    kept += sum(len(part.batch) for part in frame.slices)
                    await slow.send(frames.Ack(0, 1_000_000))
                elif isinstance(frame, frames.Gap):
                    assert frame.messages + kept <= 64
                    assert frame.messages > 0
                    return

    asyncio.run(scenario())


BLOBS = (("filters", "bits"), ("cursor", "state"), ("batch", "routes"), ("seen", "keys"))


def test_a_damaged_store_is_refused_at_start(make_router: MakeRouter) -> None:
    router = make_router().start()

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            await client.subscribe(1, filters_for([1]), durable=durable(credit=frames.Credit(0, 0, 0)))
            await client.publish(message_batch([1, 1]))

    asyncio.run(scenario())
    assert router.stop() == 0
    store = router.folder / "router-store" / "store.db"
    good = store.read_bytes()

    def put(content: bytes) -> None:
        for leftover in store.parent.glob("store.db-*"):
            leftover.unlink()
        store.write_bytes(content)

    for damage in (*BLOBS, "page"):
        put(good)
        if damage == "page":
            put(good[:32_768] + b"\x55" * 4_096 + good[36_864:])
        else:
            table, column = damage
            with sqlite3.connect(store) as db:
                db.execute(f"UPDATE {table} SET {column} = zeroblob(length({column}))")  # noqa: S608 - our own names
            db.close()
        router.spawn()
        assert router.process is not None
        assert router.process.wait(20) == 2, damage
        refused = router.events("refused-to-start")[-1]
        assert refused["code"] == "store", damage
        assert "damaged" in refused["reason"] or "cannot" in refused["reason"]
    put(good)
    router.start()  # as it was before


def test_two_routers_never_share_a_store(make_router: MakeRouter) -> None:
    first = make_router().start()
    second = Router(first.folder)
    second.spawn()
    assert second.process is not None
    assert second.process.wait(60) == 2
    assert "in use by another router" in first.events("refused-to-start")[-1]["reason"]


# --- the clock -------------------------------------------------------------------------------------------------------

SHIFTED_CLOCK = """
import pathlib, time
_file, _time, _ns = pathlib.Path("offset"), time.time, time.time_ns
def _offset():
    try:
        return int(_file.read_text() or 0)
    except (OSError, ValueError):
        return 0
time.time = lambda: _time() + _offset()
time.time_ns = lambda: _ns() + _offset() * 10**9
"""


@pytest.mark.parametrize("jump_s", [400 * 86_400, -400 * 86_400])
def test_a_clock_that_jumps_loses_and_repeats_nothing(make_router: MakeRouter, jump_s: int) -> None:
    router = make_router("[durable]\nack_timeout_s = 20.0")
    (router.folder / "sitecustomize.py").write_text(SHIFTED_CLOCK)
    router.env["PYTHONPATH"] = str(router.folder)
    router.start()
    again: list[EncodedBatch] = [message_batch([1]), message_batch([1])]

    async def scenario() -> None:
        async with RawClient(router.target) as client:
            await client.hello()
            await client.subscribe(1, filters_for([1]), durable=durable())
            await client.subscribe(2, filters_for([2]), durable=durable(2, credit=frames.Credit(0, 0, 0)))
            await client.publish(again[0])
            await client.publish(message_batch([2]), ttl_ms=60_000)
            assert await client.values(1, 1) == [1]
            (router.folder / "offset").write_text(str(jump_s))
            assert (await client.publish(again[0])).duplicates == 1
            await client.publish(again[1])
            assert (await client.publish(again[1])).duplicates == 1
            assert await client.values(1, 1) == [1]
            assert await client.nothing_more(0.5)  # neither redelivered nor repeated
            await client.send(frames.Credit(2, 10, 100_000))
            assert await client.values(1, 2) == [2]  # its minute is not over
            await client.send(frames.Ping(1))
            await client.expect(frames.Pong)

    asyncio.run(scenario())
