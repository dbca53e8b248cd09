"""The deterministic simulator of live routers: link states and signed pages over faulty links, crashes, partitions.

UNTRUSTED side; time is a tick counter and all randomness comes from one seed, so every run can be repeated. The parts
are those that real routers use; what is simulated is the carrier, time, and who is down.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute import limits
from secroute.errors import OverlayError
from secroute.opaque import Scope, Words
from secroute.overlay import linkstate
from secroute.overlay.adverts import OwnPages, Page, PageBook
from secroute.overlay.fifo import Ack, Data, FifoEnd
from secroute.overlay.graph import Graph
from secroute.overlay.hops import Hops, Wanted
from secroute.overlay.linkstate import LinkStates
from secroute.overlay.paths import ShortestPaths
from secroute.sim.network import REORDER_TICKS, RESEND_TICKS, Faults

SCOPE = Scope(bytes(limits.SPACE_ID_BYTES), 1, bytes(limits.PROFILE_DIGEST_BYTES))
DETECT_TICKS = 3  # until an end notices that its link is broken
Payload = linkstate.LinkState | Page
Cable = tuple[int, int]


class SimRouter:
    """One router: what it remembers over a crash, and what it does not."""

    def __init__(self, number: int, seed: int) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest())
        self.asked: list[Words] = []
        """On disk: the filters of durable subscriptions."""
        self.counter = 0
        """On disk: the highest number used."""
        self.boot()

    def boot(self) -> None:
        """Begin with what is on disk."""
        self.states = LinkStates(self._key, saved_sequence=self.counter)
        self.id = self.states.router
        self.own = OwnPages(self._key)
        self.book = PageBook()
        for bits in self.asked:
            self.own.ask(SCOPE, True, bits)

    def next_number(self, above: int) -> int:
        """A number higher than all before."""
        self.counter = max(self.counter, above) + 1
        return self.counter

    def effects(self, effects: list[linkstate.Effect]) -> list[tuple[bytes, Payload]]:
        """What to send where."""
        sends: list[tuple[bytes, Payload]] = []
        for effect in effects:
            if isinstance(effect, linkstate.SaveSequence):
                self.counter = max(self.counter, effect.sequence)
            elif isinstance(effect, linkstate.Send):
                sends.append((effect.neighbour, effect.state))
        return sends

    def heard(self, neighbour: bytes, payload: Payload, now: int) -> tuple[list[tuple[bytes, Payload]], Page | None]:
        """(what to send where, a page to flood on)."""
        if isinstance(payload, linkstate.LinkState):
            return self.effects(self.states.step(linkstate.Heard(neighbour, payload), now)), None
        if payload.origin == self.id:
            self.own.heard_own(payload)
            return [], None
        new, _ = self.book.take(payload)
        return [], payload if new else None


class PageNetwork:
    """All routers, the cables between them, and the frames on the way."""

    def __init__(self, graph: Graph, *, seed: int = 0, faults: Faults | None = None) -> None:
        self.routers = [SimRouter(number, seed) for number in range(len(graph))]
        self.cables = sorted(graph.weights)
        self._around = graph.neighbours
        self._weights = dict(graph.weights)
        self.now = 0
        self.control: Counter[str] = Counter()
        self.frames = 0
        self._faults = faults or Faults()
        self._rng = random.Random(seed)
        self._number = {router.id: number for number, router in enumerate(self.routers)}
        self._down: set[int] = set()
        self._cut: set[Cable] = set()
        self._ends: dict[Cable, FifoEnd[Payload]] = {}
        """(here, there) of links that are up."""
        self._life: Counter[Cable] = Counter()
        self._flying: list[tuple[int, int, Cable, int, Data[Payload] | Ack]] = []
        self._trees: dict[bytes, ShortestPaths] = {}

    # --- what happens ------------------------------------------------------------------------------------------------

    def subscribe(self, number: int, bits: Words) -> None:
        """Durable receivers at a router ask for filters."""
        self.routers[number].asked.append(bits)
        if number not in self._down:
            self.routers[number].own.ask(SCOPE, True, bits)

    def unsubscribe(self, number: int, which: int) -> None:
        """Give up what was asked for as the ``which``-th."""
        bits = self.routers[number].asked.pop(which)
        if number not in self._down:
            self.routers[number].own.give_up(SCOPE, True, bits)

    def crash(self, number: int) -> None:
        """A router dies; its neighbours notice at once, as a broken connection is noticed."""
        self._down.add(number)
        for a, b in self.cables:
            if number in (a, b):
                self._break(a, b)

    def restart(self, number: int) -> None:
        """It comes back with what is on its disk."""
        if number in self._down:
            self._down.discard(number)
            self.routers[number].boot()

    def cut(self, cables: set[Cable]) -> None:
        """These cables carry nothing; an empty set mends all."""
        self._cut = cables

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """One unit of time."""
        self.now += 1
        if self.now % DETECT_TICKS == 0:
            self._watch_cables()
        for number, router in enumerate(self.routers):
            if number not in self._down:
                for page in router.own.flush(router.next_number):
                    self._flood(number, page, None)
        while self._flying and self._flying[0][0] <= self.now:
            _, _, cable, life, frame = heapq.heappop(self._flying)
            if life == self._life[tuple(sorted(cable))] and cable[::-1] in self._ends:  # type: ignore[index]
                self._arrive(cable, frame)
        if self.now % RESEND_TICKS == 0:
            for cable, end in self._ends.items():
                for frame in end.resend():
                    self._carry(cable, frame)

    def _watch_cables(self) -> None:
        for a, b in self.cables:
            works = not {a, b} & self._down and (a, b) not in self._cut
            if works and (a, b) not in self._ends:
                self._link_up(a, b)
            elif not works:
                self._break(a, b)

    def _break(self, a: int, b: int) -> None:
        if (a, b) not in self._ends:
            return
        del self._ends[a, b], self._ends[b, a]
        self._life[a, b] += 1
        for here, there in ((a, b), (b, a)):
            if here not in self._down:
                router = self.routers[here]
                gone = linkstate.LinkDown(self.routers[there].id)
                self._send_all(here, router.effects(router.states.step(gone, self.now)))

    def _link_up(self, a: int, b: int) -> None:
        self._life[a, b] += 1
        self._ends[a, b], self._ends[b, a] = FifoEnd(), FifoEnd()
        for here, there in ((a, b), (b, a)):
            router, other = self.routers[here], self.routers[there].id
            pages = [*router.own.pages(), *router.book.pages()]
            self._send_all(here, [(other, page) for page in pages])
            up = linkstate.LinkUp(other, self._weights[a, b])
            self._send_all(here, router.effects(router.states.step(up, self.now)))

    def _send_all(self, here: int, sends: list[tuple[bytes, Payload]]) -> None:
        for neighbour, payload in sends:
            cable = (here, self._number[neighbour])
            if cable in self._ends:
                self.control["page" if isinstance(payload, Page) else "link_state"] += 1
                self._carry(cable, self._ends[cable].send(payload))

    def _flood(self, here: int, page: Page, came_from: int | None) -> None:
        others = [there for there in self._around[here] if there != came_from and (here, there) in self._ends]
        self._send_all(here, [(self.routers[there].id, page) for there in others])

    def _carry(self, cable: Cable, frame: Data[Payload] | Ack) -> None:
        rng, faults = self._rng, self._faults
        life = self._life[tuple(sorted(cable))]  # type: ignore[index]
        for _ in range(1 + (rng.random() < faults.duplicate)):
            self.frames += 1
            if rng.random() >= faults.loss:
                late = rng.randint(1, REORDER_TICKS) if rng.random() < faults.reorder else 0
                heapq.heappush(self._flying, (self.now + 1 + late, self.frames, cable, life, frame))

    def _arrive(self, cable: Cable, frame: Data[Payload] | Ack) -> None:
        a, b = cable
        if b in self._down or tuple(sorted(cable)) in self._cut:
            return
        fresh, answers = self._ends[b, a].receive(frame)
        for answer in answers:
            self._carry((b, a), answer)
        for payload in fresh:
            sends, page = self.routers[b].heard(self.routers[a].id, payload, self.now)
            self._send_all(b, sends)
            if page is not None:
                self._flood(b, page, a)

    def settle(self, ticks_max: int = 20_000) -> int:
        """Run until nothing is on the way or unconfirmed; the ticks that it took."""
        begin, quiet = self.now, 0
        while quiet < 2 * DETECT_TICKS:
            if self.now - begin >= ticks_max:
                raise OverlayError(f"the network has not settled within {ticks_max} ticks")
            before = sum(self.control.values())
            self.tick()
            busy = self._flying or not all(end.settled for end in self._ends.values())
            quiet = 0 if busy or sum(self.control.values()) != before else quiet + 1
        return self.now - begin - quiet

    # --- messages ----------------------------------------------------------------------------------------------------

    def whole(self) -> bool:
        """Whether all routers that run see the same network."""
        return len({router.states.stamp() for n, router in enumerate(self.routers) if n not in self._down}) == 1

    def _wanted(self, router: SimRouter, graph: Graph, bits: Words) -> Wanted:
        """Who wants one message, by a router's own book."""
        wanted = np.zeros((1, len(graph)), bool)
        for page in router.book.pages():
            if page.origin in graph.ids and len(page.bits) and not (page.bits & ~bits).any(axis=1).all():
                wanted[0, graph.ids.index(page.origin)] = True
        return wanted

    def publish(self, scheme: str, source: int, bits: Words) -> list[int]:
        """The routers at which a message arrives, by every router's own view and book, repeats included."""
        arrived = [source]
        pending: list[tuple[int, int, Wanted | None]] = [(source, -1, None)]
        while pending and len(arrived) <= 4 * len(self.routers):
            at, came_with, destinations = pending.pop()
            router = self.routers[at]
            trees = self._trees.get(router.states.stamp())
            if trees is None:
                trees = self._trees[router.states.stamp()] = ShortestPaths(router.states.component())
            ids = trees.graph.ids
            me = ids.index(router.id)
            hops = Hops(scheme, trees, me)
            wanted = self._wanted(router, trees.graph, bits) if destinations is None else destinations
            wanted[:, me] = False
            for hop in hops.next(me if came_with < 0 else came_with, wanted):
                there = self._number[ids[hop.neighbour]]
                arrived.append(there)
                pending.append((there, hop.source, hop.destinations))
        return arrived
