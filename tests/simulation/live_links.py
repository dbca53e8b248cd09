"""Real ``Links`` objects of several routers in one process: pipes for cables, a list for each node's own receivers."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.overlay.graph import Graph
from secroute.router.config import Config, GuardConfig, Neighbour, OverlayConfig, StoreConfig
from secroute.router.jobs import Job
from secroute.router.links import Links
from secroute.router.logs import Log
from secroute.router.parcels import Kind, endpoint_of
from secroute.wire.frames import Mode, PublishResult
from secroute.wire.link_frames import LinkFrame

SCOPE = Scope(b"s" * 16, 1, b"p" * 32)
INFINITE = float("inf")


class Nobody:
    """A publisher that does not listen."""

    commits_pending = 0

    def settle(self, result: PublishResult) -> None:
        return None


class FakeNode:
    """The receivers of one router; what it remembers survives a crash, as its store does."""

    def __init__(self, folder: Path, number: int, graph: Graph, scheme: str, filters: list[int]) -> None:
        neighbours = tuple(
            Neighbour(f"r{other}", "", graph.weight(number, other)) for other in graph.neighbours[number]
        )
        self.config = Config(
            store=StoreConfig(folder / f"r{number}" / "store.db", "normal"),
            guard=GuardConfig(keys_max=10_000),
            overlay=OverlayConfig(name=f"r{number}", scheme=scheme),  # type: ignore[arg-type]
            neighbours=neighbours,
        )
        self.engine_name = "auto"
        self.out = io.StringIO()
        self.log = Log(self.out)
        self.filters = filters
        bits = np.array(filters, np.uint64).reshape(-1, 1)
        self._parts = [EncodedFilters(SCOPE, bits)] if filters else []
        self.got: Counter[bytes] = Counter()

    def deliver(self, batch: EncodedBatch) -> None:
        for row, number in zip(batch.bits[:, 0].tolist(), batch.ids, strict=True):
            if any(wanted & ~row == 0 for wanted in self.filters):
                self.got[number.tobytes()] += 1

    async def take_from_link(self, job: Job) -> bool:
        self.deliver(job.batch)
        job.publisher.settle(PublishResult(job.sequence, None, 0))
        return True

    def durable_epochs(self) -> Iterable[tuple[bytes, tuple[int, ...]]]:
        return [(SCOPE.space, (SCOPE.epoch,))] if self.filters else []

    def local_filters(self) -> Iterable[tuple[int, EncodedFilters]]:
        return [(endpoint_of(Kind.DURABLE, 1), part) for part in self._parts]


class LiveNetwork:
    """Routers, cables, crashes."""

    def __init__(self, folder: Path, graph: Graph, scheme: str, rng: random.Random, bits: int) -> None:
        self.graph, self.rng, self._bits = graph, rng, bits
        filters = [[self._some(2) for _ in range(rng.randint(0, 2))] for _ in range(len(graph))]
        self.nodes = [FakeNode(folder, number, graph, scheme, filters[number]) for number in range(len(graph))]
        self.links: list[Links | None] = [None] * len(graph)
        self.cut: set[tuple[int, int]] = set()
        self._cables: list[asyncio.Task[None]] = []
        self._ends: dict[tuple[int, int], list[asyncio.Task[None]]] = {}
        self.accepted: dict[bytes, int] = {}
        self._next = 0

    def _some(self, most: int) -> int:
        return sum(1 << bit for bit in self.rng.sample(range(self._bits), self.rng.randint(1, most)))

    async def start(self) -> None:
        for number in range(len(self.nodes)):
            self.boot(number)
        self._cables = [asyncio.create_task(self._cable(a, b)) for a, b in self.graph.weights]
        await self.until(self.whole, 20)

    def boot(self, number: int) -> None:
        if self.links[number] is None:
            links = self.links[number] = Links(self.nodes[number])
            links.start()

    async def crash(self, number: int) -> None:
        """Nothing is said or written any more; what was committed is on disk."""
        links, self.links[number] = self.links[number], None
        for pair, tasks in self._ends.items():
            if number in pair:
                for task in tasks:
                    task.cancel()
        if links is not None:
            await links.close()

    async def close(self) -> None:
        for task in self._cables:
            task.cancel()
        await asyncio.gather(*self._cables, return_exceptions=True)
        for number in range(len(self.links)):
            await self.crash(number)

    async def _cable(self, a: int, b: int) -> None:
        """Carries the link whenever both ends are there and the cable is whole."""
        while True:
            one, other = self.links[a], self.links[b]
            if one is None or other is None or (a, b) in self.cut:
                await asyncio.sleep(0.01)
                continue
            there: asyncio.Queue[LinkFrame | None] = asyncio.Queue()
            back: asyncio.Queue[LinkFrame | None] = asyncio.Queue()
            tasks = [
                asyncio.create_task(self._end(one, f"r{b}", back, there)),
                asyncio.create_task(self._end(other, f"r{a}", there, back)),
            ]
            self._ends[a, b] = tasks
            try:
                while not any(task.done() for task in tasks) and (a, b) not in self.cut:
                    await asyncio.sleep(0.005)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _end(self, links: Links, name: str, inward: asyncio.Queue, outward: asyncio.Queue) -> None:  # type: ignore[type-arg]
        async def write(frame: LinkFrame) -> None:
            await asyncio.sleep(0)
            outward.put_nowait(frame)

        await links.peers[name].serve(inward.get, write, None)

    # --- messages ----------------------------------------------------------------------------------------------------

    async def publish(self, number: int, count: int) -> None:
        """At-least-once; counts as accepted only if the router says so."""
        links = self.links[number]
        if links is None:
            return
        bits = np.array([[self._some(self._bits)] for _ in range(count)], np.uint64)
        ids = [(self._next + i).to_bytes(16, "little") for i in range(count)]
        self._next += count
        batch = EncodedBatch.of(SCOPE, bits, ids, [b"x" * 40 + one for one in ids])
        job = Job(Nobody(), 1, Mode.AT_LEAST_ONCE, batch, INFINITE, 100)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.5):
                await links.inject(job)
            if job.problem is None and self.links[number] is links:
                self.nodes[number].deliver(batch)
                self.accepted.update(zip(ids, bits[:, 0].tolist(), strict=True))

    def missing(self) -> int:
        return sum(
            name not in node.got
            for name, row in self.accepted.items()
            for node in self.nodes
            if any(wanted & ~row == 0 for wanted in node.filters)
        )

    def describe(self) -> str:
        """For a failed test: what every router still has to do."""
        lines = []
        for links, node in zip(self.links, self.nodes, strict=True):
            if links is not None:
                peers = [(peer.name, peer.up, peer.queued, peer.open_in) for peer in links.peers.values()]
                ended = [task for task in links._tasks if task.done()]
                held = {router.hex()[:6]: len(rows) for router, rows in links._held.items()}
                lines.append(f"{node.config.overlay.name} {links.router.hex()[:6]} {peers} held {held} "
                             f"parked {len(links._parked)} items {len(links._items)} ended {ended}")  # fmt: skip
            lost = [name for name, row in self.accepted.items() if name not in node.got
                    and any(wanted & ~row == 0 for wanted in node.filters)]  # fmt: skip
            lines.append(f"   misses {len(lost)}; " + "; ".join(node.out.getvalue().splitlines()[-6:]))
        return "\n".join(lines)

    def whole(self) -> bool:
        views = [links.view for links in self.links if links is not None]
        known = all(
            sum(links.origins().values()) == sum(len(set(n.filters)) for n in self.nodes if n is not node)
            for links, node in zip(self.links, self.nodes, strict=True)
            if links is not None
        )
        return known and len({view.stamp for view in views}) == 1 and len(views[0].graph) == len(self.nodes)

    async def until(self, condition: object, timeout_s: float) -> bool:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while not condition():  # type: ignore[operator]
            if loop.time() > end:
                return False
            await asyncio.sleep(0.01)
        return True
