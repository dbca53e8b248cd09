"""One connection to one router: frames out, frames in, keep-alive. Knows gRPC and nothing about content.

A link is made once and ends once; who wants another one opens another one. Writing never blocks the caller: what may
be under way is bounded by the publish window and by credits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Any

import grpc
import grpc.aio

from secroute import __version__, limits
from secroute.client.identity import TlsIdentity
from secroute.errors import ConnectionLostError, RefusedError, SecrouteError, VersionError, place_of
from secroute.wire._generated import gateway_pb2_grpc
from secroute.wire.client_frames import encode_client_frame
from secroute.wire.frames import ClientFrame, Goodbye, Hello, Ping, Pong, Problem, RouterFrame, Welcome
from secroute.wire.router_frames import decode_router_frame

_log = logging.getLogger("secroute.client")
_GOODBYE_S = 2.0  # how long a router may take to read the last frames

SOFTWARE = f"secroute-python/{__version__}"
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", limits.FRAME_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),  # every link its own TCP connection, so that one stall is one link's
    ("grpc.enable_retries", 0),
]

_GONE = (grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


def refusal(problem: Problem) -> RefusedError:
    """A router's problem as our error."""
    return RefusedError(problem.code, problem.message, problem.retryable)


class Link:
    """A session's stream over one connection."""

    def __init__(self, target: str, identity: TlsIdentity | None) -> None:
        self.target = target
        self._channel: Any = (
            grpc.aio.insecure_channel(target, _CHANNEL_OPTIONS)
            if identity is None
            else grpc.aio.secure_channel(target, identity.credentials(), _CHANNEL_OPTIONS)
        )
        self._stub: Any = gateway_pb2_grpc.GatewayStub(self._channel)  # type: ignore[no-untyped-call]
        self._call: Any = None
        self._out: deque[ClientFrame] = deque()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._heard_s = time.monotonic()

    async def open(self, hello: Hello, timeout_s: float) -> Welcome:
        """Say hello; returns the router's welcome or raises why there is none. The caller closes the link."""
        try:
            async with asyncio.timeout(timeout_s):
                self._call = self._stub.Session(wait_for_ready=True)
                await self._call.write(encode_client_frame(hello))
                first = await self.receive()
        except TimeoutError:
            raise ConnectionLostError(f"{self.target}: no answer within {timeout_s:g} s") from None
        except _GONE as error:
            raise _lost(self.target, error) from None
        if isinstance(first, Goodbye):
            raise refusal(first.problem or Problem("protocol", "the router said goodbye at once"))
        if not isinstance(first, Welcome):
            raise RefusedError("protocol", f"the router's first frame is {type(first).__name__}, not a welcome")
        if not hello.version_min <= first.version <= hello.version_max:
            raise VersionError(f"{self.target}: the router chose version {first.version}, which we do not speak")
        self._tasks = [
            asyncio.create_task(self._write()),
            asyncio.create_task(self._keep_alive(max(first.limits.keepalive_s, 1))),
        ]
        return first

    def send(self, frame: ClientFrame) -> None:
        """Queue one frame."""
        self._out.append(frame)
        self._wake.set()

    async def receive(self) -> RouterFrame:
        """The next frame of the router; pings are answered here. Raises ``ConnectionLostError`` at the end."""
        while True:
            try:
                message = await self._call.read()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # gRPC says so when the call itself was cancelled, by our own watch or writer.
                raise ConnectionLostError(f"{self.target}: the stream was given up") from None
            except _GONE as error:
                raise _lost(self.target, error) from None
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]
                raise ConnectionLostError(f"{self.target}: {await self._ended()}")
            self._heard_s = time.monotonic()
            if message is None:  # what gRPC makes of bytes that do not parse
                raise ConnectionLostError(f"{self.target}: the router sent something that is not a frame")
            try:
                frame = decode_router_frame(message)
            except SecrouteError as error:
                raise ConnectionLostError(f"{self.target}: the router sent a bad frame: {error}") from None
            if isinstance(frame, Ping):
                self.send(Pong(frame.nonce))
            elif not isinstance(frame, Pong):
                return frame

    async def ask(self, method: str, request: Any, timeout_s: float) -> Any:
        """One question outside the stream; raises what the router answers."""
        try:
            return await getattr(self._stub, method)(request, timeout=timeout_s)
        except grpc.aio.AioRpcError as error:
            code, colon, text = (error.details() or "").partition(": ")
            if error.code() in _UNREACHABLE or not colon:
                raise _lost(self.target, error) from None
            raise RefusedError(code, text) from None

    async def close(self, goodbye: bool = False) -> None:
        """End the stream; with ``goodbye`` everything queued is sent first and the session ends for good."""
        try:
            if goodbye and self._tasks:
                self.send(Goodbye())
                await asyncio.wait(self._tasks[:1], timeout=_GOODBYE_S)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        finally:
            if self._call is not None:
                self._call.cancel()
            await self._channel.close()

    async def _write(self) -> None:
        try:
            while True:
                while self._out:
                    frame = self._out.popleft()
                    await self._call.write(encode_client_frame(frame))
                    if isinstance(frame, Goodbye):
                        await self._call.done_writing()
                        return
                self._wake.clear()
                await self._wake.wait()
        except _GONE:
            pass  # the reader says that the link is lost
        except Exception as error:
            # Without a writer the link is mute; the reader must not wait for answers that cannot come.
            _log.error("%s: a frame could not be sent: %s\n%s", self.target, type(error).__name__, place_of(error))
            self._call.cancel()

    async def _keep_alive(self, keepalive_s: float) -> None:
        while True:
            await asyncio.sleep(keepalive_s / 2)
            self.send(Ping())
            if time.monotonic() - self._heard_s > 2 * keepalive_s:
                self._call.cancel()  # half open: nothing came back for too long
                return

    async def _ended(self) -> str:
        code = await self._call.code()
        detail = await self._call.details()
        return "the router closed the session" if code is grpc.StatusCode.OK else f"{code.name.lower()}: {detail}"


def _lost(target: str, error: BaseException) -> ConnectionLostError:
    if isinstance(error, grpc.aio.AioRpcError):
        return ConnectionLostError(f"{target}: {error.code().name.lower()}: {error.details()}")
    return ConnectionLostError(f"{target}: the stream has ended")
