"""One neighbour: handshake, frames in and out, what is on its way to it. UNTRUSTED side, asyncio, no gRPC.

A link is up after both sides have proved their keys. Frames go out in order: control first, then messages within a
window; every transfer is answered. When the link breaks, what has no answer is handed back to be routed anew.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from secroute import limits
from secroute.errors import FlowError, OverlayError, ProtocolError, SecrouteError, VersionError
from secroute.overlay.linkstate import router_id
from secroute.router.links_forward import Outgoing
from secroute.wire.frames import Problem
from secroute.wire.link_frames import (
    LINK_VERSION,
    LinkFrame,
    LinkGoodbye,
    LinkHello,
    LinkPing,
    LinkProof,
    Transfer,
    TransferResult,
)

HANDSHAKE_S = 5.0
PING_S = 1.0
SILENCE_S = 4.0  # a neighbour that says nothing for so long is gone
LAST_FRAME_S = 1.0  # how long a frame may take to go out when a bad neighbour is to be told why the link ends
RETRY_S = 0.5
LOOSE_BATCHES_MAX = 1_024  # waiting for a slow link before best effort is dropped
CONTROL_FRAMES_MAX = 262_144
_NEVER = float("inf")

F = TypeVar("F", LinkHello, LinkProof)
Read = Callable[[], Awaitable[LinkFrame | None]]
Write = Callable[[LinkFrame], Awaitable[None]]


class LinkEndedError(SecrouteError):
    """The neighbour is gone, or left; nothing is wrong with what it sent."""

    code = "link-ended"


class PeerHost(Protocol):
    """What a neighbour's link needs from its router."""

    name: str
    scheme: str
    key: Ed25519PrivateKey

    def link_up(self, peer: Peer) -> None:
        """The neighbour has proved who it is."""

    def link_down(self, peer: Peer) -> None:
        """It is gone."""

    async def frame(self, peer: Peer, frame: LinkFrame) -> None:
        """A frame other than handshake, ping and results."""

    def delivered(self, outgoing: Outgoing) -> None:
        """The neighbour has it."""

    def refused(self, peer: Peer, outgoing: Outgoing, problem: Problem) -> None:
        """The neighbour will never take it."""


class Peer:
    """A configured neighbour, up or not."""

    def __init__(self, host: PeerHost, name: str, weight: int) -> None:
        self._host = host
        self.name = name
        self.weight = weight
        self.router: bytes | None = None
        """Its id, while the link is up."""
        self.up_since = 0.0
        self.stamp = b""
        """The state of the network that it is in, as it says."""
        self.shunned_until = 0.0
        self.messages_in = self.messages_out = self.messages_dropped = 0
        self.open_in = 0
        """Transfers of the neighbour without an answer."""
        self._control: deque[LinkFrame] = deque()
        self._waiting: deque[Outgoing] = deque()
        self._resting: list[Outgoing] = []
        """Refused for now, to be sent again soon."""
        self._flying: dict[int, Outgoing] = {}
        self._number = 0
        self._wake = asyncio.Event()
        self._heard = 0.0
        self._handling = False
        self._last_frame = False
        """Whether the frame that is being written is the last one."""
        self._stream: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        """Whether frames can be sent."""
        return self.router is not None

    @property
    def queued(self) -> int:
        """Messages waiting or without an answer."""
        return sum(len(out.batch) for out in (*self._waiting, *self._resting, *self._flying.values()))

    def send(self, frame: LinkFrame) -> None:
        """Queue a control frame; without a link there is nobody to tell."""
        if self.up:
            self._control.append(frame)
            if len(self._control) > CONTROL_FRAMES_MAX:
                self.cut()
            self._wake.set()

    def forward(self, outgoing: Outgoing) -> None:
        """Queue messages; the link must be up. Best effort is dropped when too much waits: memory is bounded."""
        if outgoing.kept is None and len(self._waiting) >= LOOSE_BATCHES_MAX:
            self.messages_dropped += len(outgoing.batch)
            return
        self._waiting.append(outgoing)
        self._wake.set()

    def take_back(self) -> list[Outgoing]:
        """Everything without an answer, in order."""
        left = [*self._resting, *self._flying.values(), *self._waiting]
        self._resting.clear()
        self._flying.clear()
        self._waiting.clear()
        return left

    def cut(self) -> None:
        """End the stream, if there is one."""
        if self._stream is not None and not self._stream.cancelling():
            self._stream.cancel()

    # --- a stream ----------------------------------------------------------------------------------------------------

    async def serve(self, read: Read, write: Write, hello: LinkHello | None) -> None:
        """Carry the link over a stream until it ends; ``hello`` is that of a neighbour who called, or None if we did.

        A caller who has proved its key takes the place of a stream that is still there: it has come back before we
        noticed that it was gone. A call of ours does not: the neighbour was quicker.
        """
        async with asyncio.timeout(HANDSHAKE_S):
            router = await self._handshake(read, write, hello)
        while (before := self._stream) is not None:
            if hello is None:
                raise LinkEndedError(f"neighbour {self.name!r} has called in the meantime")
            before.cancel()
            await asyncio.wait([before])
            if self._stream is before:
                self._stream = None
        # A task of its own: whoever cuts the stream must not end the caller, who may want to dial again.
        self._stream = stream = asyncio.create_task(self._carry(router, read, write))
        try:
            await stream
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise LinkEndedError(f"the stream of neighbour {self.name!r} was cut") from None
        finally:
            if self._stream is stream:
                self._stream = None

    async def _carry(self, router: bytes, read: Read, write: Write) -> None:
        tasks: list[asyncio.Task[None]] = []
        try:
            self._begin(router)
            tasks = [asyncio.create_task(work) for work in (self._read(read), self._write(write), self._watch())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and (error := task.exception()) is not None:
                    raise error
        except LinkEndedError:
            raise
        except SecrouteError:
            # The neighbour will be told why. gRPC carries one write at a time and cannot take one back, so the frame
            # at hand goes out whole first.
            self._last_frame = True
            self._wake.set()
            if tasks:
                await asyncio.wait(tasks[1:2], timeout=LAST_FRAME_S)
            raise
        finally:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # even if it is cut again right here: a link that stays "up" without a stream is never dialled
                if self.up:
                    # The graph changes first, so that what comes back is routed without this link.
                    self._host.link_down(self)

    def _begin(self, router: bytes) -> None:
        self.router = router
        self.up_since = self._heard = time.monotonic()
        self._number = self.open_in = 0
        self._control.clear()
        self._last_frame = False
        self.stamp = b""
        self._host.link_up(self)

    async def _handshake(self, read: Read, write: Write, theirs: LinkHello | None) -> bytes:
        host = self._host
        public = host.key.public_key().public_bytes_raw()
        mine = LinkHello(host.name, public, secrets.token_bytes(limits.LINK_NONCE_BYTES), host.scheme)
        await write(mine)
        if theirs is None:
            theirs = await _expect(read, LinkHello)
        self._check(theirs)
        await write(LinkProof(host.key.sign(_proof(theirs.nonce, mine.nonce, public, theirs.public_key))))
        proof = await _expect(read, LinkProof)
        try:
            key = Ed25519PublicKey.from_public_bytes(theirs.public_key)
            key.verify(proof.signature, _proof(mine.nonce, theirs.nonce, theirs.public_key, public))
        except (InvalidSignature, ValueError):
            raise OverlayError(f"neighbour {self.name!r} has not proved the key that it names") from None
        return router_id(theirs.public_key)

    def _check(self, hello: LinkHello) -> None:
        if hello.version != LINK_VERSION:
            raise VersionError(f"link version {LINK_VERSION} here, {hello.version} at neighbour {self.name!r}")
        if hello.name != self.name:
            raise OverlayError(f"neighbour {self.name!r} calls itself {hello.name!r}")
        if hello.scheme != self._host.scheme:
            schemes = f"{self._host.scheme} here, {hello.scheme} at router {self.name!r}"
            raise OverlayError(f"a network uses one routing scheme; {schemes}")
        if router_id(hello.public_key) == router_id(self._host.key.public_key().public_bytes_raw()):
            raise OverlayError(f"neighbour {self.name!r} has this router's own key")

    async def _read(self, read: Read) -> None:
        while (frame := await read()) is not None:
            self._heard = time.monotonic()
            match frame:
                case LinkPing():
                    pass
                case TransferResult():
                    self._answered(frame)
                case LinkGoodbye(problem):
                    raise LinkEndedError(f"neighbour {self.name!r} left: {problem.message if problem else 'no reason'}")
                case LinkHello() | LinkProof():
                    raise ProtocolError("a second handshake")
                case Transfer():
                    self.open_in += 1
                    self.messages_in += len(frame.batch)
                    if self.open_in > limits.TRANSFER_WINDOW:
                        raise FlowError(f"more than {limits.TRANSFER_WINDOW} transfers without an answer")
                    await self._handle(frame)
                case _:
                    await self._handle(frame)

    async def _handle(self, frame: LinkFrame) -> None:
        # While this router is too busy to read, the neighbour is not silent: we do not listen.
        self._handling = True
        try:
            await self._host.frame(self, frame)
        finally:
            self._handling = False
            self._heard = time.monotonic()

    def answer(self, stream: float, number: int, problem: Problem | None) -> None:
        """A transfer of the stream that began at ``stream`` has its result."""
        if self.up and self.up_since == stream:
            self.open_in -= 1
            self.send(TransferResult(number, problem))

    def _answered(self, frame: TransferResult) -> None:
        outgoing = self._flying.pop(frame.number, None)
        self._wake.set()
        if outgoing is None:
            raise ProtocolError(f"a result for transfer {frame.number}, which is not open")
        if frame.problem is None:
            self._host.delivered(outgoing)
        elif frame.problem.retryable:
            self._resting.append(outgoing)
            asyncio.get_running_loop().call_later(RETRY_S, self._rested)
        else:
            self._host.refused(self, outgoing, frame.problem)

    def _rested(self) -> None:
        self._waiting.extend(self._resting)
        self._resting.clear()
        self._wake.set()

    async def _write(self, write: Write) -> None:
        while not self._last_frame:
            self._wake.clear()
            if self._control:
                await write(self._control.popleft())
            elif self._waiting and len(self._flying) < limits.TRANSFER_WINDOW // 2:
                await write(self._transfer(self._waiting.popleft()))
            else:
                await self._wake.wait()

    def _transfer(self, outgoing: Outgoing) -> Transfer:
        self._number += 1
        self._flying[self._number] = outgoing
        self.messages_out += len(outgoing.batch)
        left_ms = 0 if outgoing.expires == _NEVER else max(1, int((outgoing.expires - time.monotonic()) * 1000))
        return Transfer(self._number, outgoing.header, outgoing.mode, left_ms, outgoing.destinations, outgoing.batch)

    async def _watch(self) -> None:
        while self._handling or time.monotonic() - self._heard < SILENCE_S:
            self.send(LinkPing())
            await asyncio.sleep(PING_S)
        raise LinkEndedError(f"neighbour {self.name!r} has been silent for {SILENCE_S:g} s")


async def _expect(read: Read, kind: type[F]) -> F:
    frame = await read()
    if frame is None:
        raise LinkEndedError("the neighbour hung up during the handshake")
    if isinstance(frame, LinkGoodbye):
        reason = frame.problem.message if frame.problem else "no reason"
        raise LinkEndedError(f"the neighbour refused the link: {reason}")
    if not isinstance(frame, kind):
        raise ProtocolError(f"expected a {kind.__name__} frame")
    return frame


def _proof(their_nonce: bytes, own_nonce: bytes, own_key: bytes, their_key: bytes) -> bytes:
    return b"secroute/link/1" + their_nonce + own_nonce + own_key + their_key
