"""Publishing: messages gather into batches, are encoded and sealed once, and are sent until they have a result.

TRUSTED. Sealed bytes never change, so a batch whose result was lost can be sent again anywhere: routers and
subscribers recognise it. Batches go out in the order of ``put``; a batch that a router refuses for now holds back those
not yet sent (those already under way behind it may overtake it).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from secroute.client.body import encode_body
from secroute.client.epochs import EpochBook
from secroute.client.link import refusal
from secroute.client.options import Options
from secroute.client.stats import ClientStats
from secroute.content import Value
from secroute.errors import ClientError, LimitError, PublishTimeoutError, SecrouteError, place_of
from secroute.opaque import EncodedBatch
from secroute.wire.columns import batch_bytes
from secroute.wire.frames import Mode, Publish, PublishResult, SessionLimits

_log = logging.getLogger("secroute.client")
_PARCELS_AHEAD = 8  # sealed batches that may wait for the window
_OFF_LOOP_MESSAGES = 16  # smaller batches are encoded faster than a thread is woken


@dataclass(slots=True)
class _Item:
    attributes: Mapping[str, Value]
    body: bytes
    mode: Mode
    ttl_ms: int
    done: asyncio.Future[None]
    deadline_s: float


@dataclass(slots=True)
class Parcel:
    """One sealed batch and who waits for it."""

    number: int
    """Rises with the order of packing, which is the order of sending."""
    batch: EncodedBatch
    items: list[_Item] = field(repr=False)

    @property
    def mode(self) -> Mode:
        """What the publisher asked for."""
        return self.items[0].mode

    @property
    def live(self) -> bool:
        """Whether somebody still wants to know."""
        return any(not item.done.done() for item in self.items)


def _resolve(items: Iterable[_Item], error: Exception | None) -> None:
    for item in items:
        if not item.done.done():
            if error is None:
                item.done.set_result(None)
            else:
                item.done.set_exception(error)


class Outbox:
    """Everything between ``publish`` and the router's result."""

    def __init__(self, book: EpochBook, options: Options, stats: ClientStats) -> None:
        self._book, self._options, self._stats = book, options, stats
        self._items: deque[_Item] = deque()
        self._packing: list[_Item] = []
        self._waiting: deque[Parcel] = deque()
        self._inflight: OrderedDict[int, Parcel] = OrderedDict()
        self._inflight_messages = 0
        self._inflight_bytes = 0
        self._next = 1
        self._packed = 0
        self._limits: SessionLimits | None = None
        self._send: Callable[[Publish], None] | None = None
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._held_until_s = 0.0
        self._refusals = 0
        self._paused = False

    # --- the application's side ---

    def put(self, attributes: Mapping[str, Value], payload: bytes, mode: Mode, ttl_ms: int) -> asyncio.Future[None]:
        """Queue one message; the future tells its result."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deadline_s = time.monotonic() + self._options.publish_timeout_s
        self._items.append(_Item(attributes, encode_body(attributes, payload), mode, ttl_ms, done, deadline_s))
        self._changed.set()
        return done

    @property
    def idle(self) -> bool:
        """Nobody waits for a result: everything has one, or was given up."""
        parcels = (*self._waiting, *self._inflight.values())
        return not (self._items or self._packing or any(parcel.live for parcel in parcels))

    async def run(self) -> None:
        """Pack batches for ever."""
        while True:
            while not self._items:
                self._changed.clear()
                await self._changed.wait()
            if len(self._items) < self._options.batch_messages:
                await asyncio.sleep(self._options.linger_s)
            self._packing = self._take()
            await self._pack([item for item in self._packing if not item.done.done()])
            self._packing = []
            while len(self._waiting) > _PARCELS_AHEAD:
                self._room.clear()
                await self._room.wait()

    async def expire(self) -> None:
        """Give up, for ever, on what has waited too long."""
        while True:
            await asyncio.sleep(min(1.0, self._options.publish_timeout_s / 4))
            now = time.monotonic()
            waiting = [item for parcel in (*self._inflight.values(), *self._waiting) for item in parcel.items]
            for item in (*waiting, *self._packing, *self._items):
                if item.deadline_s < now and not item.done.done():
                    item.done.set_exception(PublishTimeoutError("no result within the time allowed"))
                    self._stats.publish_failed += 1
            self._waiting = deque(parcel for parcel in self._waiting if parcel.live)
            self._items = deque(item for item in self._items if not item.done.done())
            self.pump()

    def fail(self, error: Exception) -> None:
        """Nothing will be sent any more."""
        for parcel in (*self._inflight.values(), *self._waiting):
            _resolve(parcel.items, error)
        _resolve((*self._packing, *self._items), error)
        self._packing = []
        self._items.clear()
        self._waiting.clear()
        self._inflight.clear()

    def _take(self) -> list[_Item]:
        """The next items that fit one batch: same mode and time to live."""
        taken: list[_Item] = []
        size = 0
        while self._items and len(taken) < self._options.batch_messages:
            item = self._items[0]
            alike = not taken or (item.mode, item.ttl_ms) == (taken[0].mode, taken[0].ttl_ms)
            if not alike or (taken and size + len(item.body) > self._options.batch_bytes):
                break
            taken.append(self._items.popleft())
            size += len(item.body)
        return taken

    async def _pack(self, live: list[_Item]) -> None:
        if not live:
            return
        messages, bodies = [item.attributes for item in live], [item.body for item in live]
        try:
            if len(live) < _OFF_LOOP_MESSAGES:
                batch = self._book.seal(messages, bodies)
            else:
                batch = await asyncio.to_thread(self._book.seal, messages, bodies)
        except Exception as error:
            if not isinstance(error, SecrouteError):
                _log.error("messages could not be sealed: %s\n%s", type(error).__name__, place_of(error))
                error = ClientError(f"the message could not be sealed ({type(error).__name__})")
            _resolve(live, error)
            self._stats.publish_failed += len(live)
            return
        self._packed += 1
        self._waiting.append(Parcel(self._packed, batch, live))
        self.pump()

    # --- the session's side ---

    def attach(
        self, send: Callable[[Publish], None], session_limits: SessionLimits, resumed: bool, received: int
    ) -> None:
        """A link is up. Resumed: send again what the router did not receive; else everything without a result."""
        self._send, self._limits, self._paused = send, session_limits, False
        if resumed:
            for sequence, parcel in self._inflight.items():
                if sequence > received:
                    self._stats.publish_resent += len(parcel.items)
                    send(Publish(sequence, parcel.mode, parcel.batch, parcel.items[0].ttl_ms))
        else:
            again = [parcel for parcel in self._inflight.values() if parcel.live]
            self._stats.publish_resent += sum(len(parcel.items) for parcel in again)
            self._waiting.extendleft(reversed(again))
            self._inflight.clear()
            self._inflight_messages = self._inflight_bytes = 0
            self._next = 1
        self.pump()

    def detach(self) -> None:
        """The link is down."""
        self._send = None

    def pause(self) -> None:
        """The router drains: send nothing new on this link."""
        self._paused = True

    @property
    def quiet(self) -> bool:
        """Nothing is without a result on this link."""
        return not self._inflight

    def pump(self) -> None:
        """Send what the window allows."""
        while self._waiting and self._send is not None and not self._paused:
            parcel = self._waiting[0]
            if time.monotonic() < self._held_until_s or not self._fits(parcel):
                if not self._inflight and self._limits and not self._fits(parcel):
                    self._waiting.popleft()
                    _resolve(parcel.items, LimitError("a batch is bigger than this router's publish window"))
                    continue
                break
            self._waiting.popleft()
            sequence, self._next = self._next, self._next + 1
            self._inflight[sequence] = parcel
            self._inflight_messages += len(parcel.batch)
            self._inflight_bytes += batch_bytes(parcel.batch)
            self._send(Publish(sequence, parcel.mode, parcel.batch, parcel.items[0].ttl_ms))
        if len(self._waiting) <= _PARCELS_AHEAD:
            self._room.set()

    def _fits(self, parcel: Parcel) -> bool:
        bounds = self._limits
        if bounds is None:
            return False
        return (
            len(self._inflight) < bounds.publish_window_batches
            and self._inflight_messages + len(parcel.batch) <= bounds.publish_window_messages
            and self._inflight_bytes + batch_bytes(parcel.batch) <= bounds.publish_window_bytes
        )

    def result(self, result: PublishResult) -> None:
        """One batch has its result."""
        parcel = self._inflight.pop(result.sequence, None)
        if parcel is None:
            return
        self._inflight_messages -= len(parcel.batch)
        self._inflight_bytes -= batch_bytes(parcel.batch)
        if result.problem is None:
            self._refusals = 0
            self._stats.published += len(parcel.items)
            self._stats.publish_duplicates += result.duplicates
            _resolve(parcel.items, None)
        elif result.problem.retryable and parcel.live:
            self._hold(parcel)
        else:
            self._stats.publish_failed += len(parcel.items)
            _resolve(parcel.items, refusal(result.problem))
        self.pump()

    def _hold(self, parcel: Parcel) -> None:
        """Refused for now: it goes first again, after a pause that grows."""
        self._stats.publish_resent += len(parcel.items)
        self._waiting = deque(sorted((parcel, *self._waiting), key=lambda each: each.number))
        pause_s = min(self._options.backoff_first_s * 2**self._refusals, 1.0)
        self._refusals = min(self._refusals + 1, 16)
        self._held_until_s = time.monotonic() + pause_s
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().call_later(pause_s, self.pump)
