"""The subscriptions of a client and what a router knows of them: asked for, active, under which epochs.

TRUSTED. Every new link is told everything again (or, after a resume, what it lost); a rotation is told as it happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from secroute import limits
from secroute.client.epochs import EpochBook
from secroute.client.link import Link, refusal
from secroute.client.subscription import Gap, Subscription
from secroute.errors import ClientError, ConnectionLostError, SecrouteError
from secroute.opaque import EncodedFilters, Scope
from secroute.wire.frames import Durable, Problem, Subscribe, SubscribeResult, Unsubscribe, UnsubscribeResult

Answered = Callable[[Problem | None], None]


class SubscriptionTable:
    """All subscriptions that the application holds."""

    def __init__(self, book: EpochBook) -> None:
        self._book = book
        self._by_number: dict[int, Subscription] = {}
        self._requests: dict[int, Answered] = {}
        self._next_request = 0
        self._link: Link | None = None

    # --- the application's side ---

    def add(self, subscription: Subscription) -> None:
        """Ask for it, now or as soon as there is a link."""
        self._by_number[subscription.number] = subscription
        self._ask(subscription)

    def discard(self, number: int) -> Subscription | None:
        """Forget it."""
        return self._by_number.pop(number, None)

    def get(self, number: int) -> Subscription | None:
        """One of them."""
        return self._by_number.get(number)

    def all(self) -> list[Subscription]:
        """All of them."""
        return list(self._by_number.values())

    def ordinary(self) -> list[Subscription]:
        """Those that live with the session."""
        return [each for each in self._by_number.values() if each.durable is None]

    def has_durable(self, name: bytes) -> bool:
        """Whether this client is attached to a durable subscription."""
        return any(each.durable is not None and each.durable.name == name for each in self._by_number.values())

    async def leave(self, subscription: Subscription, delete: bool) -> None:
        """Unsubscribe (a durable one is detached, or deleted) and wait for the answer."""
        self.discard(subscription.number)
        if self._link is None:
            raise ConnectionLostError("not connected: the router will notice by itself")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(problem: Problem | None) -> None:
            if not done.done():
                done.set_result(None) if problem is None else done.set_exception(refusal(problem))

        self._link.send(Unsubscribe(self._request(answered), subscription.number, (), delete))
        await done

    # --- the session's side ---

    def attach(self, link: Link, resumed: bool) -> int:
        """A link is up: ask for everything that it does not know; returns how many may have missed something."""
        self._link = link
        missed = 0
        for subscription in self.all():
            was_active = subscription.active.done()
            if subscription.durable is not None or not resumed or not was_active:
                subscription.scopes.clear()
                self._ask(subscription)
                if subscription.durable is None and was_active:
                    missed += 1
                    subscription.gap(0, Gap("reconnected", None, None, None, None))
        return missed

    def detach(self) -> None:
        """The link is down; its questions will not be answered."""
        self._link = None
        requests, self._requests = self._requests, {}
        lost = Problem("connection-lost", "the connection broke before the answer", True)
        for answered in requests.values():
            answered(lost)

    def answer(self, frame: SubscribeResult | UnsubscribeResult) -> None:
        """The router's answer to one request."""
        answered = self._requests.pop(frame.request, None)
        if answered is not None:
            answered(frame.problem)

    def rotate(self) -> None:
        """Take up new epochs and let go of ended ones; raises if the keyring cannot be used."""
        self._book.refresh()
        wanted = set(self._book.scopes())
        for subscription in self.all():
            if self._link is None or not subscription.active.done() or not subscription.scopes:
                continue
            fresh = wanted - subscription.scopes
            if fresh:
                filters = self._book.filters(subscription.predicate, subscription.match_all)
                self._tell(subscription, [part for part in filters if part.scope in fresh], None)
            self._retire(subscription, [scope for scope in subscription.scopes - wanted if self._book.ended(scope)])

    def _retire(self, subscription: Subscription, over: Sequence[Scope]) -> None:
        if over and self._link is not None:
            subscription.scopes -= set(over)
            request = self._request(lambda _: None)
            self._link.send(Unsubscribe(request, subscription.number, tuple(over[: limits.SUBSCRIBE_SCOPES_MAX])))

    def _ask(self, subscription: Subscription) -> None:
        """All filters of a subscription, under every epoch of now."""
        if self._link is None:
            return
        try:
            filters = self._book.filters(subscription.predicate, subscription.match_all)
        except SecrouteError as error:
            failed(subscription, error)
            return
        durable = subscription.durable
        if durable is not None:
            durable = replace(durable, credit=subscription.ledger.attach(same_session=True))
        self._tell(subscription, filters, durable)

    def _tell(self, subscription: Subscription, filters: Sequence[EncodedFilters], durable: Durable | None) -> None:
        scopes = {part.scope for part in filters}

        def answered(problem: Problem | None) -> None:
            if problem is None:
                subscription.scopes |= scopes
                if not subscription.active.done():
                    subscription.active.set_result(None)
            elif problem.code != "connection-lost":  # then the next link is asked
                failed(subscription, refusal(problem))

        request = self._request(answered)
        frame = Subscribe(request, subscription.number, tuple(filters), durable, subscription.match_all)
        if self._link is None:
            raise ClientError("there is no link to subscribe over")
        self._link.send(frame)

    def _request(self, answered: Answered) -> int:
        self._next_request += 1
        self._requests[self._next_request] = answered
        return self._next_request


def failed(subscription: Subscription, error: Exception) -> None:
    """It cannot be, or cannot go on: whoever waits for it or reads it is told."""
    if not subscription.active.done():
        subscription.active.set_exception(error)
    else:
        subscription.fail(error)
