"""The deterministic simulator of CBCB: routers, links that lose, repeat and reorder frames, partitions and crashes.

UNTRUSTED side; time is a tick counter and all randomness comes from one seed, so every run can be repeated.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from secroute.errors import OverlayError
from secroute.overlay.cbcb import Cbcb, Event, Heard, Message, Reset, subtree_within
from secroute.overlay.fifo import Ack, Data, FifoEnd
from secroute.overlay.paths import Trees

RESEND_TICKS = 8
REORDER_TICKS = 5  # a reordered frame is late by up to so many ticks


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities per frame."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0


class Network:
    """All routers of one graph and the frames between them."""

    def __init__(
        self,
        trees: Trees,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        may_stop: Callable[[Trees, int, int, int], bool] = subtree_within,
        withdrawals: bool = True,
    ) -> None:
        self.trees = trees
        self._rules = (may_stop, withdrawals)
        self.routers = [self._make(node) for node in range(len(trees.graph))]
        self.now = 0
        self.control: Counter[str] = Counter()
        """Control messages handed to links, by kind; resends are not counted."""
        self.frames = 0
        """Frames put on the carrier, acknowledgements and resends included."""
        self._faults = faults or Faults()
        self._rng = random.Random(seed)
        around = trees.graph.neighbours
        self._ends = {(a, b): FifoEnd[Message]() for a in range(len(around)) for b in around[a]}
        self._life: Counter[tuple[int, int]] = Counter()
        """How often a link has been set up anew; frames of an earlier life are lost."""
        self._cut: set[tuple[int, int]] = set()
        self._flying: list[tuple[int, int, tuple[int, int], int, Data[Message] | Ack]] = []

    def _make(self, node: int) -> Cbcb:
        may_stop, withdrawals = self._rules
        return Cbcb(node, self.trees, may_stop=may_stop, withdrawals=withdrawals)

    def inject(self, node: int, event: Event) -> None:
        """Let something happen at a router now."""
        for send in self.routers[node].step(event, self.now):
            self.control[type(send.message).__name__.lower()] += 1
            link = (node, send.neighbour)
            self._carry(link, self._ends[link].send(send.message))

    def cut(self, links: set[tuple[int, int]]) -> None:
        """These links (lower number first) lose everything from now on; an empty set mends all."""
        self._cut = links

    def crash(self, node: int) -> None:
        """A router forgets everything and comes back; its links are set up anew on both sides."""
        self.routers[node] = self._make(node)
        for other in self.trees.graph.neighbours[node]:
            self._life[min(node, other), max(node, other)] += 1
            self._ends[node, other], self._ends[other, node] = FifoEnd(), FifoEnd()
        for other in self.trees.graph.neighbours[node]:
            self.inject(other, Reset(node))
            self.inject(node, Reset(other))

    def _carry(self, link: tuple[int, int], frame: Data[Message] | Ack) -> None:
        rng, faults = self._rng, self._faults
        for _ in range(1 + (rng.random() < faults.duplicate)):
            self.frames += 1
            pair = (min(link), max(link))
            if rng.random() < faults.loss or pair in self._cut:
                continue
            late = rng.randint(1, REORDER_TICKS) if rng.random() < faults.reorder else 0
            heapq.heappush(self._flying, (self.now + 1 + late, self.frames, link, self._life[pair], frame))

    def tick(self) -> None:
        """One unit of time: frames that are due arrive; now and then the unconfirmed is sent again."""
        self.now += 1
        while self._flying and self._flying[0][0] <= self.now:
            _, _, (a, b), life, frame = heapq.heappop(self._flying)
            if life != self._life[min(a, b), max(a, b)]:
                continue
            fresh, answers = self._ends[b, a].receive(frame)
            for answer in answers:
                self._carry((b, a), answer)
            for message in fresh:
                self.inject(b, Heard(a, message))
        if self.now % RESEND_TICKS == 0:
            for link, end in self._ends.items():
                for frame in end.resend():
                    self._carry(link, frame)

    def settle(self, ticks_max: int = 100_000) -> int:
        """Run until every message has arrived and is confirmed; the ticks that it took."""
        begin = self.now
        while self._flying or not all(end.settled for end in self._ends.values()):
            if self.now - begin >= ticks_max:
                raise OverlayError(f"the network has not settled within {ticks_max} ticks")
            self.tick()
        return self.now - begin

    def publish(self, source: int, message: int) -> list[int]:
        """The routers at which a message of ``source`` arrives over the present tables, repeats included."""
        arrived, pending = [source], [source]
        while pending and len(arrived) <= 4 * len(self.routers):  # more than that is a loop; the caller sees repeats
            hops = self.routers[pending.pop()].forward(source, message)
            arrived += hops
            pending += hops
        return arrived

    def lost(self, source: int, message: int) -> set[int]:
        """The routers that want the message and do not get it."""
        arrived = set(self.publish(source, message))
        return {u for u, router in enumerate(self.routers) if router.wants(message)} - arrived
