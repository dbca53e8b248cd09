"""Where messages wait: parcels go to sessions, committed entries to durable subscriptions, acks come back.

UNTRUSTED side, event loop only, no gRPC. It also knows which stored batches are still needed, which progress is not yet
on disk, and which publishers a full session holds back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np

from secroute.errors import ProtocolError, StoreError
from secroute.router.commit import Committed
from secroute.router.config import Config
from secroute.router.counters import NodeCounters
from secroute.router.durable_queue import Entry, Taken, runs_of
from secroute.router.durables import DurableRegistry, DurableSubscription
from secroute.router.jobs import Group
from secroute.router.logs import Log
from secroute.router.outbox import fitting
from secroute.router.parcels import Parcel, number_of, take
from secroute.router.session import Attachment, Session
from secroute.router.store import Store, Unit
from secroute.router.stored import GapRow, expiry_of
from secroute.wire.frames import Ack, Credit, Gap, GapAck, Slice, Verdict

_MIB = 1_048_576


def _nothing() -> None:
    return None


class Queues:
    """All queues of a node."""

    def __init__(
        self,
        registry: DurableRegistry,
        sessions: dict[int, Session],
        store: Store,
        counters: NodeCounters,
        log: Log,
        config: Config,
    ) -> None:
        self._registry = registry
        self._sessions = sessions
        self._store = store
        self._counters = counters
        self._log = log
        self.config = config
        self.commit_soon: Callable[[], None] = _nothing
        self.dirty: set[int] = set()
        """Durable subscriptions whose progress is not on disk."""
        self._batch_refs: dict[int, int] = {}
        self._finished: list[int] = []
        self._gaps_noted: list[int] = []
        self._cached_bytes = 0
        self._holding: dict[int, tuple[float, set[int]]] = {}
        """Full session -> (since when, publishers' sessions whose results wait for it)."""

    def adopt(self, batch_refs: dict[int, int], orphans: list[int]) -> None:
        """What recovery found in the store."""
        self._batch_refs = batch_refs
        self._finished.extend(orphans)

    # --- filling -----------------------------------------------------------------------------------------------------

    def spoolers(self, group: Group) -> tuple[int, ...]:
        """Durable subscriptions that get everything of a group's scope."""
        return self._registry.spoolers(group.scope)

    def hand_out(self, groups: list[Group], committed: Committed | None) -> None:
        """Matched (and, if need be, committed) parcels and entries go to their queues."""
        unix_ms = time.time_ns() // 1_000_000
        for group in groups:
            for endpoint, parcel in group.parcels:
                session = self._sessions.get(number_of(endpoint))
                if session is None:
                    continue
                gaps = len(session.outbox.gaps)
                if not session.offer(parcel, unix_ms):
                    self._counters.messages_dropped += len(parcel)
                    if len(session.outbox.gaps) > gaps:
                        self._log.warning("slow-consumer", session=session.session_id, owner=session.owner, gap=True)
                if session.outbox.over and session.outbox.bounds.policy == "slow":
                    self._hold(session, group)
        if committed is not None:
            self._apply(committed, unix_ms)

    def _apply(self, committed: Committed, unix_ms: int) -> None:
        now, woken = time.monotonic(), dict[int, DurableSubscription]()
        for row in committed.rows:
            refs = 0
            for route, parcel in zip(row.routes, row.parcels, strict=True):
                durable = self._registry.get(route.durable)
                if durable is None:
                    continue
                refs += 1
                expires = expiry_of(row.expires_ms, route.rows, now, unix_ms)
                entry = Entry(row.seq, route.first, route.rows, route.nbytes, route.spooled, expires)
                if self._cached_bytes + route.nbytes <= self.config.durable.memory_mib_max * _MIB:
                    self._cached_bytes += route.nbytes
                    entry.parcel = parcel.own()
                durable.append(entry)
                woken[durable.number] = durable
            if refs:
                self._batch_refs[row.seq] = refs
            else:
                self._finished.append(row.seq)
        for gap in committed.gaps:
            self._note_gap(gap)
        for durable in woken.values():
            durable.wake()

    def _note_gap(self, gap: GapRow) -> None:
        self._counters.gaps += 1
        self._log.warning("gap", durable=gap.durable, reason=gap.reason.name, epoch=gap.epoch, messages=gap.messages)
        durable = self._registry.get(gap.durable)
        if durable is None:
            return
        durable.gaps[gap.number] = gap
        for session in self._sessions.values():
            for attachment in session.attachments.values():
                if attachment.durable is durable:
                    session.send(gap_frame(attachment.subscription, gap))

    def entry_finished(self, entry: Entry) -> None:
        """Every message of an entry is done; its batch may be, too."""
        if entry.parcel is not None:
            self._cached_bytes -= entry.nbytes
            entry.parcel = None
        left = self._batch_refs.get(entry.batch, 1) - 1
        if left > 0:
            self._batch_refs[entry.batch] = left
            return
        self._batch_refs.pop(entry.batch, None)
        self._finished.append(entry.batch)
        self.commit_soon()

    # --- sending durable messages ------------------------------------------------------------------------------------

    async def fetch(self, session: Session, attachment: Attachment) -> list[Slice]:
        """The next slices of a durable subscription for a consumer, within its credit and one frame."""
        credit, queue = attachment.credit, attachment.durable.queue
        messages, room = credit.messages, min(credit.bytes, session.frame_bytes)
        slices: list[Slice] = []
        while messages > 0 and room > 0:
            taken = queue.take(session.number, messages, time.monotonic())
            if taken is None:
                break
            try:
                parcel = await self._content(taken)
            except StoreError as error:
                # Left in flight: it comes again after the ack timeout, and in the end goes to the dead letters.
                self._log.error("batch-unreadable", batch=taken.entry.batch, code=error.code, reason=str(error))
                break
            count = fitting(parcel, messages, room)
            if count < len(parcel):
                queue.give_back(taken, count)
                parcel = parcel.part(0, count)
            sequences = runs_of(taken.sequences[:count])
            slices.append(Slice(parcel.own().source, sequences, taken.redelivered, taken.entry.spooled))
            messages -= count
            room -= parcel.nbytes
        self.dirty.add(attachment.durable.number)
        return slices

    async def _content(self, taken: Taken) -> Parcel:
        entry, positions = taken.entry, taken.positions
        if entry.parcel is not None:
            low, high = int(positions[0]), int(positions[-1]) + 1
            return entry.parcel.part(low, high) if high - low == len(positions) else entry.parcel.pick(positions)
        # Far behind: the batch is on disk. Reading one takes about as long as a frame, and the page cache helps.
        loop = asyncio.get_running_loop()
        batch = (await loop.run_in_executor(None, self._store.load, [entry.batch]))[entry.batch]
        return Parcel(take(batch, entry.rows[positions].astype(np.int64)), None)

    # --- acks --------------------------------------------------------------------------------------------------------

    def ack(self, session: Session, frame: Ack) -> None:
        """A consumer's verdict, and perhaps more credit."""
        if frame.subscription == 0:
            if frame.verdict is not Verdict.DONE:
                raise ProtocolError("ordinary deliveries can only be acknowledged")
            self._counters.acks += session.outbox.ack(frame.up_to, frame.runs)
            if not session.outbox.over:
                self.release(session.number)
        elif (attachment := session.attachments.get(frame.subscription)) is not None:
            durable = attachment.durable
            settled = durable.queue.settle(frame.up_to, frame.runs, frame.verdict, session.number)
            self._counters.acks += settled
            self.dirty.add(durable.number)
            if frame.verdict is not Verdict.DONE:
                durable.wake()
        if frame.request:
            session.ack_request = max(session.ack_request, frame.request)
        if frame.request or frame.subscription:
            self.commit_soon()
        if frame.credit_messages or frame.credit_bytes:
            self.credit(session, Credit(frame.subscription, frame.credit_messages, frame.credit_bytes))

    def credit(self, session: Session, frame: Credit) -> None:
        """More may be sent."""
        if frame.subscription == 0:
            session.credit.add(frame.messages, frame.bytes)
        elif (attachment := session.attachments.get(frame.subscription)) is not None:
            attachment.credit.add(frame.messages, frame.bytes)
        session.wake()

    def gap_ack(self, session: Session, frame: GapAck) -> None:
        """A gap has been noted by its owner."""
        attachment = session.attachments.get(frame.subscription)
        if attachment is not None and attachment.durable.gaps.pop(frame.gap, None) is not None:
            self._gaps_noted.append(frame.gap)
            self.commit_soon()

    def take_acks(self) -> tuple[Unit, Callable[[], None]]:
        """Progress to commit, and what to do when it is committed."""
        unit = Unit(finished=self._finished, gaps_noted=self._gaps_noted)
        self._finished, self._gaps_noted = [], []
        for number in self.dirty:
            durable = self._registry.get(number)
            if durable is not None:
                unit.cursors[number] = durable.queue.cursor()
        self.dirty.clear()
        asked = [(s, s.stream, s.ack_request) for s in self._sessions.values() if s.ack_request > s.ack_confirmed]

        def confirm() -> None:
            for session, stream, request in asked:
                if session.stream == stream:
                    session.confirm_acks(request)

        return unit, confirm

    def put_back_acks(self, unit: Unit) -> None:
        """The acks were not committed after all."""
        self.dirty.update(unit.cursors)
        self._finished.extend(unit.finished)
        self._gaps_noted.extend(unit.gaps_noted)

    # --- time, slow consumers ----------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Redeliveries, expiry, and publishers that have been held back long enough."""
        for durable in self._registry:
            queue = durable.queue
            if queue.next_deadline <= now and queue.overdue(now):
                self.dirty.add(durable.number)
                durable.wake()
                self.commit_soon()
            queue.expire(now)
        for number, (since, _) in list(self._holding.items()):
            if now - since > self.config.sessions.slow_timeout_s:
                slow = self._sessions.get(number)
                self._log.warning("slow-consumer", session=slow.session_id if slow else "", gap=False)
                self.release(number)
        self._counters.messages_expired = sum(d.queue.expired for d in self._registry) + sum(
            s.outbox.expired for s in self._sessions.values()
        )
        self._counters.messages_redelivered = sum(d.queue.redelivered for d in self._registry)
        self._counters.messages_dead = sum(d.queue.died for d in self._registry)

    def _hold(self, full: Session, group: Group) -> None:
        since, held = self._holding.setdefault(full.number, (time.monotonic(), set()))
        for job in group.jobs:
            if isinstance(job.publisher, Session) and time.monotonic() - since <= self.config.sessions.slow_timeout_s:
                job.publisher.held_by.add(full.number)
                held.add(job.publisher.number)

    def release(self, number: int) -> None:
        """A session has room again (or is gone): its publishers get their results."""
        _, held = self._holding.pop(number, (0.0, set()))
        for publisher in held:
            session = self._sessions.get(publisher)
            if session is not None:
                session.held_by.discard(number)
                session.wake()


def gap_frame(subscription: int, gap: GapRow) -> Gap:
    """A gap as the consumer hears of it."""
    counts = (gap.messages, gap.first_ms, gap.last_ms)
    return Gap(subscription, gap.number, gap.reason, gap.space, gap.epoch, *counts)
