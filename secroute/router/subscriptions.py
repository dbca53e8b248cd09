"""What Subscribe and Unsubscribe do: rights, quotas, tables, durable subscriptions. UNTRUSTED side, no gRPC.

Order matters. New filters are added before old ones are removed, so a change never loses a message; a durable
subscription is on disk before it is active; a table knows its filters before the node stops spooling for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from secroute import limits
from secroute.errors import DurableError, EngineError, ForbiddenError, ProtocolError, QuotaError, SecrouteError
from secroute.opaque import EncodedFilters, Scope
from secroute.router.config import ClientRule, Config
from secroute.router.durable_queue import DurableQueue, Entry
from secroute.router.durables import DurableRegistry, DurableSubscription
from secroute.router.scopes import ScopeTables
from secroute.router.session import Attachment, CreditAccount, Session
from secroute.router.store import Store
from secroute.router.stored import DurableRow
from secroute.wire.frames import (
    Detached,
    Durable,
    Gap,
    Problem,
    Subscribe,
    SubscribeResult,
    Unsubscribe,
    UnsubscribeResult,
)

T = TypeVar("T")
OnFilters = Callable[[int, Iterable[EncodedFilters], Iterable[EncodedFilters] | None], None]
"""(endpoint, filters that it asks for now, filters that it gave up; ``None``: all of them)."""


class Subscriptions:
    """Changes to who wants what. Called on the event loop, one change per session at a time."""

    def __init__(
        self,
        tables: ScopeTables,
        registry: DurableRegistry,
        store: Store,
        config: Config,
        on_finished: Callable[[Entry], None],
        sessions: dict[int, Session],
    ) -> None:
        self._tables = tables
        self._registry = registry
        self._store = store
        self.config = config
        self._on_finished = on_finished
        self._sessions = sessions
        self._filters: Counter[str] = Counter()
        self._thread = ThreadPoolExecutor(1, "secroute-control")
        self._durable_lock = asyncio.Lock()
        self.on_filters: OnFilters = lambda endpoint, new, old: None
        """Told of every change, in the control thread, after it was made."""

    def close(self) -> None:
        """Stop the control thread."""
        self._thread.shutdown()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # --- subscribe ----------------------------------------------------------------------------------------------------

    async def subscribe(self, session: Session, frame: Subscribe) -> SubscribeResult:
        """Make or change a subscription."""
        try:
            for part in frame.filters:
                if not session.rule.allows("subscribe", part.scope.space):
                    raise ForbiddenError(f"{session.owner!r} may not subscribe in space {part.scope.space.hex()}")
                self._tables.find(part.scope, part.bits.shape[1])
            if frame.durable is not None or frame.subscription in session.attachments:
                async with self._durable_lock:
                    return await self._subscribe_durable(session, frame)
            return await self._subscribe_ordinary(session, frame)
        except SecrouteError as error:
            return SubscribeResult(frame.request, frame.subscription, Problem.of(error))

    async def _subscribe_ordinary(self, session: Session, frame: Subscribe) -> SubscribeResult:
        known = session.subscriptions.get(frame.subscription, {})
        if not known and len(session.subscriptions) >= limits.SESSION_SUBSCRIPTIONS_MAX:
            raise QuotaError(f"{len(session.subscriptions)} subscriptions, the session's limit")
        old = [known[part.scope] for part in frame.filters if part.scope in known]
        more = sum(map(len, frame.filters)) - sum(map(len, old))
        self._charge(session.owner, more, session.rule)
        session.filters += more
        session.widths.update({part.scope: part.bits.shape[1] for part in frame.filters})
        try:
            await self._swap(session.endpoint, frame.filters, old)
        except SecrouteError:
            self._filters[session.owner] -= more
            session.filters -= more
            raise
        session.subscriptions[frame.subscription] = {**known, **{part.scope: part for part in frame.filters}}
        return SubscribeResult(frame.request, frame.subscription)

    def _charge(self, owner: str, more: int, rule: ClientRule) -> None:
        """Count filters of an owner, those of durable subscriptions included."""
        if more > 0 and self._filters[owner] + more > rule.filters_max:
            raise QuotaError(f"{self._filters[owner] + more} filters, the limit is {rule.filters_max}")
        self._filters[owner] += more

    async def _swap(
        self, endpoint: int, new: tuple[EncodedFilters, ...] | list[EncodedFilters], old: list[EncodedFilters]
    ) -> None:
        await self._in_thread(partial(self._swap_now, endpoint, new, old))

    def _swap_now(
        self, endpoint: int, new: tuple[EncodedFilters, ...] | list[EncodedFilters], old: list[EncodedFilters]
    ) -> None:
        now = time.monotonic()
        # Every table first: a profile or a quota that refuses one scope must not leave the others half changed.
        tables = [self._tables.get(part.scope, part.bits.shape[1], now) for part in new]
        for table, part in zip(tables, new, strict=True):
            table.table.add(endpoint, part.bits)
        for part in old:
            if len(part):
                self._tables.get(part.scope, part.bits.shape[1], now).table.remove(endpoint, part.bits)
        self.on_filters(endpoint, new, old)

    # --- durable ------------------------------------------------------------------------------------------------------

    async def _subscribe_durable(self, session: Session, frame: Subscribe) -> SubscribeResult:
        attached = session.attachments.get(frame.subscription)
        asked = frame.durable
        if asked is not None and attached is not None and attached.durable.name != asked.name:
            raise ProtocolError(f"subscription {frame.subscription} is attached to another durable subscription")
        durable = attached.durable if attached else self._registry.find(session.owner, asked.name) if asked else None
        created = durable is None
        if durable is None:
            if asked is None:
                raise ProtocolError(f"subscription {frame.subscription} is not durable")
            durable = await self._create(session, frame, asked)
        elif frame.filters:
            await self._change(durable, frame.filters, session.rule)
        if attached is None and asked is not None:
            self._attach(session, frame.subscription, durable, asked)
        return SubscribeResult(frame.request, frame.subscription, None, created, tuple(sorted(durable.filters)))

    async def _create(self, session: Session, frame: Subscribe, asked: Durable) -> DurableSubscription:
        if not frame.filters:
            raise DurableError(f"no durable subscription {asked.name.hex()}; filters are needed to make it")
        if len(list(self._registry.owned_by(session.owner))) >= session.rule.durable_max:
            raise QuotaError(f"{session.rule.durable_max} durable subscriptions, the limit")
        space = frame.filters[0].scope.space
        bounds = self.config.durable
        timeout_ms = asked.ack_timeout_ms or int(bounds.ack_timeout_s * 1000)
        row = DurableRow(
            self._registry.next_number, session.owner, asked.name, space, asked.shared, timeout_ms,
            asked.tries_max or bounds.tries_max, (),
        )  # fmt: skip
        self._registry.next_number += 1
        durable = self.restore(row)
        _check_space(durable, frame.filters)
        more = sum(map(len, frame.filters))
        self._charge(session.owner, more, session.rule)
        try:
            await self._prepare(frame.filters)
            await self._in_thread(partial(self._store.put_durable, replace(row, filters=tuple(frame.filters))))
        except SecrouteError:
            self._filters[session.owner] -= more
            raise
        self._registry.add(durable)
        await self._swap(durable.endpoint, frame.filters, [])
        durable.filters = {part.scope.epoch: part for part in frame.filters}
        self._registry.changed()
        return durable

    def restore(self, row: DurableRow) -> DurableSubscription:
        """The object for a stored row, without its entries and not yet in any table."""
        queue = DurableQueue(row.tries_max, row.ack_timeout_ms / 1000, lambda entry: None)
        queue.next_sequence, queue.reached = row.cursor.next_sequence, row.cursor.reached
        durable = DurableSubscription(
            row.number, row.owner, row.name, row.space, row.shared, row.ack_timeout_ms, row.tries_max, queue
        )
        self._filters[row.owner] += sum(map(len, row.filters))
        durable.next_sequence = row.cursor.next_sequence
        durable.gaps = {gap.number: gap for gap in row.gaps}

        def finished(entry: Entry) -> None:
            durable.forget(entry)
            self._on_finished(entry)

        queue.on_finished = finished
        return durable

    async def _prepare(self, filters: tuple[EncodedFilters, ...]) -> None:
        """Make the tables (and pins) of new filters, so that what follows cannot be refused."""
        now = time.monotonic()
        for part in filters:
            await self._in_thread(partial(self._tables.get, part.scope, part.bits.shape[1], now))

    async def _change(
        self, durable: DurableSubscription, filters: tuple[EncodedFilters, ...], rule: ClientRule
    ) -> None:
        _check_space(durable, filters)
        merged = {**durable.filters, **{part.scope.epoch: part for part in filters}}
        row = replace(durable.row(), filters=tuple(merged.values()))
        old = [durable.filters[part.scope.epoch] for part in filters if part.scope.epoch in durable.filters]
        more = sum(map(len, filters)) - sum(map(len, old))
        self._charge(durable.owner, more, rule)
        try:
            await self._prepare(filters)
            await self._in_thread(partial(self._store.put_durable, row))
        except SecrouteError:
            self._filters[durable.owner] -= more
            raise
        await self._swap(durable.endpoint, filters, old)
        durable.filters = merged
        self._registry.changed()

    def _attach(self, session: Session, subscription: int, durable: DurableSubscription, asked: Durable) -> None:
        if subscription in session.subscriptions:
            raise ProtocolError(f"subscription {subscription} is an ordinary one")
        for number in list(durable.consumers):
            if number == session.number:
                raise DurableError("this session is attached already")
            if not (durable.shared and asked.shared):
                taker = DurableError("another session of the same owner took over")
                self._detach(self._sessions.get(number), durable, Problem.of(taker))
        credit = CreditAccount()
        credit.add(asked.credit.messages, asked.credit.bytes)
        session.attachments[subscription] = Attachment(subscription, durable, credit)
        durable.consumers[session.number] = session.wake
        for gap in durable.gaps.values():
            counts = (gap.messages, gap.first_ms, gap.last_ms)
            session.send(Gap(subscription, gap.number, gap.reason, gap.space, gap.epoch, *counts))

    def _detach(self, session: Session | None, durable: DurableSubscription, problem: Problem | None) -> None:
        if session is None:
            return
        durable.consumers.pop(session.number, None)
        durable.queue.leave(session.number)
        for subscription, attachment in list(session.attachments.items()):
            if attachment.durable is durable:
                del session.attachments[subscription]
                if problem is not None:
                    session.send(Detached(subscription, problem))
        durable.wake()

    def detach_all(self, session: Session) -> None:
        """The session's stream is gone: its durable subscriptions wait for somebody else."""
        for attachment in list(session.attachments.values()):
            self._detach(session, attachment.durable, None)

    # --- unsubscribe --------------------------------------------------------------------------------------------------

    async def unsubscribe(self, session: Session, frame: Unsubscribe) -> UnsubscribeResult:
        """Drop a subscription or some of its scopes."""
        try:
            attachment = session.attachments.get(frame.subscription)
            if attachment is not None:
                async with self._durable_lock:
                    await self._unsubscribe_durable(session, attachment.durable, frame)
            elif frame.subscription in session.subscriptions:
                await self._unsubscribe_ordinary(session, frame)
            else:
                raise ProtocolError(f"no subscription {frame.subscription}")
        except SecrouteError as error:
            return UnsubscribeResult(frame.request, frame.subscription, Problem.of(error))
        return UnsubscribeResult(frame.request, frame.subscription)

    async def _unsubscribe_ordinary(self, session: Session, frame: Unsubscribe) -> None:
        known = session.subscriptions[frame.subscription]
        scopes = frame.scopes or tuple(known)
        old = [known[scope] for scope in scopes if scope in known]
        await self._swap(session.endpoint, [], old)
        self._charge(session.owner, -sum(map(len, old)), session.rule)
        session.filters -= sum(map(len, old))
        left = {scope: part for scope, part in known.items() if scope not in scopes}
        if left:
            session.subscriptions[frame.subscription] = left
        else:
            del session.subscriptions[frame.subscription]

    async def _unsubscribe_durable(self, session: Session, durable: DurableSubscription, frame: Unsubscribe) -> None:
        if frame.delete_durable:
            await self._delete(durable)
        elif frame.scopes:
            known = [durable.filters[s.epoch] for s in frame.scopes if s.epoch in durable.filters]
            nothing = tuple(_nothing(part.scope, part.bits.shape[1]) for part in known)
            await self._change(durable, nothing, session.rule)
        else:
            self._detach(session, durable, None)

    async def delete_durable(self, owner: str, name: bytes) -> int:
        """Delete a durable subscription with everything that waits in it; returns how many messages that were."""
        async with self._durable_lock:
            return await self._delete(self._registry.require(owner, name))

    async def _delete(self, durable: DurableSubscription) -> int:
        gone = DurableError(f"durable subscription {durable.name.hex()} was deleted")
        for number in list(durable.consumers):
            self._detach(self._sessions.get(number), durable, Problem.of(gone))
        await self._in_thread(partial(self._store.drop_durable, durable.number))
        await self._swap(durable.endpoint, [], list(durable.filters.values()))
        self._filters[durable.owner] -= sum(map(len, durable.filters.values()))
        self._registry.remove(durable)
        queue = durable.queue
        dropped = queue.queued + queue.flying + queue.dead
        for entry in queue.entries():
            self._on_finished(entry)
        return dropped

    async def forget_session(self, session: Session) -> None:
        """The session is over: its filters go, its durable subscriptions stay."""
        self.detach_all(session)
        session.subscriptions.clear()
        self._filters[session.owner] -= session.filters
        session.filters = 0
        # The control thread works in order: a change that is still under way there comes before this.
        await self._in_thread(partial(self._remove_endpoint, session.endpoint, dict(session.widths)))

    def _remove_endpoint(self, endpoint: int, widths: dict[Scope, int]) -> None:
        for scope, words in widths.items():
            known = self._tables.find(scope, words)
            if known is not None:
                with suppress(EngineError):  # it has no filters there any more
                    known.table.remove_interface(endpoint)
        self.on_filters(endpoint, (), None)


def _nothing(scope: Scope, words: int) -> EncodedFilters:
    return EncodedFilters(scope, np.zeros((0, words), np.uint64))


def _check_space(durable: DurableSubscription, filters: tuple[EncodedFilters, ...]) -> None:
    for part in filters:
        if part.scope.space != durable.space:
            raise DurableError(f"a durable subscription stays in its space, {durable.space.hex()}")
