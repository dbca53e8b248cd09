"""A neighbour's stream: whole frames, one write at a time, and who takes whose place. No gRPC, no sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute.errors import ProtocolError
from secroute.router import links_peer
from secroute.router.links_forward import Outgoing
from secroute.router.links_peer import LinkEndedError, Peer
from secroute.wire.frames import Problem
from secroute.wire.link_frames import LinkFrame, LinkHello, LinkProof, LinkSynced

NEIGHBOUR = Ed25519PrivateKey.from_private_bytes(b"n" * 32)


class Host:
    """A router that only counts."""

    name, scheme = "here", "pif"

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(b"h" * 32)
        self.ups = self.downs = 0

    def link_up(self, peer: Peer) -> None:
        self.ups += 1

    def link_down(self, peer: Peer) -> None:
        self.downs += 1
        peer.router = None

    async def frame(self, peer: Peer, frame: LinkFrame) -> None:
        raise AssertionError(frame)

    def delivered(self, outgoing: Outgoing) -> None:
        raise AssertionError(outgoing)

    def refused(self, peer: Peer, outgoing: Outgoing, problem: Problem) -> None:
        raise AssertionError(problem)


class Wire:
    """A stream to the neighbour ``there``; like gRPC, it must not get a write before the last one is over."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[LinkFrame | None] = asyncio.Queue()
        self.written: list[LinkFrame] = []
        self.open = asyncio.Event()
        self.open.set()
        self.begun = 0

    async def read(self) -> LinkFrame | None:
        return await self.inbox.get()

    async def write(self, frame: LinkFrame) -> None:
        assert self.begun == len(self.written), "a write before the last one was over"
        self.begun += 1
        await self.open.wait()
        self.written.append(frame)
        if isinstance(frame, LinkHello):
            public = NEIGHBOUR.public_key().public_bytes_raw()
            body = b"secroute/link/1" + frame.nonce + b"x" * 32 + public + frame.public_key
            self.inbox.put_nowait(LinkProof(NEIGHBOUR.sign(body)))

    def hello(self) -> LinkHello:
        return LinkHello("there", NEIGHBOUR.public_key().public_bytes_raw(), b"x" * 32, "pif")


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.001)


def run(work: Callable[[Host, Peer], Awaitable[None]]) -> None:
    async def started() -> None:
        host = Host()
        await work(host, Peer(host, "there", 1))

    asyncio.run(started())


def test_the_frame_at_hand_goes_out_whole_before_a_bad_neighbour_hears_why() -> None:
    """A write that was cancelled half-way kept its stream open and mute: the neighbour waited for a word for ever."""

    async def work(host: Host, peer: Peer) -> None:
        wire = Wire()
        serving = asyncio.create_task(peer.serve(wire.read, wire.write, wire.hello()))
        await until(lambda: peer.up)
        wire.open.clear()
        peer.send(LinkSynced(b"s" * 16))
        await until(lambda: wire.begun > len(wire.written))
        wire.inbox.put_nowait(wire.hello())  # a second handshake: against the rules
        await asyncio.sleep(0.05)
        assert not serving.done()
        wire.open.set()
        with pytest.raises(ProtocolError):
            await serving
        assert wire.begun == len(wire.written)
        assert (host.ups, host.downs) == (1, 1)

    run(work)


def test_a_neighbour_that_does_not_read_cannot_keep_its_link() -> None:
    async def work(host: Host, peer: Peer) -> None:
        wire = Wire()
        serving = asyncio.create_task(peer.serve(wire.read, wire.write, wire.hello()))
        await until(lambda: peer.up)
        wire.open.clear()
        wire.inbox.put_nowait(wire.hello())
        with pytest.raises(ProtocolError):
            await asyncio.wait_for(serving, 3)
        assert not peer.up

    run(work)


@pytest.mark.parametrize("pauses", range(4))
def test_a_stream_that_is_cut_twice_is_down(pauses: int) -> None:
    """The second cut once hit the clean-up: the link stayed up without a stream, and nobody dialled again."""

    async def work(host: Host, peer: Peer) -> None:
        wire = Wire()
        serving = asyncio.create_task(peer.serve(wire.read, wire.write, wire.hello()))
        await until(lambda: peer.up)
        peer.cut()
        for _ in range(pauses):
            await asyncio.sleep(0)
        serving.cancel()  # the neighbour hangs up at the same time
        await asyncio.wait([serving])
        assert not peer.up
        assert host.downs == 1

    run(work)


def test_too_many_control_frames_end_the_link_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_peer, "CONTROL_FRAMES_MAX", 3)

    async def work(host: Host, peer: Peer) -> None:
        wire = Wire()
        serving = asyncio.create_task(peer.serve(wire.read, wire.write, wire.hello()))
        await until(lambda: peer.up)
        wire.open.clear()  # a neighbour that does not read
        for _ in range(30):
            peer.send(LinkSynced(b"s" * 16))
            await asyncio.sleep(0)
        with pytest.raises(LinkEndedError, match="was cut"):
            await asyncio.wait_for(serving, 3)
        assert not peer.up
        assert host.downs == 1

    run(work)


def test_whoever_dialled_may_dial_again_after_its_stream_was_cut() -> None:
    """Cutting a stream once ended the task that dials: the link never came back."""

    async def work(host: Host, peer: Peer) -> None:
        async def dial() -> int:
            for times in range(3):
                wire = Wire()
                wire.inbox.put_nowait(wire.hello())
                with pytest.raises(LinkEndedError):
                    await peer.serve(wire.read, wire.write, None)
                assert not peer.up, times
            return 3

        dialling = asyncio.create_task(dial())
        for times in range(1, 4):
            await until(lambda times=times: peer.up and host.ups == times)  # type: ignore[misc]
            peer.cut()
            await until(lambda times=times: host.downs == times)  # type: ignore[misc]
        assert await dialling == 3

    run(work)


def test_a_caller_takes_the_place_of_its_old_stream_and_a_dialler_does_not() -> None:
    async def work(host: Host, peer: Peer) -> None:
        old, dialled, new = Wire(), Wire(), Wire()
        first = asyncio.create_task(peer.serve(old.read, old.write, old.hello()))
        await until(lambda: host.ups == 1)
        dialled.inbox.put_nowait(dialled.hello())
        with pytest.raises(LinkEndedError, match="called in the meantime"):
            await peer.serve(dialled.read, dialled.write, None)
        assert peer.up
        assert (host.ups, host.downs) == (1, 0)
        second = asyncio.create_task(peer.serve(new.read, new.write, new.hello()))
        await until(lambda: host.ups == 2)
        with pytest.raises(LinkEndedError, match="was cut"):
            await first
        assert peer.up
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert (host.ups, host.downs) == (2, 2)

    run(work)


def test_a_dial_that_finds_nobody_leaves_the_caller_alone() -> None:
    """It once cut the stream of a neighbour that had called, before it knew whether anybody answers."""

    async def work(host: Host, peer: Peer) -> None:
        wire, mute = Wire(), Wire()
        serving = asyncio.create_task(peer.serve(wire.read, wire.write, wire.hello()))
        await until(lambda: peer.up)
        dialling = asyncio.create_task(peer.serve(mute.read, mute.write, None))
        await asyncio.sleep(0.05)
        assert peer.up
        assert host.downs == 0
        for task in (dialling, serving):
            task.cancel()
        await asyncio.gather(dialling, serving, return_exceptions=True)

    run(work)
