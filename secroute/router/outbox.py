"""What waits for one session's ordinary subscriptions: bounded in memory, spilled to disk or cut by policy.

UNTRUSTED side. No clock and no socket; the spill is an object with three methods. Sequence numbers are given when
messages are taken for sending; what was sent is kept until its ack, for a resume.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from secroute.router.parcels import Parcel
from secroute.wire.frames import GapReason, Runs, Slice

Policy = Literal["spill", "slow"]


class Spill(Protocol):
    """A first-in-first-out store of parcels outside memory."""

    nbytes: int

    def push(self, parcel: Parcel) -> None:
        """Append a parcel; raises ``OSError`` if there is no room."""

    def pop(self) -> Parcel | None:
        """The oldest parcel, or nothing."""

    def close(self) -> None:
        """Drop everything."""


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """Bounds of one outbox."""

    queue_bytes: int
    spill_bytes: int
    policy: Policy


@dataclass(slots=True)
class OpenGap:
    """Messages of one scope that were not kept, counted until the session is told."""

    reason: GapReason
    space: bytes
    epoch: int
    messages: int
    first_unix_ms: int
    last_unix_ms: int


@dataclass(slots=True)
class _Sent:
    first: int
    parcel: Parcel
    redelivered: bool = False
    acked: npt.NDArray[np.bool_] | None = None


def fitting(parcel: Parcel, messages: int, nbytes: int) -> int:
    """How many of a parcel's messages a credit covers; the last one may overdraw the bytes."""
    count = min(len(parcel), messages)
    if nbytes <= 0 or count <= 0:
        return 0
    if parcel.nbytes <= nbytes:
        return count
    within = int(np.searchsorted(np.cumsum(parcel.costs()), nbytes, side="left")) + 1
    return min(count, within)


@dataclass(slots=True)
class Outbox:
    """Parcels for one session, oldest first."""

    bounds: OutboxLimits
    spill: Spill
    next_sequence: int = 1
    queued_bytes: int = 0
    queued_messages: int = 0
    sent_bytes: int = 0
    expired: int = 0
    gaps: dict[tuple[bytes, int], OpenGap] = field(default_factory=dict)
    _queue: deque[Parcel] = field(default_factory=deque)
    _sent: deque[_Sent] = field(default_factory=deque)
    _again: deque[_Sent] = field(default_factory=deque)

    @property
    def over(self) -> bool:
        """More waits than the session's share of memory."""
        return self.queued_bytes + self.sent_bytes > self.bounds.queue_bytes

    @property
    def waiting(self) -> bool:
        """Something could be sent, given credit."""
        return bool(self._queue or self._again or self.spill.nbytes)

    def offer(self, parcel: Parcel, unix_ms: int) -> bool:
        """Queue a parcel; false if it did not fit and became part of a gap."""
        size = parcel.nbytes
        spilling = self.bounds.policy == "spill" and (self.spill.nbytes > 0 or self.over)
        if spilling and self.spill.nbytes + size <= self.bounds.spill_bytes and self._spilled(parcel):
            self.queued_messages += len(parcel)
            return True
        # "slow" holds back the publishers' results; their windows, not this bound, are what normally stops them.
        if spilling or (self.over and self.queued_bytes + size > 2 * self.bounds.queue_bytes):
            self._cut(parcel, unix_ms)
            return False
        self._queue.append(parcel if not self.waiting else parcel.own())
        self.queued_bytes += size
        self.queued_messages += len(parcel)
        return True

    def _spilled(self, parcel: Parcel) -> bool:
        """Put on disk; false if there is no room, which makes it part of a gap like any other overflow."""
        try:
            self.spill.push(parcel.own())
        except OSError:
            return False
        return True

    def _cut(self, parcel: Parcel, unix_ms: int) -> None:
        scope = parcel.source.scope
        gap = self.gaps.get((scope.space, scope.epoch))
        if gap is None:
            gap = OpenGap(GapReason.QUEUE_FULL, scope.space, scope.epoch, 0, unix_ms, unix_ms)
            self.gaps[scope.space, scope.epoch] = gap
        gap.messages += len(parcel)
        gap.last_unix_ms = unix_ms

    def take(self, messages: int, nbytes: int, now: float, frame_bytes: int) -> list[Slice]:
        """What to send now within a credit, at most about ``frame_bytes`` of it; numbered and kept until acked."""
        slices: list[Slice] = []
        room = min(nbytes, frame_bytes)
        while messages > 0 and room > 0 and self.sent_bytes <= self.bounds.queue_bytes:
            item = self._next(messages, room, now)
            if item is None:
                break
            self._sent.append(item)
            size = item.parcel.nbytes
            self.sent_bytes += size
            messages -= len(item.parcel)
            room -= size
            runs = ((item.first, len(item.parcel)),)
            slices.append(Slice(item.parcel.own().source, runs, item.redelivered, item.parcel.spooled))
        return slices

    def _next(self, messages: int, room: int, now: float) -> _Sent | None:
        if self._again:
            item = self._again.popleft()
            count = fitting(item.parcel, messages, room)
            if count < len(item.parcel):
                self._again.appendleft(_Sent(item.first + count, item.parcel.part(count, len(item.parcel)), True))
                return _Sent(item.first, item.parcel.part(0, count), True)
            return item
        while (parcel := self._pop()) is not None:
            alive = parcel.fresh(now)
            self.expired += len(parcel) - len(alive)
            if not len(alive):
                continue
            count = fitting(alive, messages, room)
            if count < len(alive):
                rest = alive.part(count, len(alive))
                self._queue.appendleft(rest)
                self.queued_bytes += rest.nbytes
                self.queued_messages += len(rest)
                alive = alive.part(0, count)
            first = self.next_sequence
            self.next_sequence += count
            return _Sent(first, alive)
        return None

    def _pop(self) -> Parcel | None:
        if self._queue:
            parcel = self._queue.popleft()
            self.queued_bytes -= parcel.nbytes
        else:
            spilled = self.spill.pop()
            if spilled is None:
                return None
            parcel = spilled
        self.queued_messages -= len(parcel)
        return parcel

    def ack(self, up_to: int, runs: Runs) -> int:
        """Forget what the client has; returns how many messages that were."""
        done = 0
        while self._sent and self._sent[0].first + len(self._sent[0].parcel) - 1 <= up_to:
            item = self._sent.popleft()
            self.sent_bytes -= item.parcel.nbytes
            done += len(item.parcel) - (0 if item.acked is None else int(item.acked.sum()))
        if self._sent and self._sent[0].first <= up_to:
            runs = ((self._sent[0].first, up_to - self._sent[0].first + 1), *runs)
        return done + (self._ack_runs(runs) if runs else 0)

    def _ack_runs(self, runs: Runs) -> int:
        done = 0
        kept: deque[_Sent] = deque()
        for item in self._sent:
            count = len(item.parcel)
            mask = item.acked if item.acked is not None else np.zeros(count, bool)
            before = int(mask.sum())
            for first, length in runs:
                mask[max(0, first - item.first) : max(0, first + length - item.first)] = True
            done += int(mask.sum()) - before
            if mask.all():
                self.sent_bytes -= item.parcel.nbytes
            else:
                item.acked = mask if mask.any() else None
                kept.append(item)
        self._sent = kept
        return done

    def rewind(self) -> int:
        """After a resume: what was sent without an ack is to be sent again, marked; returns how many messages."""
        again: deque[_Sent] = deque()
        for item in self._sent:
            self.sent_bytes -= item.parcel.nbytes
            for low, high in _open_spans(item):
                again.append(_Sent(item.first + low, item.parcel.part(low, high), True))
        again.extend(self._again)
        self._sent.clear()
        self._again = again
        return sum(len(item.parcel) for item in again)

    def close(self) -> None:
        """Drop everything."""
        self._queue.clear()
        self._sent.clear()
        self._again.clear()
        self.spill.close()
        self.queued_bytes = self.queued_messages = self.sent_bytes = 0


def _open_spans(item: _Sent) -> list[tuple[int, int]]:
    if item.acked is None:
        return [(0, len(item.parcel))]
    edges = np.flatnonzero(np.diff(np.concatenate(([True], item.acked, [True])).astype(np.int8)))
    return [(int(low), int(high)) for low, high in edges.reshape(-1, 2)]
