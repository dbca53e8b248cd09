"""A gateway on a real socket whose behaviour a test decides: it routes by bit inclusion and misbehaves on demand.

The real router is tested with the client in tests/integration; here are the moments that a real router seldom has.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import numpy as np

from secroute.opaque import Words
from secroute.wire import frames
from secroute.wire._generated import gateway_pb2_grpc
from secroute.wire.client_frames import decode_client_frame
from secroute.wire.router_frames import encode_router_frame

LIMITS = frames.SessionLimits(
    frame_bytes_max=1 << 24,
    batch_messages_max=4096,
    publish_window_batches=64,
    publish_window_messages=16384,
    publish_window_bytes=1 << 24,
    subscription_filters_max=1024,
    session_filters_max=100_000,
    keepalive_s=1,
    resume_grace_s=30,
    ttl_ms_max=1 << 40,
)


@dataclass
class ScriptedSession:
    """One stream: what came, and a way to send."""

    gateway: ScriptedGateway
    out: asyncio.Queue[frames.RouterFrame | None] = field(default_factory=asyncio.Queue)
    received: list[frames.ClientFrame] = field(default_factory=list)
    filters: dict[tuple[int, int], Words] = field(default_factory=dict)
    durable: set[int] = field(default_factory=set)
    sequence: int = 0

    def send(self, frame: frames.RouterFrame) -> None:
        self.out.put_nowait(frame)

    def of(self, kind: type) -> list[Any]:
        """All frames of one kind that came."""
        return [frame for frame in self.received if isinstance(frame, kind)]

    def deliver(self, subscription: int, batch: Any, **flags: bool) -> None:
        first, self.sequence = self.sequence + 1, self.sequence + len(batch)
        self.send(frames.Delivery(subscription, (frames.Slice(batch, ((first, len(batch)),), **flags),)))


class ScriptedGateway(gateway_pb2_grpc.GatewayServicer):
    """Listens on a free port of the loopback."""

    def __init__(self) -> None:
        self.sessions: list[ScriptedSession] = []
        self.refuse: list[frames.Problem] = []
        """Problems for the next publish batches, first come first served."""
        self.silent = False
        self.welcome_problem: frames.Problem | None = None
        self.subscribe_problem: frames.Problem | None = None
        self.port = 0
        self._server: Any = None

    async def __aenter__(self) -> ScriptedGateway:
        self._server = grpc.aio.server()
        gateway_pb2_grpc.add_GatewayServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def Session(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:  # noqa: N802
        session = ScriptedSession(self)
        self.sessions.append(session)
        reader = asyncio.create_task(self._read(session, requests))
        try:
            while (frame := await session.out.get()) is not None:
                yield encode_router_frame(frame)
        finally:
            reader.cancel()

    async def _read(self, session: ScriptedSession, requests: AsyncIterator[Any]) -> None:
        async for message in requests:
            frame = decode_client_frame(message)
            session.received.append(frame)
            if not self.silent:
                self._answer(session, frame)
        session.out.put_nowait(None)

    def _answer(self, session: ScriptedSession, frame: frames.ClientFrame) -> None:
        match frame:
            case frames.Hello():
                if self.welcome_problem:
                    session.send(frames.Goodbye(self.welcome_problem))
                    session.out.put_nowait(None)
                    return
                session.send(
                    frames.Welcome(
                        version=1,
                        router_id=bytes(16),
                        session_id=os.urandom(16),
                        resume_token=os.urandom(32),
                        resumed=False,
                        limits=LIMITS,
                        publish_sequence=0,
                    )
                )
            case frames.Subscribe():
                for part in frame.filters:
                    session.filters[frame.subscription, part.scope.epoch] = part.bits
                if frame.durable:
                    session.durable.add(frame.subscription)
                session.send(frames.SubscribeResult(frame.request, frame.subscription, self.subscribe_problem))
            case frames.Unsubscribe():
                session.send(frames.UnsubscribeResult(frame.request, frame.subscription))
            case frames.Publish():
                problem = self.refuse.pop(0) if self.refuse else None
                session.send(frames.PublishResults((frames.PublishResult(frame.sequence, problem),)))
                if problem is None:
                    self.route(frame.batch)
            case frames.Ack():
                if frame.request:
                    session.send(frames.AckResult(frame.request))
            case frames.Ping():
                session.send(frames.Pong(frame.nonce))
            case _:
                pass

    def route(self, batch: Any) -> None:
        """By bit inclusion, to the newest session."""
        session = self.sessions[-1]
        endpoints: dict[int, Any] = {}
        for (number, epoch), rows in session.filters.items():
            if epoch != batch.scope.epoch:
                continue
            hits = ((rows[None] & ~batch.bits[:, None]) == 0).all(axis=2).any(axis=1)
            endpoint = number if number in session.durable else 0
            endpoints[endpoint] = endpoints.get(endpoint, False) | hits
        for endpoint, hits in endpoints.items():
            if hits.any():
                session.deliver(endpoint, batch.take(np.flatnonzero(hits)))
