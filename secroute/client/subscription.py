"""What an application holds of a subscription: an async iterator of messages that it wants, and their acks.

TRUSTED. Only messages that opened, are no repeats and match the predicate exactly come here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from secroute.client.ledger import Key, Ledger, Receipt
from secroute.content import Node, Value, matches
from secroute.errors import ClientError, GapError
from secroute.opaque import Scope
from secroute.wire.frames import Durable, Verdict

if TYPE_CHECKING:
    from secroute.client.client import Client


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that may have concerned a subscription were not kept."""

    reason: str
    """``spool-full``, ``queue-full``, or ``reconnected`` (an ordinary subscription whose session was lost)."""
    messages: int | None
    """How many, at most; None: not known."""
    epoch: int | None
    first_unix_ms: int | None
    last_unix_ms: int | None


class Settlement:
    """One delivery that may have gone to several ordinary subscriptions: done when all of them are."""

    __slots__ = ("_ledger", "_left", "_receipt", "_settled", "key")

    def __init__(self, ledger: Ledger, receipt: Receipt, key: Key, takers: int) -> None:
        self._ledger, self._receipt, self._left = ledger, receipt, takers
        self._settled = False
        self.key = key

    def done(self, verdict: Verdict = Verdict.DONE) -> bool:
        """One taker is done; True if that settled it."""
        if self._settled:
            return False
        self._left -= 1
        if self._left > 0:
            return False
        self._settled = True
        self._ledger.settle(self._receipt, verdict)
        return True

    @property
    def settled(self) -> bool:
        """Whether a verdict was given."""
        return self._settled


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message that the subscription's predicate wants."""

    attributes: Mapping[str, Value]
    payload: bytes
    publisher: bytes
    """The publisher's Ed25519 public key; proved if ``signed``, else claimed by some member."""
    signed: bool
    redelivered: bool
    """It may have been delivered before, to an earlier process."""
    epoch: int
    _subscription: Subscription = field(repr=False)
    _settlement: Settlement = field(repr=False)

    async def ack(self, *, confirmed: bool = False) -> None:
        """Done with it. ``confirmed``: return once the router has committed that (it never comes again)."""
        await self._subscription._verdict(self._settlement, Verdict.DONE, confirmed)

    async def retry(self) -> None:
        """Not done: deliver it again (durable subscriptions)."""
        await self._subscription._verdict(self._settlement, Verdict.RETRY, False)

    async def reject(self) -> None:
        """Not wanted ever: to the dead-letter queue (durable subscriptions)."""
        await self._subscription._verdict(self._settlement, Verdict.DEAD, False)


_log = logging.getLogger("secroute.client")
OnGap = Callable[[Gap], None]
Acknowledge = Callable[[], None]


def _nothing() -> None:
    """There is nobody to tell."""


class Subscription:
    """An active subscription; iterate over it. Leaving its context ends it (a durable one is only detached)."""

    def __init__(
        self,
        client: Client,
        number: int,
        predicate: Node,
        *,
        match_all: bool,
        durable: Durable | None,
        ledger: Ledger,
        on_gap: OnGap | None,
    ) -> None:
        self._client = client
        self.number = number
        self.predicate = predicate
        self.match_all = match_all
        self.durable = durable
        self.ledger = ledger
        self.scopes: set[Scope] = set()
        """Where the router holds filters of ours, as far as we know."""
        self.active: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_gap = on_gap
        self._queue: deque[ReceivedMessage | tuple[Exception, Acknowledge]] = deque()
        self._gaps_seen: set[int] = set()
        self._unsettled: dict[int, Settlement] = {}
        self._arrived = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._client._activate(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        item = self._queue.popleft()
        if isinstance(item, tuple):
            error, acknowledge = item
            acknowledge()
            raise error
        if self.durable is None and item._settlement.done():
            self._client._acks.due(self.ledger)
        return item

    async def next(self, timeout_s: float) -> ReceivedMessage | None:
        """The next message, or None if there is none within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self.__anext__()
        except (TimeoutError, StopAsyncIteration):
            return None

    async def flush(self) -> None:
        """Return once the router has committed every verdict given so far."""
        await self._client._acks.confirm(self.ledger)

    async def close(self, *, delete: bool = False) -> None:
        """End it; ``delete`` also deletes a durable subscription with everything queued for it."""
        if self._closed:
            return
        self._closed = True
        self._arrived.set()
        if self.durable is None:
            for item in self._queue:
                if isinstance(item, ReceivedMessage):
                    item._settlement.done()
        else:
            # What was not settled comes again to whoever attaches next, this process included.
            open_keys = [each.key for each in self._unsettled.values() if not each.settled]
            self.ledger.duplicates.expect_again(open_keys)
        self._queue.clear()
        await self._client._deactivate(self, delete)

    # --- the client's side ---

    def wants(self, attributes: Mapping[str, Value]) -> bool:
        """The exact match."""
        return matches(self.predicate, attributes)

    def offer(self, message: ReceivedMessage) -> None:
        """One message for the application."""
        if self._closed:  # it came while we were leaving: the next handle gets it
            if self.durable is not None:
                self.ledger.duplicates.expect_again([message._settlement.key])
            else:
                message._settlement.done()
            return
        if self.durable is not None:
            self._unsettled[id(message._settlement)] = message._settlement
        self._queue.append(message)
        self._arrived.set()

    def fail(self, error: Exception, acknowledge: Acknowledge = _nothing) -> None:
        """Iteration raises this after what has already come."""
        self._queue.append((error, acknowledge))
        self._arrived.set()

    def gap(self, number: int, gap: Gap, acknowledge: Acknowledge = _nothing) -> None:
        """Messages were not kept: say so, never silently. Acknowledged once the application knows."""
        if number in self._gaps_seen:
            return
        if number:
            self._gaps_seen.add(number)
        if self._on_gap is not None:
            try:
                self._on_gap(gap)
            except Exception:  # the application's; frames are being handled here, and must go on
                _log.exception("on_gap raised")
            acknowledge()
        elif self.durable is not None:
            count = "an unknown number of" if gap.messages is None else f"up to {gap.messages}"
            text = f"{count} messages were not kept for this subscription ({gap.reason})"
            self.fail(GapError(text, gap), acknowledge)

    async def _verdict(self, settlement: Settlement, verdict: Verdict, confirmed: bool) -> None:
        if self.durable is None:
            if verdict is not Verdict.DONE:
                raise ClientError("an ordinary subscription's messages cannot be retried or rejected; use durable=")
            return
        if self._closed:
            raise ClientError("the subscription is closed; the message will come again")
        self._unsettled.pop(id(settlement), None)
        if verdict is Verdict.RETRY:
            self.ledger.duplicates.expect_again([settlement.key])
        settlement.done(verdict)
        if confirmed:
            await self._client._acks.confirm(self.ledger)
        else:
            self._client._acks.due(self.ledger)
