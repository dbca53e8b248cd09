"""A router's part in the network: neighbours, link states, pages, and messages that go on. UNTRUSTED side, asyncio.

One per node that has neighbours. It owns no table of the node: published and arriving batches pass through here on
their way to the node's own pipeline. What is uncertain is forwarded or kept, never dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from secroute import limits
from secroute.errors import LimitError, OverlayError, SecrouteError
from secroute.opaque import EncodedFilters, Scope
from secroute.overlay import linkstate
from secroute.overlay.adverts import OwnPages, Page, PageBook
from secroute.router.config import Config
from secroute.router.guard import DuplicateGuard
from secroute.router.jobs import Job
from secroute.router.links_forward import ANYBODY, Forwarder, Item, Kept, Outgoing, Routed
from secroute.router.links_peer import Peer
from secroute.router.links_store import LinkStore, LinkUnit, Numbers, signing_key
from secroute.router.links_view import OriginTables, View
from secroute.router.logs import Log
from secroute.router.parcels import Kind
from secroute.wire._generated.overlay_pb2 import FilterPage
from secroute.wire.frames import Mode, Problem, PublishResult
from secroute.wire.link_frames import (
    LinkFrame,
    LinkStateFrame,
    LinkSynced,
    PageFrame,
    Transfer,
    page_from_pb,
    page_to_pb,
)

TICK_S = 0.05
PARK_S = 2.0  # how long a copy from an unknown state of the network waits for this router to get there
ORDINARY_HOLD_S = 30.0  # messages wait so long for the ordinary subscriptions of a router that went away
REFRESH_S = 600.0
STORE_RETRY_S = 0.5
_MIB = 1_048_576
_NEVER = float("inf")


class LinkHost(Protocol):
    """What links need from their node."""

    config: Config
    engine_name: str
    log: Log

    async def take_from_link(self, job: Job) -> bool:
        """Hand a batch to the node's own receivers; whether there are any (the job's publisher hears of it)."""

    def durable_epochs(self) -> Iterable[tuple[bytes, tuple[int, ...]]]:
        """(space, epochs with filters) of every durable subscription."""

    def local_filters(self) -> Iterable[tuple[int, EncodedFilters]]:
        """(endpoint, filters) that are active before the links start."""


class Arrival:
    """A transfer that is done when it was delivered here and passed on; the local pipeline knows it as a publisher."""

    def __init__(self, done: Callable[[Problem | None], None]) -> None:
        self.commits_pending = 0
        self._open = 2
        self._done = done
        self._problem: Problem | None = None

    def settle(self, result: PublishResult) -> None:
        """Delivered here."""
        self.half(result.problem)

    def half(self, problem: Problem | None) -> None:
        """One of the two halves is done. A batch that can never be taken here must not block the link for ever."""
        if problem is not None and (problem.retryable or problem.code.startswith("store")):
            self._problem = Problem(problem.code, problem.message, True)
        self._open -= 1
        if not self._open:
            self._done(self._problem)


class Links:
    """All links of a node."""

    def __init__(self, node: LinkHost) -> None:
        config = node.config
        self._node, self._log = node, node.log
        self.name: str = config.overlay.name
        self.scheme: str = config.overlay.scheme
        self._forget_s = config.overlay.forget_s
        folder = config.store.path.parent / "links"
        self._store = LinkStore(folder / "links.db", config.store.sync)
        self.key = signing_key(folder / "signing.key")
        self._numbers = Numbers(self._store)
        self._states = linkstate.LinkStates(self.key, saved_sequence=self._numbers.last)
        self.router = self._states.router
        self._own = OwnPages(self.key)
        self._asked: dict[int, dict[int, EncodedFilters]] = {}
        """What every local endpoint asks for, by identity of the filters."""
        self._book = PageBook()
        self._tables = OriginTables(node.engine_name)
        bounds = config.guard
        guard = DuplicateGuard(folder, window_s=bounds.window_s, keys_max=bounds.keys_max, load=self._store.seen_keys)
        guard.rebuild(self._store.seen(time.time_ns() // 1_000_000 - int(bounds.window_s * 2000)))
        self._guard = guard
        queue_bytes = config.overlay.queue_mib * _MIB
        self._forwarder = Forwarder(self._store, self._numbers, self._tables, guard, self.router, queue_bytes)
        self._forwarder.keep_for = self._keep_for
        self.peers = {each.name: Peer(self, each.name, each.weight) for each in config.neighbours}
        self._history: list[bytes] = []
        self.view = View.of(self._states, self.scheme, None, self._history)
        self._away_since: dict[bytes, float] = {}
        self._items: list[Item] = []
        self._done: list[int] = []
        self._page_writes: dict[tuple[bytes, int], bytes] = {}
        self._origins_dropped: list[bytes] = []
        self._parked: list[tuple[float, Item]] = []
        self._held: dict[bytes, dict[int, tuple[int, float]]] = {}
        self._work = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "secroute-links")
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        self.injected = self.reinjected = self.duplicates = 0
        self._recover()

    def _recover(self) -> None:
        for data in self._store.pages():
            page = _page(page_from_pb(FilterPage.FromString(data)))
            new, _ = self._book.take(page)
            if new:
                self._tables.replace(None, page)
        rows = self._forwarder.recover()
        for number, held_for, expires in rows:
            self._held.setdefault(held_for or ANYBODY, {})[number] = (0, expires)
        now = time.monotonic()
        self._away_since = dict.fromkeys(self._book.origins(), now)
        for endpoint, filters in self._node.local_filters():
            self._filters_changed(endpoint, [filters], [])
        self._log.info("overlay", router=self.router, scheme=self.scheme, neighbours=len(self.peers), kept=len(rows),
                       origins=len(self._book.origins()))  # fmt: skip

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> list[asyncio.Task[None]]:
        """Start the loops."""
        self._perform(self._states.step(linkstate.Tick(), time.monotonic()))
        self._tasks = [asyncio.create_task(self._work_loop()), asyncio.create_task(self._tick_loop())]
        return self._tasks

    async def close(self) -> None:
        """Stop; what is on its way stays on disk."""
        for peer in self.peers.values():
            peer.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown()
        self._guard.close()
        self._tables.close()
        self._store.close()

    async def _tick_loop(self) -> None:
        ticked = refreshed = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            self._flush_pages()
            due = [item for deadline, item in self._parked if deadline <= now]
            self._parked = [(deadline, item) for deadline, item in self._parked if deadline > now]
            for item in due:
                item.behind = True
                self.submit(item)
            if now - ticked >= 1.0:
                ticked = now
                self._perform(self._states.step(linkstate.Tick(), now))
                self._forget(now)
            if now - refreshed >= REFRESH_S:
                refreshed = now
                self._own.refresh()

    # --- the network -------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[linkstate.Effect]) -> None:
        by_router = {peer.router: peer for peer in self.peers.values() if peer.up}
        for effect in effects:
            match effect:
                case linkstate.SaveSequence(sequence):
                    self._numbers.used(sequence)
                case linkstate.Send(neighbour, state) if neighbour in by_router:
                    fields = (state.public_key, state.sequence, state.changed, state.links, state.signature)
                    by_router[neighbour].send(LinkStateFrame(*fields))
        if self._states.stamp() != self.view.stamp:
            self._look_again()

    def _look_again(self) -> None:
        """The network is in another state."""
        self.view = View.of(self._states, self.scheme, self.view, self._history)
        now = time.monotonic()
        for origin in self._book.origins():
            if origin in self.view.numbers:
                self._away_since.pop(origin, None)
            else:
                self._away_since.setdefault(origin, now)
        for peer in self.peers.values():
            peer.send(LinkSynced(self.view.stamp))
        self._try_parked()
        self._release()
        self._log.info(
            "network", stamp=self.view.stamp, routers=len(self.view.graph), edges=len(self.view.graph.weights)
        )

    def _try_parked(self) -> None:
        parked, self._parked = self._parked, []
        for _, item in parked:
            self.submit(item)

    def _caught_up_with(self, neighbour: bytes) -> bool:
        """Whether a neighbour is in no state of the network that this router still has to get to.

        Then a strange stamp from there is one that the neighbour has left, and waiting for it would be in vain.
        """
        stamps = [peer.stamp for peer in self.peers.values() if peer.router == neighbour]
        return all(stamp == self.view.stamp or stamp in self.view.former for stamp in stamps if stamp)

    def _release(self) -> None:
        """Bring in what was held for routers that can be reached again."""
        ready = [router for router in self._held if router in self.view.numbers]
        if self._forwarder.synced:
            ready += [ANYBODY] if ANYBODY in self._held else []
        for router in ready:
            for number, (_, expires) in self._held.pop(router).items():
                self.submit(Item(None, Mode.AT_LEAST_ONCE, expires, kept=Kept(number, 1), held_for=router))

    def link_up(self, peer: Peer) -> None:
        """Tell a new neighbour everything, pages first: it must know who wants what before it gets messages."""
        if any(other is not peer and other.router == peer.router for other in self.peers.values()):
            peer.router = None
            raise OverlayError(f"neighbour {peer.name!r} has the key of another neighbour")
        for page in (*self._own.pages(), *self._book.pages()):
            peer.send(_frame(page))
        router = peer.router or b""
        self._perform(self._states.step(linkstate.LinkUp(router, peer.weight), time.monotonic()))
        peer.send(LinkSynced(self.view.stamp))
        self._log.info("link-up", neighbour=peer.name, router=router)

    def link_down(self, peer: Peer) -> None:
        """Route everything that was on its way over this link anew."""
        router, peer.router = peer.router or b"", None
        self._perform(self._states.step(linkstate.LinkDown(router), time.monotonic()))
        left = peer.take_back()
        self._log.warning("link-down", neighbour=peer.name, router=router, batches=len(left))
        for outgoing in left:
            self._again(outgoing)

    def _again(self, outgoing: Outgoing) -> None:
        self.submit(Item(outgoing.batch, outgoing.mode, outgoing.expires, kept=outgoing.kept))

    def _keep_for(self, origin: bytes, durable: bool) -> bool:
        """In the links' thread: whether messages wait for a router that cannot be reached."""
        return durable or time.monotonic() - self._away_since.get(origin, 0.0) < ORDINARY_HOLD_S

    def _forget(self, now: float) -> None:
        for origin, since in list(self._away_since.items()):
            if now - since < self._forget_s:
                continue
            del self._away_since[origin]
            pages = self._book.drop(origin)
            for page in pages:
                self._tables.replace(page, None)
            held = self._held.pop(origin, {})
            self._done += held
            self._origins_dropped.append(origin)
            self._page_writes = {key: data for key, data in self._page_writes.items() if key[0] != origin}
            self._work.set()
            messages = sum(count for count, _ in held.values())
            self._log.warning("router-forgotten", router=origin, pages=len(pages), batches=len(held), messages=messages)

    # --- pages -------------------------------------------------------------------------------------------------------

    def filters_changed(
        self, endpoint: int, new: Iterable[EncodedFilters], old: Iterable[EncodedFilters] | None
    ) -> None:
        """Local receivers changed what they ask for; called from the node's control thread."""
        gone = None if old is None else list(old)
        self._loop.call_soon_threadsafe(self._filters_changed, endpoint, list(new), gone)

    def _filters_changed(self, endpoint: int, new: list[EncodedFilters], old: list[EncodedFilters] | None) -> None:
        durable = endpoint & 3 == Kind.DURABLE
        asked = self._asked.setdefault(endpoint, {})
        gone = list(asked.values()) if old is None else [part for part in old if id(part) in asked]
        for part in new:
            try:
                self._own.ask(part.scope, durable, part.bits)
                asked[id(part)] = part
            except LimitError as error:
                self._log.error("advertisements-full", reason=str(error))
        for part in gone:
            del asked[id(part)]
            self._own.give_up(part.scope, durable, part.bits)
        if not asked:
            del self._asked[endpoint]

    def _flush_pages(self) -> None:
        nothing = bytes(limits.PROFILE_DIGEST_BYTES)
        self._own.spool((Scope(space, 0, nothing), epochs) for space, epochs in set(self._node.durable_epochs()))
        for page in self._own.flush(self._numbers.next):
            self._flood(page, None)

    def _flood(self, page: Page, came_from: Peer | None) -> None:
        frame = _frame(page)
        for peer in self.peers.values():
            if peer is not came_from:
                peer.send(frame)

    def _take_page(self, peer: Peer, page: Page) -> None:
        if page.origin == self.router:
            page.verify()
            self._own.heard_own(page)
            return
        new, old = self._book.take(page)
        if new:
            self._tables.replace(old, page)
            if page.origin not in self.view.numbers:
                self._away_since.setdefault(page.origin, time.monotonic())
            self._page_writes[page.origin, page.index] = page_to_pb(_frame(page)).SerializeToString()
            self._work.set()
            self._flood(page, peer)

    # --- frames ------------------------------------------------------------------------------------------------------

    async def frame(self, peer: Peer, frame: LinkFrame) -> None:
        """A frame of a neighbour; raises if it is not valid, which ends the link."""
        match frame:
            case LinkStateFrame():
                state = linkstate.LinkState(
                    frame.public_key, frame.sequence, frame.links, frame.changed, frame.signature
                )
                self._perform(self._states.step(linkstate.Heard(peer.router or b"", state), time.monotonic()))
            case PageFrame():
                self._take_page(peer, _page(frame))
            case LinkSynced(stamp):
                peer.stamp = stamp
                self._try_parked()
                if not self._forwarder.synced:
                    self._forwarder.synced = True
                    self._log.info("synced", neighbour=peer.name)
                    self._release()
            case Transfer():
                await self._arrived(peer, frame)

    async def _arrived(self, peer: Peer, frame: Transfer) -> None:
        stream = peer.up_since
        arrival = Arrival(lambda problem: peer.answer(stream, frame.number, problem))
        expires = time.monotonic() + frame.ttl_ms / 1000 if frame.ttl_ms else _NEVER

        def passed_on(error: Exception | None) -> None:
            arrival.half(Problem.of(error) if isinstance(error, SecrouteError) else None)

        self.submit(
            Item(frame.batch, frame.mode, expires, frame.header, frame.destinations, peer.router or b"", done=passed_on)
        )
        size = int(frame.batch.bits.nbytes + frame.batch.payloads.nbytes)
        job = Job(arrival, frame.number, frame.mode, frame.batch, expires, size)
        if not await self._node.take_from_link(job):
            arrival.half(None)

    # --- routing -----------------------------------------------------------------------------------------------------

    async def inject(self, job: Job) -> None:
        """Bring a published batch into the network; the job is refused if it cannot be kept."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: Exception | None) -> None:
            if isinstance(error, SecrouteError):
                job.refuse(error)
            if not future.done():
                future.set_result(None)

        self.injected += len(job.batch)
        self.submit(Item(job.batch, job.mode, job.expires, published=True, done=done))
        await future

    def submit(self, item: Item) -> None:
        """Something to route."""
        if item.header is not None:
            item.behind = item.behind or self._caught_up_with(item.neighbour)
        self._items.append(item)
        self._work.set()

    async def _work_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._work.wait()
            self._work.clear()
            items, self._items = self._items, []
            unit = LinkUnit(done=self._done, origins_dropped=self._origins_dropped)
            unit.pages = [(*key, data) for key, data in self._page_writes.items()]
            self._done, self._origins_dropped, self._page_writes = [], [], {}
            results = await loop.run_in_executor(self._thread, self._forwarder.process, self.view, items, unit)
            for routed in results:
                self._finish(routed)

    def _finish(self, routed: Routed) -> None:
        item = routed.item
        if routed.error is not None:
            self._failed(item, routed.error)
            return
        if routed.parked:
            self._parked.append((time.monotonic() + PARK_S, item))
            return
        self.duplicates += routed.duplicates
        self.reinjected += routed.anew
        for router, number, messages in routed.held:
            self._held.setdefault(router, {})[number] = (messages, item.expires)
        for outgoing in routed.outgoing:
            peer = next((peer for peer in self.peers.values() if peer.router == outgoing.neighbour), None)
            if peer is not None:
                peer.forward(outgoing)
            else:  # the link broke while this was routed
                self._again(outgoing)
        if item.kept is not None:
            self._drop_ref(item.kept)
        if routed.held:
            self._release()
        item.done(None)

    def _failed(self, item: Item, error: SecrouteError) -> None:
        if item.published or item.header is not None:
            item.done(error)  # whoever sent it still has it
        elif item.batch is None:
            self._log.error("kept-unreadable", row=item.kept.id if item.kept else 0, reason=str(error))
        else:
            self._log.error("links-store-refuses", code=error.code, reason=str(error))
            asyncio.get_running_loop().call_later(STORE_RETRY_S, self.submit, item)

    def _drop_ref(self, kept: Kept) -> None:
        kept.refs -= 1
        if kept.refs <= 0:
            self._done.append(kept.id)
            self._work.set()

    def delivered(self, outgoing: Outgoing) -> None:
        """A neighbour has it."""
        if outgoing.kept is not None:
            self._drop_ref(outgoing.kept)

    def refused(self, peer: Peer, outgoing: Outgoing, problem: Problem) -> None:
        """A neighbour will never take it."""
        self._log.error("transfer-refused", neighbour=peer.name, code=problem.code, messages=len(outgoing.batch))
        self.delivered(outgoing)

    # --- figures -----------------------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether a neighbour has told what it knows."""
        return self._forwarder.synced

    @property
    def held(self) -> int:
        """Batches kept for routers that are away."""
        return sum(map(len, self._held.values()))

    def behind(self, peer: Peer) -> list[bytes]:
        """The routers that are reached through a neighbour, as things are."""
        number = self.view.numbers.get(peer.router or b"", -1)
        return [router for router, x in self.view.numbers.items() if self.view.hops.expected_from(x, number)]

    def origins(self) -> dict[bytes, int]:
        """Every other router heard of, and how many filters it advertises."""
        known = {*self._book.origins(), *self.view.graph.ids} - {self.router}
        return {origin: self._book.filters(origin) for origin in sorted(known)}


def _frame(page: Page) -> PageFrame:
    head = (page.public_key, page.sequence, page.index, page.scope, page.durable)
    return PageFrame(*head, page.bits, page.epochs, page.signature)


def _page(frame: PageFrame) -> Page:
    head = (frame.public_key, frame.sequence, frame.index, frame.scope, frame.durable)
    return Page(*head, frame.bits, frame.epochs, frame.signature)
