"""From matched groups to one transaction: duplicates out, quotas, numbers, rows to store. UNTRUSTED side.

Runs in the store's thread, one unit at a time. Per batch and per endpoint, never per message. If the disk refuses, the
unit is as if it had never been: numbers and guard are set back, and every job of it is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from secroute.errors import QueueFullError, StoreError
from secroute.router.config import DurableConfig
from secroute.router.durables import DurableRegistry, DurableSubscription
from secroute.router.guard import DuplicateGuard, Keys, keys_of
from secroute.router.jobs import Group
from secroute.router.parcels import Ints, Kind, Parcel, Routes, number_of, parcels, take
from secroute.router.store import Store, Unit
from secroute.router.stored import BatchRow, GapRow, Route
from secroute.wire.frames import GapReason, Mode

_MIB = 1_048_576


@dataclass(slots=True)
class Committed:
    """What a unit changed, for the event loop to apply."""

    rows: list[BatchRow] = field(default_factory=list)
    gaps: list[GapRow] = field(default_factory=list)
    error: StoreError | None = None
    acks_committed: bool = True


class Committer:
    """The store's side of the pipeline."""

    def __init__(self, store: Store, guard: DuplicateGuard, registry: DurableRegistry, bounds: DurableConfig) -> None:
        self._store = store
        self._guard = guard
        self._registry = registry
        self.bounds = bounds
        self.next_batch = 1
        self.next_gap = 1
        self._forget_before = 0

    def commit(self, groups: list[Group], acks: Unit, unix_ms: int) -> Committed:
        """Commit groups and acks together. If the disk refuses, at least try the acks: they free space."""
        mark = (self.next_batch, self.next_gap, self._guard.next_segment)
        numbers = {d.number: d.next_sequence for d in self._registry}
        done = Committed()
        unit = Unit(cursors=acks.cursors, finished=acks.finished, gaps=list(acks.gaps), gaps_noted=acks.gaps_noted)
        unit.forget_seen_before = self._forget_before
        try:
            for group in groups:
                self._prepare(group, unit, done, unix_ms)
            if unit:
                self._store.commit(unit)
            self._forget_before = self._guard.committed(unix_ms)
        except StoreError as error:
            self._guard.failed()
            self.next_batch, self.next_gap, self._guard.next_segment = mark
            for number, sequence in numbers.items():
                durable = self._registry.get(number)
                if durable is not None:
                    durable.next_sequence = sequence
            return self._only_acks(acks, groups, error)
        return done

    def _only_acks(self, acks: Unit, groups: list[Group], error: StoreError) -> Committed:
        for group in groups:
            group.refuse(error)
            group.parcels = []
        failed = Committed(error=error)
        try:
            if acks and groups:
                self._store.commit(acks)
            else:
                failed.acks_committed = not acks
        except StoreError:
            failed.acks_committed = False
        return failed

    # --- one group ---------------------------------------------------------------------------------------------------

    def _prepare(self, group: Group, unit: Unit, done: Committed, unix_ms: int) -> None:
        if not group.jobs or group.batch is None or group.routes is None:
            return
        batch, job_of_row = group.batch, group.job_of_row()
        guarded = np.repeat([job.mode is Mode.AT_LEAST_ONCE for job in group.jobs], [len(j.batch) for j in group.jobs])
        keep = np.ones(len(batch), bool)
        keys: Keys | None = None
        names: list[bytes] = []
        if guarded.any():
            keys = keys_of(batch)
            duplicate, names = self._guard.check(keys)
            keep &= ~(duplicate & guarded)
            for index, count in enumerate(np.bincount(job_of_row[~keep], minlength=len(group.jobs)).tolist()):
                group.jobs[index].duplicates = count
        routes, gaps = self._within_quotas(group, keep, job_of_row, unix_ms)
        if keys is not None and (guarded & keep).any():
            rows = np.flatnonzero(guarded & keep)
            segment, data = self._guard.take(keys[rows], [names[row] for row in rows.tolist()])
            unit.seen.append((segment, unix_ms, data))
        unit.gaps.extend(gaps)
        done.gaps.extend(gaps)
        expires = group.expires()
        group.parcels = parcels(batch, routes.of_kind(Kind.SESSION), expires)
        durable = routes.of_kind(Kind.DURABLE)
        if len(durable):
            row = self._row(group, durable, unix_ms)
            unit.batches.append(row)
            done.rows.append(row)

    def _within_quotas(
        self, group: Group, keep: npt.NDArray[np.bool_], job_of_row: Ints, unix_ms: int
    ) -> tuple[Routes, list[GapRow]]:
        """Routes of the rows that stay (``keep`` is narrowed for refused batches), and gaps where a quota was hit."""
        assert group.routes is not None  # noqa: S101 - for the type checker
        gaps: list[GapRow] = []
        cut: set[int] = set()
        matched = group.routes.keep_rows(keep)
        for index, endpoint in enumerate(matched.endpoints.tolist()):
            durable = self._registry.get(number_of(endpoint)) if endpoint & 3 == Kind.DURABLE else None
            rows = matched.rows_of(index)
            if durable is None or self._fits(durable, len(rows)):
                continue
            best_effort = [job.mode is Mode.BEST_EFFORT for job in group.jobs]
            if self.bounds.overflow == "gap" or all(best_effort[job] for job in np.unique(job_of_row[rows])):
                cut.add(endpoint)
                gaps.append(self._gap(durable, group, GapReason.QUEUE_FULL, len(rows), unix_ms))
                continue
            full = QueueFullError(f"the queue of durable subscription {durable.name.hex()} is full")
            for job in np.unique(job_of_row[rows]).tolist():
                group.jobs[job].refuse(full)
                group.jobs[job].duplicates = 0
                keep[job_of_row == job] = False
        return self._with_spools(group, keep, cut, gaps, unix_ms), gaps

    def _fits(self, durable: DurableSubscription, count: int) -> bool:
        queue = durable.queue
        ahead = durable.next_sequence - queue.next_sequence
        waiting = queue.queued + queue.flying + queue.dead + ahead
        return waiting + count <= self.bounds.queue_messages_max and queue.nbytes <= self.bounds.queue_mib_max * _MIB

    def _with_spools(
        self, group: Group, keep: npt.NDArray[np.bool_], cut: set[int], gaps: list[GapRow], unix_ms: int
    ) -> Routes:
        assert group.routes is not None  # noqa: S101 - for the type checker
        routes = group.routes.keep_rows(keep)
        rows, endpoints = routes.rows, np.repeat(routes.endpoints, np.diff(routes.starts))
        if cut:
            stays = ~np.isin(endpoints, list(cut))
            rows, endpoints = rows[stays], endpoints[stays]
        everything = np.flatnonzero(keep)
        for number in group.spoolers if len(everything) else ():
            durable = self._registry.get(number)
            if durable is None:
                continue
            bounds = self.bounds
            fits = durable.spooled_messages + len(everything) <= bounds.spool_messages_max
            if fits and durable.spooled_bytes <= bounds.spool_mib_max * _MIB:
                # Its filters may have become active while this group was matched: everything covers that.
                stays = endpoints != durable.endpoint
                rows, endpoints = rows[stays], endpoints[stays]
                rows = np.concatenate((rows, everything))
                endpoints = np.concatenate((endpoints, np.full(len(everything), durable.endpoint)))
            else:
                gaps.append(self._gap(durable, group, GapReason.SPOOL_FULL, len(everything), unix_ms))
        return Routes.of(rows, endpoints) if cut or group.spoolers else routes

    def _gap(
        self, durable: DurableSubscription, group: Group, reason: GapReason, messages: int, unix_ms: int
    ) -> GapRow:
        scope = group.scope
        for old in durable.gaps.values():
            if (old.reason, old.epoch) == (reason, scope.epoch):
                total = old.messages + messages
                return GapRow(
                    old.number, durable.number, reason, scope.space, scope.epoch, total, old.first_ms, unix_ms
                )
        number = self.next_gap
        self.next_gap += 1
        return GapRow(number, durable.number, reason, scope.space, scope.epoch, messages, unix_ms, unix_ms)

    def _row(self, group: Group, routes: Routes, unix_ms: int) -> BatchRow:
        """The part of the batch that durable subscriptions need, and who gets which rows of it."""
        batch = group.batch
        assert batch is not None  # noqa: S101 - for the type checker
        needed = np.zeros(len(batch), bool)
        needed[routes.rows] = True
        stored = batch if needed.all() else take(batch, np.flatnonzero(needed))
        where = (np.cumsum(needed) - 1).astype(np.int32)
        expires = group.expires()
        made: list[Route] = []
        kept: list[Parcel] = []
        for index, (endpoint, parcel) in enumerate(parcels(batch, routes, expires)):
            durable = self._registry.get(number_of(endpoint))
            if durable is None:
                continue
            spooled = durable.number in group.spoolers
            parcel.spooled = spooled
            rows = where[routes.rows_of(index)]
            made.append(Route(durable.number, durable.next_sequence, spooled, rows, parcel.nbytes))
            durable.next_sequence += len(rows)
            kept.append(parcel)
        seq = self.next_batch
        self.next_batch += 1
        return BatchRow(seq, stored, made, _wall_clock(expires, needed, unix_ms), kept)


def _wall_clock(expires: npt.NDArray[np.float64] | None, needed: npt.NDArray[np.bool_], unix_ms: int) -> bytes | None:
    """Expiry as unix milliseconds: the monotonic clock means nothing to the next process."""
    if expires is None:
        return None
    left_ms = np.minimum((expires[needed] - time.monotonic()) * 1000, 2.0**62)
    return (unix_ms + left_ms).astype("<i8").tobytes()
