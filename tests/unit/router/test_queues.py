"""Queues of sessions and durable subscriptions against plain models: nothing lost, nothing twice, order, bounds."""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from secroute.opaque import EncodedBatch, Scope
from secroute.router.durable_queue import DONE, DurableQueue, Entry, runs_of
from secroute.router.outbox import Outbox, OutboxLimits, Policy
from secroute.router.parcels import Parcel
from secroute.router.stored import decode_cursor, encode_cursor
from secroute.wire.frames import Verdict
from tests.cases import cases

SCOPE = Scope(bytes(16), 1, bytes(32))
ROW = 8 + 100  # bytes of bits and payload of one message


def parcel(values: list[int], expires: float | None = None) -> Parcel:
    ids = [value.to_bytes(16, "big") for value in values]
    made = EncodedBatch.of(SCOPE, np.ones((len(values), 1), np.uint64), ids, [bytes(100)] * len(values))
    return Parcel(made, None, None if expires is None else np.full(len(values), expires))


def values_of(batch: EncodedBatch) -> list[int]:
    return [int.from_bytes(bytes(row), "big") for row in batch.ids]


class ListSpill:
    """A spill without a disk."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._parcels: deque[Parcel] = deque()

    def push(self, given: Parcel) -> None:
        self._parcels.append(given)
        self.nbytes += given.nbytes

    def pop(self) -> Parcel | None:
        if not self._parcels:
            return None
        found = self._parcels.popleft()
        self.nbytes -= found.nbytes
        return found

    def close(self) -> None:
        self._parcels.clear()


class OutboxModel(RuleBasedStateMachine):
    """An outbox and what a client that keeps a list would expect of it."""

    policy: Policy = "spill"

    def __init__(self) -> None:
        super().__init__()
        self.box = Outbox(OutboxLimits(20 * ROW, 30 * ROW, self.policy), ListSpill())
        self.next_value = 0
        self.offered: list[int] = []
        self.cut = 0
        self.delivered: dict[int, int] = {}
        """Sequence -> value, of everything ever sent."""
        self.acked: set[int] = set()
        self.aloft: set[int] = set()

    @rule(count=st.integers(1, 12))
    def offer(self, count: int) -> None:
        values = list(range(self.next_value, self.next_value + count))
        self.next_value += count
        if self.box.offer(parcel(values), 0):
            self.offered += values
        else:
            self.cut += count

    @rule(messages=st.integers(0, 15), size=st.integers(0, 20 * ROW))
    def take(self, messages: int, size: int) -> None:
        slices = self.box.take(messages, size, 0.0, 10 * ROW)
        assert sum(len(part.batch) for part in slices) <= messages
        for part in slices:
            ((first, count),) = part.sequences
            for sequence, value in zip(range(first, first + count), values_of(part.batch), strict=True):
                if sequence in self.delivered:
                    assert part.redelivered
                    assert self.delivered[sequence] == value
                    assert sequence not in self.acked, "an acknowledged message came again"
                else:
                    assert not part.redelivered
                    assert sequence == len(self.delivered) + 1
                    assert value == self.offered[sequence - 1], "out of order, or lost"
                self.delivered[sequence] = value
                self.aloft.add(sequence)

    @rule(data=st.data())
    def ack_some(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.aloft)))) if self.aloft else set()
        runs = runs_of(np.array(sorted(chosen), np.int64))
        assert self.box.ack(0, runs) == len(chosen)
        self.acked |= chosen
        self.aloft -= chosen

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def ack_up_to(self, data: st.DataObject) -> None:
        up_to = data.draw(st.integers(1, len(self.delivered)))
        done = {sequence for sequence in self.aloft if sequence <= up_to}
        assert self.box.ack(up_to, ()) == len(done)
        self.acked |= done
        self.aloft -= done

    @rule()
    def resume(self) -> None:
        assert self.box.rewind() >= len(self.aloft)
        self.aloft.clear()

    @invariant()
    def bounded(self) -> None:
        assert self.box.spill.nbytes <= 30 * ROW
        assert self.box.queued_bytes <= 2 * 20 * ROW + 12 * ROW
        assert sum(gap.messages for gap in self.box.gaps.values()) == self.cut

    def teardown(self) -> None:
        """In the end, with credit and acks, everything that was taken in comes out."""
        self.box.rewind()
        self.aloft.clear()
        while self.box.waiting:
            self.take(1_000, 1_000 * ROW)
            self.ack_up_to_all()
        assert [self.delivered[n] for n in sorted(self.delivered)] == self.offered

    def ack_up_to_all(self) -> None:
        self.box.ack(len(self.delivered), ())
        self.acked |= self.aloft
        self.aloft.clear()


class SlowOutboxModel(OutboxModel):
    policy = "slow"


TestOutboxSpilling = OutboxModel.TestCase
TestOutboxSlowing = SlowOutboxModel.TestCase
TestOutboxSpilling.settings = TestOutboxSlowing.settings = settings(
    max_examples=cases(40, 1_000), stateful_step_count=30
)


def test_a_spill_that_fails_is_a_gap() -> None:
    class Full(ListSpill):
        def push(self, given: Parcel) -> None:
            raise OSError(28, "No space left on device")

    box = Outbox(OutboxLimits(ROW, 100 * ROW, "spill"), Full())
    assert box.offer(parcel([1, 2]), 5)
    assert not box.offer(parcel([3]), 6)
    (gap,) = box.gaps.values()
    assert (gap.messages, gap.first_unix_ms) == (1, 6)
    assert [values_of(part.batch) for part in box.take(9, 99 * ROW, 0.0, 99 * ROW)] == [[1, 2]]


def test_expired_messages_are_not_sent() -> None:
    box = Outbox(OutboxLimits(100 * ROW, 0, "spill"), ListSpill())
    box.offer(parcel([1], expires=5.0), 0)
    box.offer(parcel([2]), 0)
    assert [values_of(part.batch) for part in box.take(9, 99 * ROW, 6.0, 99 * ROW)] == [[2]]
    assert box.expired == 1


class DurableModel(RuleBasedStateMachine):
    """A durable queue, several consumers, crashes; the model is a set of numbers that are not settled."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.stored: list[Entry] = []
        self.next_batch = 1
        self.queue = self.new_queue()
        self.open: set[int] = set()
        self.dead: set[int] = set()
        self.aloft: dict[int, int] = {}
        self.reached: set[int] = set()
        self.saved = encode_cursor(self.queue.cursor())
        self.saved_state: tuple[set[int], set[int]] = (set(), set())

    def new_queue(self) -> DurableQueue:
        return DurableQueue(tries_max=1_000, ack_timeout_s=10.0, on_finished=lambda entry: None)

    @rule(count=st.integers(1, 6))
    def append(self, count: int) -> None:
        first = self.queue.next_sequence
        entry = Entry(self.next_batch, first, np.arange(count, dtype=np.int32), count * ROW)
        self.next_batch += 1
        self.stored.append(entry)
        self.queue.append(entry)
        self.open |= set(range(first, first + count))
        self.commit()  # an entry is queued once it is on disk, with all progress so far

    @rule(consumer=st.integers(1, 3), messages=st.integers(1, 9))
    def take(self, consumer: int, messages: int) -> None:
        taken = self.queue.take(consumer, messages, self.now)
        if taken is None:
            assert not self.open - set(self.aloft)
            return
        numbers = taken.sequences.tolist()
        assert len(numbers) <= messages
        assert set(numbers) <= self.open - set(self.aloft), "done, dead, or at another consumer"
        if not taken.redelivered:
            assert not set(numbers) & self.reached, "came again without the mark"
            assert not self.reached or min(numbers) > max(self.reached), "first deliveries out of order"
        self.reached |= set(numbers)
        self.aloft |= dict.fromkeys(numbers, consumer)

    @precondition(lambda self: self.aloft)
    @rule(data=st.data(), verdict=st.sampled_from(list(Verdict)))
    def settle(self, data: st.DataObject, verdict: Verdict) -> None:
        consumer = data.draw(st.sampled_from(sorted(set(self.aloft.values()))))
        mine = sorted(n for n, owner in self.aloft.items() if owner == consumer)
        chosen = data.draw(st.sets(st.sampled_from(mine)))
        runs = runs_of(np.array(sorted(chosen), np.int64))
        assert self.queue.settle(0, runs, verdict, consumer) == len(chosen)
        for number in chosen:
            del self.aloft[number]
        if verdict is not Verdict.RETRY:
            self.open -= chosen
        if verdict is Verdict.DEAD:
            self.dead |= chosen

    @rule(consumer=st.integers(1, 3))
    def leave(self, consumer: int) -> None:
        self.queue.leave(consumer)
        self.aloft = {number: owner for number, owner in self.aloft.items() if owner != consumer}

    @rule(seconds=st.sampled_from([1.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.overdue(self.now)
        if seconds > 10:
            self.aloft.clear()
        else:
            self.aloft = {n: c for n, c in self.aloft.items() if self.flying(n)}

    def flying(self, number: int) -> bool:
        for entry in self.queue.entries():
            if entry.first <= number < entry.end:
                return bool(entry.states[number - entry.first] == 1)
        return False

    @rule(drop=st.booleans())
    def settle_dead(self, drop: bool) -> None:
        assert self.queue.settle_dead(drop) == len(self.dead)
        if not drop:
            self.open |= self.dead
        self.dead = set()

    @rule()
    def commit(self) -> None:
        self.saved = encode_cursor(self.queue.cursor())
        self.saved_state = (set(self.open), set(self.dead))

    @rule()
    def crash(self) -> None:
        """Everything since the last commit is forgotten; the batches on disk are read again."""
        cursor = decode_cursor(self.saved)
        self.queue = self.new_queue()
        self.queue.next_sequence, self.queue.reached = cursor.next_sequence, cursor.reached
        again = []
        for old in self.stored:
            entry = Entry(old.batch, old.first, old.rows, old.nbytes, recovered=True)
            cursor.restore(entry)
            if not (entry.states == DONE).all():
                again.append(entry)
                self.queue.append(entry)
        self.stored = again
        self.open, self.dead = set(self.saved_state[0]), set(self.saved_state[1])
        self.aloft.clear()

    @invariant()
    def adds_up(self) -> None:
        queue = self.queue
        assert (queue.queued, queue.flying, queue.dead) == (
            len(self.open) - len(self.aloft),
            len(self.aloft),
            len(self.dead),
        )


TestDurableQueue = DurableModel.TestCase
TestDurableQueue.settings = settings(max_examples=cases(60, 2_000), stateful_step_count=40)


@given(st.sets(st.integers(1, 200)))
def test_runs_name_exactly_their_numbers(numbers: set[int]) -> None:
    runs = runs_of(np.array(sorted(numbers), np.int64))
    assert {n for first, count in runs for n in range(first, first + count)} == numbers
    assert all(a + b < c for (a, b), (c, _) in itertools.pairwise(runs))
