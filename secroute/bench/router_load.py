"""Load for ``secroute bench router``: encoded filters and sealed batches made beforehand, sessions that only shovel.

A message matches exactly two filters, of two different sessions, by three equalities each. Sessions speak the wire
protocol directly, so that the figures are the router's and not the SDK's.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from secroute import limits
from secroute.client import TlsIdentity
from secroute.client.link import Link, refusal
from secroute.content import Message, Node, parse
from secroute.encoding.encoder import Encoder
from secroute.encoding.profile import Profile
from secroute.encoding.seal import SALT_BYTES, Sealer, sealed_length
from secroute.errors import ConnectionLostError
from secroute.keyring import EpochKeys, OwnerKeyring
from secroute.opaque import EncodedBatch, EncodedFilters
from secroute.wire import frames
from secroute.wire.columns import batch_bytes

PAYLOAD_BYTES = 256
_BODY_BYTES = max(n for n in range(PAYLOAD_BYTES) if sealed_length(n) <= PAYLOAD_BYTES)
_ROWS_MAX = 1_000  # filters of one subscription
_CREDIT = (262_144, 128 * 1_048_576)


@dataclass(frozen=True)
class Workload:
    """Everything that is made before the clock starts."""

    keys: EpochKeys
    profile: Profile
    filters: list[list[EncodedFilters]]
    """By session."""
    keys_count: int

    @classmethod
    def make(cls, profile: Profile, filters: int, sessions: int) -> Workload:
        """Encode ``filters`` predicates, dealt out so that both filters of a key are in different sessions."""
        keyring = OwnerKeyring.new("bench", profile, now=time.time())
        keys = keyring.publishing(time.time())
        encoder = Encoder(profile, keys)
        count = filters // 2
        rows, owners = encoder.encode_predicates([_predicate(n) for n in range(count)])
        if len(rows) != count or (np.diff(owners) != 1).any():
            raise AssertionError("every benchmark predicate is one filter")
        parts: list[list[EncodedFilters]] = []
        for session in range(sessions):
            mine = np.concatenate(
                [np.arange(session, count, sessions), np.arange((session + 1) % sessions, count, sessions)]
            )
            chunks = [mine[at : at + _ROWS_MAX] for at in range(0, len(mine), _ROWS_MAX)]
            parts.append([EncodedFilters(keys.scope, np.ascontiguousarray(rows[chunk])) for chunk in chunks])
        return cls(keys, profile, parts, count)

    def batches(self, messages: int, size: int, seed: int) -> list[EncodedBatch]:
        """Sealed batches of fresh messages."""
        rng = np.random.default_rng(seed)
        sealer = Sealer(self.keys.payload_key(), self.keys.scope, publisher=bytes(32), salt=os.urandom(SALT_BYTES))
        encoder = Encoder(self.profile, self.keys)
        chosen = rng.integers(0, self.keys_count, messages).tolist()
        out = []
        body = bytes(_BODY_BYTES)
        for at in range(0, messages, size):
            part = [_message(n) for n in chosen[at : at + size]]
            bits = encoder.encode_messages(part)
            ids = [os.urandom(limits.MESSAGE_ID_BYTES) for _ in part]
            sealed = sealer.seal_batch(ids, bits, [body] * len(part))
            out.append(EncodedBatch.of(self.keys.scope, bits, ids, sealed))
        return out


def _predicate(n: int) -> Node:
    return parse(f"item = {n} AND region = {n % 97} AND kind = {n % 89}")


def _message(n: int) -> Message:
    return Message({"item": n, "region": n % 97, "kind": n % 89, "lane": n % 7, "size": n % 11})


@dataclass
class Reader:
    """One subscribing session that reads as fast as it can and acks everything."""

    link: Link
    delivered: int = 0
    latencies: list[tuple[float, bytes]] = field(default_factory=list)
    """(arrival, first id of the slice) while ``timing`` is on."""
    timing: bool = False
    task: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, target: str, identity: TlsIdentity | None, filters: Sequence[EncodedFilters], durable: bool
    ) -> Reader:
        """Connect and subscribe; returns once every subscription is active."""
        link = Link(target, identity)
        await link.open(frames.Hello(software="bench", credit=frames.Credit(0, *_CREDIT)), 60.0)
        reader = cls(link)
        for number, part in enumerate(filters, 1):
            attach = frames.Durable(os.urandom(16), credit=frames.Credit(number, *_CREDIT)) if durable else None
            link.send(frames.Subscribe(number, number, (part,), attach))
        left = len(filters)
        while left:
            frame = await link.receive()
            if isinstance(frame, frames.SubscribeResult):
                if frame.problem is not None:
                    raise refusal(frame.problem)
                left -= 1
        reader.task = asyncio.create_task(reader.read())
        return reader

    async def read(self) -> None:
        """Read for ever."""
        while True:
            try:
                frame = await self.link.receive()
            except ConnectionLostError:
                return
            if isinstance(frame, frames.Delivery):
                self._delivery(frame)

    def _delivery(self, frame: frames.Delivery) -> None:
        messages = size = 0
        now = time.perf_counter()
        for part in frame.slices:
            messages += len(part.batch)
            size += batch_bytes(part.batch)
            if self.timing and len(part.batch):
                self.latencies.append((now, part.batch.ids[0].tobytes()))
        first, count = frame.slices[-1].sequences[-1]
        self.link.send(frames.Ack(frame.subscription, first + count - 1, credit_messages=messages, credit_bytes=size))
        self.delivered += messages

    async def close(self) -> None:
        """End the session."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.link.close()


class Publisher:
    """One publishing session with a window."""

    def __init__(self, link: Link, bounds: frames.SessionLimits) -> None:
        self.link, self._bounds = link, bounds
        self._next = 1
        self._open: deque[tuple[int, int, int]] = deque()
        self._messages = self._bytes = 0
        self.done = 0
        self.refused = 0
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, target: str, identity: TlsIdentity | None) -> Publisher:
        """Connect."""
        link = Link(target, identity)
        welcome = await link.open(frames.Hello(software="bench"), 60.0)
        return cls(link, welcome.limits)

    async def send(self, batch: EncodedBatch, mode: frames.Mode) -> None:
        """Send one batch as soon as the window allows."""
        size = batch_bytes(batch)
        bounds = self._bounds
        while self._open and (
            len(self._open) >= min(bounds.publish_window_batches, 512)
            or self._messages + len(batch) > min(bounds.publish_window_messages, 16_384)
            or self._bytes + size > bounds.publish_window_bytes // 2
        ):
            self._changed.clear()
            await self._changed.wait()
        self._open.append((self._next, len(batch), size))
        self._messages += len(batch)
        self._bytes += size
        self.link.send(frames.Publish(self._next, mode, batch))
        self._next += 1

    async def settle(self) -> None:
        """Return once everything has a result."""
        while self._open:
            self._changed.clear()
            await self._changed.wait()

    async def _read(self) -> None:
        while True:
            try:
                frame = await self.link.receive()
            except ConnectionLostError:
                return
            if not isinstance(frame, frames.PublishResults):
                continue
            for result in frame.results:
                _, messages, size = self._open.popleft()
                self._messages -= messages
                self._bytes -= size
                self.done += messages
                self.refused += messages if result.problem else 0
            self._changed.set()

    async def close(self) -> None:
        """End the session."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.link.close()


def singles(batches: Sequence[EncodedBatch], count: int) -> list[EncodedBatch]:
    """The first messages of some batches, each as a batch of its own."""
    rows = ((batch, row) for batch in batches for row in range(len(batch)))
    return [batch.take(np.array([row])) for batch, row in islice(rows, count)]
