"""A router's part in the network: neighbours, link states, pages, and messages that go on. UNTRUSTED side, asyncio.

One per node that has neighbours. It owns no table of the node: published and arriving batches pass through here on
their way to the node's own pipeline. What is uncertain is forwarded or kept, never dropped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from secroute.errors import OverlayError, SecrouteError
from secroute.opaque import EncodedFilters
from secroute.overlay import linkstate
from secroute.router.guard import DuplicateGuard
from secroute.router.jobs import Job
from secroute.router.links_forward import ANYBODY, Forwarder, Item, Kept, Outgoing, Routed
from secroute.router.links_host import Arrival, LinkHost
from secroute.router.links_pages import Demands
from secroute.router.links_peer import Peer
from secroute.router.links_store import LinkStore, LinkUnit, Numbers, signing_key
from secroute.router.links_view import OriginTables, View
from secroute.wire.frames import Mode, Problem
from secroute.wire.link_frames import (
    LinkFrame,
    LinkStateFrame,
    LinkSynced,
    PageFrame,
    Transfer,
)

TICK_S = 0.05
PARK_S = 2.0  # how long a copy from an unknown state of the network waits for this router to get there
REFRESH_S = 600.0
STORE_RETRY_S = 0.5
_MIB = 1_048_576
_NEVER = float("inf")


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
        self._tables = OriginTables(node.engine_name)
        self._demands = Demands(self.key, self._tables, node.log)
        bounds = config.guard
        guard = DuplicateGuard(folder, window_s=bounds.window_s, keys_max=bounds.keys_max, load=self._store.seen_keys)
        guard.rebuild(self._store.seen(time.time_ns() // 1_000_000 - int(bounds.window_s * 2000)))
        self._guard = guard
        queue_bytes = config.overlay.queue_mib * _MIB
        self._forwarder = Forwarder(self._store, self._numbers, self._tables, guard, self.router, queue_bytes)
        self._forwarder.keep_for = self._demands.keeps_for
        self.peers = {each.name: Peer(self, each.name, each.weight) for each in config.neighbours}
        self._history: list[bytes] = []
        self.view = View.of(self._states, self.scheme, None, self._history)
        self._items: list[Item] = []
        self._done: list[int] = []
        self._parked: list[tuple[float, Item]] = []
        self._held: dict[bytes, dict[int, tuple[int, float]]] = {}
        self._work = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "secroute-links")
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()
        self._store_failed = False
        self.injected = self.reinjected = self.duplicates = 0
        self._recover()

    def _recover(self) -> None:
        self._demands.restore(self._store.pages())
        rows = self._forwarder.recover()
        for number, held_for, expires in rows:
            self._held.setdefault(held_for or ANYBODY, {})[number] = (0, expires)
        for endpoint, filters in self._node.local_filters():
            self._demands.changed(endpoint, [filters], [])
        self._log.info("overlay", router=self.router, scheme=self.scheme, neighbours=len(self.peers), kept=len(rows),
                       origins=len(self._demands.filters()))  # fmt: skip

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
                self._forget()
            if now - refreshed >= REFRESH_S:
                refreshed = now
                self._demands.refresh()

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
        self._demands.network_changed(self.view.numbers)
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
        for page in self._demands.everything():
            peer.send(page)
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

    def _forget(self) -> None:
        for origin in self._demands.forget(self._forget_s):
            held = self._held.pop(origin, {})
            self._done += held
            self._work.set()
            messages = sum(count for count, _ in held.values())
            self._log.warning("router-forgotten", router=origin, batches=len(held), messages=messages)

    # --- pages -------------------------------------------------------------------------------------------------------

    def filters_changed(
        self, endpoint: int, new: Iterable[EncodedFilters], old: Iterable[EncodedFilters] | None
    ) -> None:
        """Local receivers changed what they ask for; called from the node's control thread."""
        gone = None if old is None else list(old)
        self._loop.call_soon_threadsafe(self._demands.changed, endpoint, list(new), gone)

    def _flush_pages(self) -> None:
        for page in self._demands.flush(self._node.durable_epochs(), self._numbers.next):
            self._flood(page, None)

    def _flood(self, page: PageFrame, came_from: Peer | None) -> None:
        for peer in self.peers.values():
            if peer is not came_from:
                peer.send(page)

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
                if self._demands.take(frame, self.view.numbers):
                    self._work.set()
                    self._flood(frame, peer)
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
            pages, dropped = self._demands.take_writes()
            unit = LinkUnit(done=self._done, pages=pages, origins_dropped=dropped)
            self._done = []
            results = await loop.run_in_executor(self._thread, self._forwarder.process, self.view, items, unit)
            self._note_store(unit)
            for routed in results:
                self._finish(routed)

    def _note_store(self, unit: LinkUnit) -> None:
        """What was not written is written later; else it would stay on disk, and count as waiting, for ever."""
        error, failed = unit.error, self._store_failed
        self._store_failed = error is not None
        if error is not None:
            self._done = unit.done + self._done
            self._demands.put_back(unit.pages, unit.origins_dropped)
            self._loop.call_later(STORE_RETRY_S, self._work.set)
            if not failed:
                self._log.error("links-store-refuses", code=error.code, reason=str(error))
        elif failed:
            self._log.info("links-store-recovered")

    def _finish(self, routed: Routed) -> None:
        item = routed.item
        if routed.error is not None:
            self._failed(routed, routed.error)
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

    def _failed(self, routed: Routed, error: SecrouteError) -> None:
        item = routed.item
        if item.published or item.header is not None:
            item.done(error)  # whoever sent it still has it
        elif routed.unreadable:
            self._log.error("kept-unreadable", row=item.kept.id if item.kept else 0, reason=str(error))
        else:
            self._loop.call_later(STORE_RETRY_S, self.submit, item)

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
        known = dict.fromkeys(set(self.view.graph.ids) - {self.router}, 0)
        return {**known, **self._demands.filters()}
