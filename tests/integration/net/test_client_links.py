"""A client whose router lies, hangs or goes away, or whose application errs: it goes on or says so, and can close."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from secroute.client import Client, Options, connect
from secroute.encoding.profile import Profile
from secroute.errors import ClientError, LimitError
from secroute.keyring import OwnerKeyring
from secroute.wire.frames import Ping
from tests.integration.router.raw import Router

QUICK = Options(
    backoff_first_s=0.02, backoff_max_s=0.1, attempt_timeout_s=1.0, request_timeout_s=1.0, publish_timeout_s=10.0
)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    made = Router(tmp_path).configure().start()
    # The same address after a restart.
    config = tmp_path / "router.toml"
    config.write_text(config.read_text().replace('listen = "127.0.0.1:0"', f'listen = "{made.target}"', 1))
    yield made
    made.kill()


def client(*targets: str) -> Client:
    keyring = OwnerKeyring.new("f", Profile(bits=512), now=time.time() - 10)
    return connect(targets, keyring=keyring, options=QUICK)


def test_an_application_that_raises_at_a_gap_keeps_its_client(router: Router) -> None:
    """The client's connection once ended for ever, without a word."""
    gaps: list[Any] = []

    def on_gap(gap: Any) -> None:
        gaps.append(gap)
        raise ValueError("the application's own")

    async def work() -> None:
        async with client(router.target) as both, both.subscribe("a = 1", on_gap=on_gap) as messages:
            await asyncio.to_thread(router.kill)
            await asyncio.to_thread(router.start)
            async with asyncio.timeout(10):
                while not gaps:
                    await asyncio.sleep(0.02)
            await both.publish({"a": 1})
            assert await messages.next(5) is not None

    asyncio.run(work())


def test_a_router_that_sends_rubbish_is_left_for_another(router: Router) -> None:
    async def rubbish(requests: Any, context: Any) -> None:
        await context.read()
        await context.write(b"\xff\xff\xff")
        await context.read()

    async def work() -> None:
        server = grpc.aio.server()
        methods = {"Session": grpc.stream_stream_rpc_method_handler(rubbish)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("secroute.v1.Gateway", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with client(f"127.0.0.1:{port}", router.target) as publisher:
                assert publisher.connected_to == router.target
                await publisher.publish({"a": 1})
        finally:
            await server.stop(0)

    asyncio.run(work())


def test_a_frame_that_cannot_be_sent_does_not_leave_the_link_mute(router: Router) -> None:
    async def work() -> None:
        async with client(router.target) as publisher:
            with pytest.raises(LimitError):
                publisher.subscribe("a = 1", durable="d", tries_max=-1)
            with pytest.raises(LimitError):
                publisher.subscribe("a = 1", durable="d", ack_timeout_s=-1)
            assert publisher._link is not None
            publisher._link.send(Ping(-1))
            await publisher.publish({"a": 1})
            assert publisher.stats.connects == 2

    asyncio.run(work())


def test_a_fault_of_its_own_is_told_to_whoever_publishes(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault")

    async def work() -> None:
        async with client(router.target) as publisher, publisher.subscribe("a = 1") as messages:
            monkeypatch.setattr(publisher._outbox, "_take", broken)
            first = asyncio.create_task(publisher.publish({"a": 1}))
            with pytest.raises(ClientError, match=r"has failed \(RuntimeError\)"):
                await asyncio.wait_for(anext(messages), 5)
            with pytest.raises(ClientError, match=r"has failed \(RuntimeError\)"):
                await publisher.publish({"a": 1})
            first.cancel()

    asyncio.run(work())


def test_leaving_a_router_that_hangs_takes_the_time_of_one_answer(router: Router) -> None:
    async def work() -> float:
        async with client(router.target) as subscriber:
            for number in range(8):
                await subscriber.subscribe(f"a = {number}").__aenter__()
            assert router.process is not None
            os.kill(router.process.pid, signal.SIGSTOP)
            began = time.monotonic()
        return time.monotonic() - began

    assert asyncio.run(work()) < 5


def test_nothing_is_left_of_a_client_whose_leaving_was_cancelled(router: Router) -> None:
    """Its tasks once went on, and kept on calling routers."""

    async def use() -> None:
        async with client(router.target) as publisher:
            assert router.process is not None
            os.kill(router.process.pid, signal.SIGSTOP)
            publisher._put({"a": 1}, b"", False, 0.0).add_done_callback(lambda done: done.exception())

    async def work() -> None:
        using = asyncio.create_task(use())
        await asyncio.sleep(1.0)
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        async with asyncio.timeout(5):  # gRPC's own take a moment
            while asyncio.all_tasks() != {asyncio.current_task()}:
                await asyncio.sleep(0.01)

    asyncio.run(work())
