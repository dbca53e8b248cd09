"""What was delivered to one endpoint and what became of it: duplicates, acks and credit. Pure bookkeeping, no I/O.

An endpoint is one durable subscription, or all ordinary ones of a session together. Numbers of a durable subscription
hold for its lifetime, those of the ordinary endpoint for one session; credit holds for one link.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from secroute import limits
from secroute.encoding.replay import ReplayGuard
from secroute.encoding.seal import Opened
from secroute.errors import ReplayError, ReplayWindowError
from secroute.wire.frames import Ack, Credit, Runs, Verdict


@dataclass(frozen=True, slots=True)
class Receipt:
    """One delivery: its number, what it took of the credit, and the link and session it came with."""

    sequence: int
    bytes: int
    link: int
    session: int


Key = tuple[bytes, bytes, int]


class Duplicates:
    """Tells what the application has seen. Lives as long as the client, so that a new handle does not see it again."""

    def __init__(self, window: int) -> None:
        self._guard = ReplayGuard(max(window, limits.REPLAY_WINDOW_MESSAGES))
        self._again: set[Key] = set()

    def admit(self, opened: Opened) -> None:
        """Record, or raise ``ReplayError`` if it was seen and nobody asked to see it again."""
        key = (opened.publisher, opened.session, opened.sequence)
        if key in self._again:
            self._again.discard(key)
            return
        self._guard.admit(opened)

    def expect_again(self, keys: Iterable[Key]) -> None:
        """The application has not finished with these: they may come again."""
        self._again.update(keys)


class Ledger:
    """The open deliveries of one endpoint."""

    def __init__(self, subscription: int, credit_messages: int, credit_bytes: int, duplicates: Duplicates) -> None:
        self.subscription = subscription
        self.duplicates = duplicates
        self._first = (credit_messages, credit_bytes)
        self._open: set[int] = set()
        self._done: dict[Verdict, list[int]] = {}
        self._owed_messages = 0
        self._owed_bytes = 0
        self._link = 0
        self._session = 0

    # --- links come and go ---

    def attach(self, *, same_session: bool) -> Credit:
        """A new link; returns its first credit. A new session numbers ordinary deliveries afresh."""
        self._link += 1
        self._owed_messages = self._owed_bytes = 0
        if self.subscription == 0 and not same_session:
            self._session += 1
            self._open.clear()
            self._done.clear()
        return Credit(self.subscription, *self._first)

    # --- deliveries ---

    def receipt(self, sequence: int, size: int) -> Receipt:
        """Note a delivery."""
        return Receipt(sequence, size, self._link, self._session)

    def open(self, receipt: Receipt) -> None:
        """It goes to the application, who will settle it."""
        self._open.add(receipt.sequence)

    def repeat(self, receipt: Receipt) -> None:
        """It came before. If the application is still at it, its verdict will follow; else repeat the ack."""
        if receipt.sequence in self._open:
            self._return_credit(receipt)
        else:
            self.settle(receipt, Verdict.DONE)

    def settle(self, receipt: Receipt, verdict: Verdict = Verdict.DONE) -> None:
        """The application (or the exact match) is done with it."""
        self._open.discard(receipt.sequence)
        if receipt.session == self._session:
            self._done.setdefault(verdict, []).append(receipt.sequence)
        self._return_credit(receipt)

    def leave(self, receipt: Receipt) -> None:
        """It cannot be judged: no verdict, so that a durable one comes again after its timeout."""
        self._return_credit(receipt)

    def _return_credit(self, receipt: Receipt) -> None:
        if receipt.link == self._link:
            self._owed_messages += 1
            self._owed_bytes += receipt.bytes

    # --- acks ---

    @property
    def due(self) -> int:
        """How much there is to tell the router."""
        return max(sum(map(len, self._done.values())), self._owed_messages)

    def collect(self) -> list[Ack]:
        """The acks to send now (without request numbers), with all credit that is owed on the last."""
        acks = []
        for verdict, sequences in sorted(self._done.items()):
            for runs in _chunks(as_runs(sequences)):
                acks.append(Ack(self.subscription, 0, runs, verdict))
        if not acks and self._owed_messages:
            acks.append(Ack(self.subscription))
        if acks:
            last = acks[-1]
            acks[-1] = Ack(self.subscription, 0, last.runs, last.verdict, self._owed_messages, self._owed_bytes)
        self._done.clear()
        self._owed_messages = self._owed_bytes = 0
        return acks


def as_runs(sequences: Iterable[int]) -> Runs:
    """Numbers as runs (first, count), each number once."""
    runs: list[tuple[int, int]] = []
    for number in sorted(set(sequences)):
        if runs and number == runs[-1][0] + runs[-1][1]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return tuple(runs)


def _chunks(runs: Runs) -> list[Runs]:
    return [runs[at : at + limits.ACK_RUNS_MAX] for at in range(0, len(runs), limits.ACK_RUNS_MAX)]


__all__ = ["Duplicates", "Ledger", "Receipt", "ReplayError", "ReplayWindowError", "as_runs"]
