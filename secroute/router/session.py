"""One client session as the node holds it: machine, outbox, subscriptions, credits, frames to send. UNTRUSTED side.

Lives on the event loop. It does no I/O itself: the servicer feeds frames in and sends what ``frames`` yields.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from secroute import limits
from secroute.errors import FlowError, ForbiddenError
from secroute.opaque import EncodedFilters, Scope
from secroute.router.config import ClientRule
from secroute.router.counters import NodeCounters
from secroute.router.durables import DurableSubscription
from secroute.router.machine import Phase, SessionMachine
from secroute.router.outbox import Outbox
from secroute.router.parcels import Kind, Parcel, endpoint_of
from secroute.wire.columns import batch_bytes
from secroute.wire.frames import (
    AckResult,
    Delivery,
    Gap,
    Goodbye,
    PublishResult,
    PublishResults,
    RouterFrame,
    SessionLimits,
    Slice,
)

_RESULTS_A_FRAME = 1_024
CONTROL_FRAMES_MAX = 4_096  # answers that may wait for a client that does not read; beyond it the client is not read


@dataclass(slots=True)
class CreditAccount:
    """What may still be sent for one subscription."""

    messages: int = 0
    bytes: int = 0

    def add(self, messages: int, nbytes: int) -> None:
        """More credit; raises beyond the limit."""
        self.messages += messages
        self.bytes += nbytes
        if self.messages > limits.CREDIT_MESSAGES_MAX or self.bytes > limits.CREDIT_BYTES_MAX:
            most = f"{limits.CREDIT_MESSAGES_MAX} messages and {limits.CREDIT_BYTES_MAX} bytes"
            raise FlowError(f"credit of {self.messages} messages, {self.bytes} bytes; at most {most}")

    @property
    def open(self) -> bool:
        """Something may be sent."""
        return self.messages > 0 and self.bytes > 0


@dataclass(slots=True)
class Attachment:
    """A durable subscription that this session consumes."""

    subscription: int
    durable: DurableSubscription
    credit: CreditAccount


FetchDurable = Callable[["Session", Attachment], Awaitable[list[Slice]]]


def _nothing() -> None:
    return None


@dataclass(slots=True, eq=False)
class Session:
    """The state of one session."""

    number: int
    session_id: bytes
    owner: str
    rule: ClientRule
    machine: SessionMachine
    outbox: Outbox
    bounds: SessionLimits
    counters: NodeCounters
    frame_bytes: int
    began: float
    resume_token: bytes = field(default=b"", repr=False)
    stream: int = 0
    """Counts the streams that carried it; an older stream must not end a newer one's work."""
    subscriptions: dict[int, dict[Scope, EncodedFilters]] = field(default_factory=dict)
    attachments: dict[int, Attachment] = field(default_factory=dict)
    widths: dict[Scope, int] = field(default_factory=dict)
    """Every scope in which it may have filters in a table, noted before they are added."""
    credit: CreditAccount = field(default_factory=CreditAccount)
    commits_pending: int = 0
    filters: int = 0
    messages_in: int = 0
    messages_out: int = 0
    ack_request: int = 0
    """The highest ack request received, and below: those confirmed."""
    ack_confirmed: int = 0
    next_gap: int = 1
    on_stream_end: Callable[[], object] = _nothing
    held_by: set[int] = field(default_factory=set)
    """Sessions whose full outbox holds back this session's results ("slow")."""
    _results: list[PublishResult] = field(default_factory=list)
    _control: deque[RouterFrame] = field(default_factory=deque)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _drained: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def endpoint(self) -> int:
        """Its interface in the engine."""
        return endpoint_of(Kind.SESSION, self.number)

    @property
    def connected(self) -> bool:
        """A stream carries it now."""
        return self.machine.phase is Phase.OPEN

    def require_rights(self) -> None:
        """Raise if its rule no longer allows something that it has subscribed to."""
        spaces = {scope.space for scopes in self.subscriptions.values() for scope in scopes}
        for space in spaces | {attachment.durable.space for attachment in self.attachments.values()}:
            if not self.rule.allows("subscribe", space):
                raise ForbiddenError(f"{self.owner!r} may no longer subscribe in space {space.hex()}")

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.set()

    def send(self, frame: RouterFrame) -> None:
        """Queue a control frame."""
        self._control.append(frame)
        self._wake.set()

    async def room(self, stream: int) -> None:
        """Return once few enough answers wait to be sent on this stream (or it is over)."""
        while len(self._control) > CONTROL_FRAMES_MAX and self.stream == stream and self.connected:
            self._drained.clear()
            await self._drained.wait()

    def settle(self, result: PublishResult) -> None:
        """A published batch has its result."""
        self.machine.settled(result)
        self._results.append(result)
        self._wake.set()

    def offer(self, parcel: Parcel, unix_ms: int) -> bool:
        """A parcel for the ordinary subscriptions."""
        taken = self.outbox.offer(parcel, unix_ms)
        self._wake.set()
        return taken

    def begin_stream(self) -> int:
        """A stream carries the session from now on; whatever waited for the old one is set up anew."""
        self._let_go()
        self.stream += 1
        self._control.clear()
        self._results = list(self.machine.results) if self.stream > 1 else []
        self.credit = CreditAccount()
        self.ack_request = self.ack_confirmed = 0
        self._wake.set()
        return self.stream

    def end_stream(self) -> None:
        """No stream carries it any more."""
        self._let_go()

    def _let_go(self) -> None:
        self.on_stream_end()
        self.on_stream_end = _nothing
        self._wake.set()
        self._drained.set()

    # --- sending -----------------------------------------------------------------------------------------------------

    async def frames(self, stream: int, fetch: FetchDurable, clock: Callable[[], float]) -> AsyncIterator[RouterFrame]:
        """Everything to send on this stream, as it becomes ready: control, results, deliveries."""
        while self.stream == stream:
            self._wake.clear()
            sent = False
            for frame in self._pending_control():
                yield frame
                sent = True
                if isinstance(frame, Goodbye):
                    return
            if self.machine.phase is Phase.OPEN and self.stream == stream:
                async for delivery in self._deliveries(fetch, clock):
                    yield delivery
                    sent = True
            if not sent:
                if self.machine.phase is not Phase.OPEN and not self._control:
                    return
                await self._wake.wait()

    def _pending_control(self) -> list[RouterFrame]:
        frames: list[RouterFrame] = list(self._control)
        self._control.clear()
        self._drained.set()
        if self._results and not self.held_by:
            results, self._results = self._results, []
            frames[:0] = [
                PublishResults(tuple(results[i : i + _RESULTS_A_FRAME]))
                for i in range(0, len(results), _RESULTS_A_FRAME)
            ]
        return frames

    def confirm_acks(self, request: int) -> None:
        """All acks up to this request are committed."""
        if request > self.ack_confirmed:
            self.ack_confirmed = request
            self.send(AckResult(request))

    async def _deliveries(self, fetch: FetchDurable, clock: Callable[[], float]) -> AsyncIterator[RouterFrame]:
        if self.credit.open and self.outbox.waiting:
            slices = self.outbox.take(self.credit.messages, self.credit.bytes, clock(), self.frame_bytes)
            if slices:
                self._spend(self.credit, slices)
                yield Delivery(0, tuple(slices))
        if self.outbox.gaps and self.credit.open:
            for gap in self._gap_frames():
                yield gap
        for attachment in list(self.attachments.values()):
            if attachment.credit.open and attachment.durable.queue.waiting:
                slices = await fetch(self, attachment)
                if slices:
                    self._spend(attachment.credit, slices)
                    yield Delivery(attachment.subscription, tuple(slices))

    def _spend(self, credit: CreditAccount, slices: list[Slice]) -> None:
        messages, size = sum(len(part.batch) for part in slices), sum(batch_bytes(part.batch) for part in slices)
        credit.messages -= messages
        credit.bytes -= size
        self.messages_out += messages
        self.counters.messages_out += messages
        self.counters.bytes_out += size

    def _gap_frames(self) -> list[Gap]:
        frames = []
        for gap in self.outbox.gaps.values():
            counts = (gap.messages, gap.first_unix_ms, gap.last_unix_ms)
            frames.append(Gap(0, self.next_gap, gap.reason, gap.space, gap.epoch, *counts))
            self.next_gap += 1
        self.outbox.gaps.clear()
        return frames
