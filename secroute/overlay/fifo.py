"""One end of a link that delivers in order, once, whatever the carrier loses, repeats or swaps.

UNTRUSTED side, pure. Go-back-N with cumulative acknowledgements: what CBCB assumes of links, as a stream over TCP
gives it live and this gives it in the simulator. The caller resends on its own clock by calling :meth:`resend`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Data(Generic[T]):
    """The ``number``-th payload of this direction."""

    number: int
    payload: T


@dataclass(frozen=True, slots=True)
class Ack:
    """Everything below ``upto`` has arrived."""

    upto: int


class FifoEnd(Generic[T]):
    """State of one end for both directions."""

    def __init__(self) -> None:
        self._unacked: deque[Data[T]] = deque()
        self._next_out = 0
        self._next_in = 0

    @property
    def settled(self) -> bool:
        """Whether the other end has confirmed everything."""
        return not self._unacked

    def send(self, payload: T) -> Data[T]:
        """The frame to put on the carrier; it is kept until confirmed."""
        frame = Data(self._next_out, payload)
        self._next_out += 1
        self._unacked.append(frame)
        return frame

    def receive(self, frame: Data[T] | Ack) -> tuple[list[T], list[Ack]]:
        """What is new to the application (at most one payload), and what to answer."""
        if isinstance(frame, Ack):
            while self._unacked and self._unacked[0].number < min(frame.upto, self._next_out):
                self._unacked.popleft()
            return [], []
        fresh = frame.number == self._next_in
        self._next_in += fresh
        return ([frame.payload] if fresh else []), [Ack(self._next_in)]

    def resend(self) -> list[Data[T]]:
        """Everything unconfirmed, in order."""
        return list(self._unacked)
