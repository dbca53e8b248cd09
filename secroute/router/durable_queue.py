"""The queue of one durable subscription: what is ready, in flight, done and dead. UNTRUSTED side, no I/O, no clock.

Messages are numbered for the subscription's lifetime. They come in *entries*, one per stored batch, each with a column
of states; every operation works on spans of an entry. The content is in the store (and, while fresh, in a parcel).
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from secroute.router.parcels import Expiry, Ints, Parcel
from secroute.wire.frames import Runs, Verdict

READY, FLYING, DONE, DEAD = range(4)
ENTRY_OVERHEAD_BYTES = 512  # an entry of a single message costs about this much memory beside its content


@dataclass(slots=True)
class Entry:
    """The messages of one stored batch that this subscription gets."""

    batch: int
    first: int
    rows: npt.NDArray[np.int32]
    """Rows of the stored batch."""
    nbytes: int
    spooled: bool = False
    expires: Expiry | None = None
    parcel: Parcel | None = None
    states: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    tries: npt.NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    flights: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    done: int = 0
    recovered: bool = False
    """Read back after a crash: it may have been delivered before."""

    def __post_init__(self) -> None:
        if not len(self.states):
            self.states = np.zeros(len(self.rows), np.uint8)
            self.tries = np.zeros(len(self.rows), np.uint16)
            self.flights = np.zeros(len(self.rows), np.int64)

    @property
    def end(self) -> int:
        """The number after the last one."""
        return self.first + len(self.rows)


@dataclass(frozen=True, slots=True)
class Taken:
    """Messages to send: positions within an entry."""

    entry: Entry
    positions: Ints
    redelivered: bool

    @property
    def sequences(self) -> Ints:
        """Their numbers."""
        return self.positions + self.entry.first


@dataclass(slots=True)
class _Flight:
    number: int
    deadline: float
    entry: Entry
    low: int
    high: int


@dataclass(slots=True)
class DurableQueue:
    """All entries that are not done, oldest first."""

    tries_max: int
    ack_timeout_s: float
    on_finished: Callable[[Entry], None]
    """Called when every message of an entry is done: the store may forget it."""
    next_sequence: int = 1
    reached: int = 0
    """The highest number ever sent; above it everything is open."""
    queued: int = 0
    flying: int = 0
    dead: int = 0
    nbytes: int = 0
    expired: int = 0
    redelivered: int = 0
    died: int = 0
    _entries: list[Entry] = field(default_factory=list)
    _firsts: list[int] = field(default_factory=list)
    _fresh: deque[tuple[Entry, int]] = field(default_factory=deque)
    _again: deque[tuple[Entry, Ints]] = field(default_factory=deque)
    _flights: dict[int, deque[_Flight]] = field(default_factory=dict)
    _flight_number: int = 0

    # --- filling and taking ----------------------------------------------------------------------------------------

    def append(self, entry: Entry) -> None:
        """A new entry; its numbers follow the last one's."""
        self._entries.append(entry)
        self._firsts.append(entry.first)
        self.next_sequence = max(self.next_sequence, entry.end)
        waiting = int((entry.states == READY).sum())
        self.queued += waiting
        self.dead += int((entry.states == DEAD).sum())
        entry.done = int((entry.states == DONE).sum())
        self.nbytes += entry.nbytes + ENTRY_OVERHEAD_BYTES
        if waiting == len(entry.rows) and not entry.tries.any():
            self._fresh.append((entry, 0))
        elif waiting:
            self._again.append((entry, np.flatnonzero(entry.states == READY)))

    @property
    def waiting(self) -> bool:
        """Something could be sent."""
        return bool(self._again or self._fresh)

    def take(self, consumer: int, messages: int, now: float) -> Taken | None:
        """The next messages for a consumer: redeliveries first, then in order; at most those of one entry."""
        while messages > 0:
            if self._again:
                entry, positions = self._again.popleft()
                positions = positions[entry.states[positions] == READY]
                if len(positions) > messages:
                    self._again.appendleft((entry, positions[messages:]))
                    positions = positions[:messages]
                again = True
            elif self._fresh:
                entry, low = self._fresh.popleft()
                high = min(len(entry.rows), low + messages)
                if high < len(entry.rows):
                    self._fresh.appendleft((entry, high))
                positions, again = np.arange(low, high), entry.recovered
                positions = positions[entry.states[low:high] == READY]
            else:
                return None
            positions = self._without_expired(entry, positions, now)
            if len(positions):
                self._launch(entry, positions, consumer, now)
                return Taken(entry, positions, again)
        return None

    def give_back(self, taken: Taken, keep: int) -> None:
        """Only the first ``keep`` messages were sent after all; the others stay in front, untried."""
        rest = taken.positions[keep:]
        if not len(rest):
            return
        entry = taken.entry
        entry.states[rest] = READY
        entry.flights[rest] = 0
        self.flying -= len(rest)
        self.queued += len(rest)
        if taken.redelivered and not entry.recovered:
            self._again.appendleft((entry, rest))
        elif self._fresh and self._fresh[0][0] is entry:
            self._fresh[0] = (entry, int(rest[0]))
        else:
            self._fresh.appendleft((entry, int(rest[0])))

    def _without_expired(self, entry: Entry, positions: Ints, now: float) -> Ints:
        if entry.expires is None or not len(positions):
            return positions
        alive = entry.expires[positions] > now
        if alive.all():
            return positions
        gone = positions[~alive]
        self.expired += len(gone)
        self._finish(entry, gone)
        return positions[alive]

    def _launch(self, entry: Entry, positions: Ints, consumer: int, now: float) -> None:
        self._flight_number += 1
        low, high = int(positions[0]), int(positions[-1]) + 1
        entry.states[positions] = FLYING
        entry.flights[positions] = self._flight_number
        self.queued -= len(positions)
        self.flying += len(positions)
        self.reached = max(self.reached, entry.first + high - 1)
        flight = _Flight(self._flight_number, now + self.ack_timeout_s, entry, low, high)
        self._flights.setdefault(consumer, deque()).append(flight)

    # --- settling --------------------------------------------------------------------------------------------------

    def settle(self, up_to: int, runs: Runs, verdict: Verdict, consumer: int) -> int:
        """Apply a consumer's verdict; returns how many messages it settled. Unknown numbers are ignored."""
        settled = 0
        for first, count in runs:
            for entry in list(self._touched(first, first + count)):
                low, high = max(0, first - entry.first), min(len(entry.rows), first + count - entry.first)
                settled += self._apply(entry, np.flatnonzero(entry.states[low:high] == FLYING) + low, verdict)
        flights = self._flights.get(consumer, deque())
        if up_to:
            for flight in flights:
                if flight.entry.first + flight.low <= up_to:
                    positions = _aloft(flight)
                    positions = positions[positions + flight.entry.first <= up_to]
                    settled += self._apply(flight.entry, positions, verdict)
        while flights and not len(_aloft(flights[0])):
            flights.popleft()
        return settled

    def _touched(self, first: int, last: int) -> Iterator[Entry]:
        index = max(0, bisect.bisect_right(self._firsts, first) - 1)
        while index < len(self._entries) and self._firsts[index] < last:
            if self._entries[index].end > first:
                yield self._entries[index]
            index += 1

    def _apply(self, entry: Entry, positions: Ints, verdict: Verdict) -> int:
        if len(positions):
            {Verdict.DONE: self._finish, Verdict.DEAD: self._bury, Verdict.RETRY: self._retry}[verdict](
                entry, positions
            )
        return len(positions)

    def _finish(self, entry: Entry, positions: Ints) -> None:
        before = entry.states[positions]
        flying = int((before == FLYING).sum())
        self.flying -= flying
        self.queued -= int((before == READY).sum())
        self.dead -= int((before == DEAD).sum())
        entry.states[positions] = DONE
        entry.done += len(positions)
        if entry.done == len(entry.rows):
            self.nbytes -= entry.nbytes + ENTRY_OVERHEAD_BYTES
            index = bisect.bisect_left(self._firsts, entry.first)
            del self._entries[index], self._firsts[index]
            self.on_finished(entry)

    def _bury(self, entry: Entry, positions: Ints) -> None:
        self.flying -= len(positions)
        self.dead += len(positions)
        self.died += len(positions)
        entry.states[positions] = DEAD

    def _retry(self, entry: Entry, positions: Ints) -> None:
        entry.tries[positions] += 1
        spent = entry.tries[positions] >= self.tries_max
        if spent.any():
            self._bury(entry, positions[spent])
            positions = positions[~spent]
        if len(positions):
            entry.states[positions] = READY
            self.flying -= len(positions)
            self.queued += len(positions)
            self.redelivered += len(positions)
            self._again.append((entry, positions))

    def overdue(self, now: float) -> bool:
        """Take back what was not acknowledged in time; true if anything changed."""
        changed = False
        for flights in self._flights.values():
            while flights and flights[0].deadline <= now:
                changed |= self._land(flights.popleft())
        return changed

    def leave(self, consumer: int) -> None:
        """A consumer is gone: what it had in flight is ready again."""
        for flight in self._flights.pop(consumer, ()):
            self._land(flight)

    def _land(self, flight: _Flight) -> bool:
        positions = _aloft(flight)
        if len(positions):
            self._retry(flight.entry, positions)
        return bool(len(positions))

    @property
    def next_deadline(self) -> float:
        """When ``overdue`` should be asked again."""
        return min((flights[0].deadline for flights in self._flights.values() if flights), default=float("inf"))

    # --- expiry, dead letters, persistence ---------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Drop waiting messages whose time is over (an entry at a time, oldest first)."""
        for entry in [e for e in self._entries if e.expires is not None]:
            assert entry.expires is not None  # noqa: S101 - for the type checker
            gone = np.flatnonzero((entry.states == READY) & (entry.expires <= now))
            if len(gone):
                self.expired += len(gone)
                self._finish(entry, gone)

    def settle_dead(self, drop: bool) -> int:
        """Drop all dead letters, or put them back as if never tried."""
        count = 0
        for entry in list(self._entries):
            positions = np.flatnonzero(entry.states == DEAD)
            count += len(positions)
            if not len(positions):
                continue
            if drop:
                self._finish(entry, positions)
            else:
                entry.states[positions] = READY
                entry.tries[positions] = 0
                self.dead -= len(positions)
                self.queued += len(positions)
                self._again.append((entry, positions))
        return count

    def entries(self) -> list[Entry]:
        """What is not done, oldest first."""
        return list(self._entries)

    def cursor(self) -> Cursor:
        """What the store must know to build this queue again from the stored batches."""
        numbers, tries, states = [], [], []
        for entry in self._entries:
            if entry.first > self.reached:
                break
            positions = np.flatnonzero(entry.states != DONE)
            numbers.append(positions + entry.first)
            tries.append(entry.tries[positions])
            states.append(entry.states[positions])
        if not numbers:
            return Cursor(self.next_sequence, self.reached)
        number, tried, state = np.concatenate(numbers), np.concatenate(tries), np.concatenate(states)
        again = tried > 0
        return Cursor(
            self.next_sequence,
            self.reached,
            runs_of(number),
            runs_of(number[state == DEAD]),
            tuple(zip(number[again].tolist(), tried[again].tolist(), strict=True)),
        )


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a queue has come: what is open below ``reached`` (everything above it is), dead, and tried."""

    next_sequence: int = 1
    reached: int = 0
    open: Runs = ()
    dead: Runs = ()
    tries: Runs = ()
    """(number, tries), for numbers that were tried more than once."""

    def restore(self, entry: Entry) -> None:
        """Set the states of an entry read back from the store."""
        count, first = len(entry.rows), entry.first
        entry.states[: max(0, min(count, self.reached + 1 - first))] = DONE
        for state, runs in ((READY, self.open), (DEAD, self.dead)):
            for start, length in runs:
                entry.states[max(0, start - first) : max(0, start + length - first)] = state
        for number, tries in self.tries:
            if first <= number < first + count:
                entry.tries[number - first] = tries


def _aloft(flight: _Flight) -> Ints:
    """Positions that are still in flight on this flight."""
    entry, low, high = flight.entry, flight.low, flight.high
    flying = (entry.states[low:high] == FLYING) & (entry.flights[low:high] == flight.number)
    return np.flatnonzero(flying) + low


def runs_of(sequences: Ints) -> Runs:
    """Rising numbers as runs (first, count)."""
    if not len(sequences):
        return ()
    breaks = np.flatnonzero(np.diff(sequences) != 1) + 1
    starts = np.concatenate(([0], breaks))
    lengths = np.diff(np.append(starts, len(sequences)))
    return tuple(zip(sequences[starts].tolist(), lengths.tolist(), strict=True))
