"""Telling the router what was settled: soon, in few frames, and confirmed where somebody waits for that."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from secroute.client.ledger import Ledger
from secroute.client.link import Link
from secroute.client.options import Options
from secroute.errors import ConnectionLostError
from secroute.wire.frames import Ack


class AckSender:
    """Sends the acks of all ledgers over the link of the moment."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._link: Link | None = None
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._waiters: dict[int, asyncio.Future[None]] = {}
        self._requests = 0

    def attach(self, link: Link) -> None:
        """A link is up."""
        self._link = link

    def detach(self) -> None:
        """The link is down: nobody can tell any more whether unconfirmed acks were committed."""
        self._link = None
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            if not waiter.done():
                waiter.set_exception(ConnectionLostError("the connection broke: the acknowledgement may be lost"))
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def due(self, ledger: Ledger) -> None:
        """Something was settled: tell the router soon, or now if it is much."""
        if ledger.due >= self._options.ack_messages:
            self._send(ledger)
        elif ledger.due and ledger.subscription not in self._timers and self._link is not None:
            loop = asyncio.get_running_loop()
            self._timers[ledger.subscription] = loop.call_later(self._options.ack_linger_s, self._send, ledger)

    async def confirm(self, ledger: Ledger) -> None:
        """Return once the router has committed everything settled so far; raises if the connection breaks."""
        self._requests += 1
        if self._link is None:
            raise ConnectionLostError("not connected: the acknowledgement may be lost")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[self._requests] = waiter
        self._send(ledger, self._requests)
        await waiter

    def confirmed(self, up_to: int) -> None:
        """The router has committed all requests up to this one."""
        for request in [each for each in self._waiters if each <= up_to]:
            waiter = self._waiters.pop(request)
            if not waiter.done():
                waiter.set_result(None)

    def _send(self, ledger: Ledger, request: int = 0) -> None:
        timer = self._timers.pop(ledger.subscription, None)
        if timer is not None:
            timer.cancel()
        if self._link is None:
            return
        acks = ledger.collect() or ([Ack(ledger.subscription)] if request else [])
        for ack in acks[:-1]:
            self._link.send(ack)
        for ack in acks[-1:]:
            self._link.send(replace(ack, request=request))
