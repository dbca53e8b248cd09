"""What links forward by: the network as it is now, and every origin's filters in matching tables. UNTRUSTED, no I/O.

A view never changes; another state of the network makes another view. Tables are shared with the thread that matches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from secroute.engine import LiveTable
from secroute.opaque import EncodedBatch, Scope, Words
from secroute.overlay.adverts import Page
from secroute.overlay.graph import Graph
from secroute.overlay.hops import Hops, Wanted
from secroute.overlay.linkstate import LinkStates
from secroute.overlay.paths import ShortestPaths
from secroute.router.parcels import Ints

_HISTORY = 256  # former states of the network that are recognised


@dataclass(frozen=True, slots=True)
class View:
    """One state of the network, seen from this router."""

    version: int
    """Counts this process's views."""
    stamp: bytes
    former: frozenset[bytes]
    """Stamps of earlier views: what carries one of them is behind, not ahead."""
    graph: Graph
    numbers: dict[bytes, int]
    """Of the routers that can be reached; no others are in the graph."""
    me: int
    hops: Hops

    @classmethod
    def of(cls, states: LinkStates, scheme: str, before: View | None, history: list[bytes]) -> View:
        """The present view; ``history`` is kept by the caller and grows here."""
        graph = states.component()
        numbers = {router: number for number, router in enumerate(graph.ids)}
        if before is not None:
            history.append(before.stamp)
            del history[:-_HISTORY]
        me = numbers[states.router]
        return cls(
            before.version + 1 if before else 1, states.stamp(), frozenset(history), graph, numbers,
            me, Hops(scheme, ShortestPaths(graph), me),
        )  # fmt: skip


@dataclass(slots=True)
class Demand:
    """Who wants which message of a batch."""

    wanted: Wanted
    """Reachable routers, by number; never this one."""
    away: dict[bytes, Ints] = field(default_factory=dict)
    """Routers that cannot be reached now: the rows to keep for them."""


class OriginTables:
    """Every other router's filters, by scope and width; an interface is (slot of the router, durable or not)."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._tables: dict[tuple[Scope, int], LiveTable] = {}
        self._slots: dict[bytes, int] = {}
        self._origins: list[bytes] = []
        self._spools: dict[tuple[bytes, int], Page] = {}

    def _interface(self, page: Page) -> int:
        origin = page.origin
        with self._lock:
            if origin not in self._slots:
                self._slots[origin] = len(self._origins)
                self._origins.append(origin)
            return 2 * self._slots[origin] + page.durable

    def replace(self, old: Page | None, new: Page | None) -> None:
        """A page instead of another; what is new is there before what is old goes."""
        rows = [_rows_of(page) for page in (old, new)]
        if new is not None:
            added = [row for row in rows[1] if row not in rows[0] or old is None or not _alike(old, new)]
            self._change(new, added, LiveTable.add)
        if old is not None:
            gone = [row for row in rows[0] if row not in rows[1] or new is None or not _alike(old, new)]
            self._change(old, gone, LiveTable.remove)
        for page in (old, new):
            if page is not None:
                key = (page.origin, page.index)
                with self._lock:
                    if page is new and page.epochs:
                        self._spools[key] = page
                    elif not (new and new.epochs):
                        self._spools.pop(key, None)

    def _change(self, page: Page, rows: list[bytes], how: Callable[[LiveTable, int, Words], None]) -> None:
        if not rows:
            return
        key = (page.scope, page.bits.shape[1])
        interface = self._interface(page)
        with self._lock:
            if key not in self._tables:
                self._tables[key] = LiveTable(key[1], engine=self._engine, match_all=True)
            table = self._tables[key]
        how(table, interface, np.frombuffer(b"".join(rows), "<u8").reshape(-1, key[1]))

    def demand(self, view: View, batch: EncodedBatch, keep_for: Callable[[bytes, bool], bool]) -> Demand:
        """Who wants what; ``keep_for(router, durable)`` says whether messages wait for a router that is away."""
        demand = Demand(np.zeros((len(batch), len(view.graph)), bool))
        with self._lock:
            origins = list(self._origins)
            spools = {page.origin for page in self._spools.values() if page.wants_all(batch.scope)}
            table = self._tables.get((batch.scope, batch.bits.shape[1]))
        if table is not None:
            found = table.forward(batch.bits)
            rows, interfaces = found.rows_of_values(), found.values
            for interface in np.unique(interfaces).tolist():
                origin = origins[interface // 2] if interface // 2 < len(origins) else self._origins[interface // 2]
                _note(demand, view, origin, bool(interface & 1), rows[interfaces == interface], keep_for)
        for origin in spools:
            _note(demand, view, origin, True, np.arange(len(batch)), keep_for)
        demand.wanted[:, view.me] = False
        return demand

    def filters(self) -> int:
        """How many filters there are."""
        return sum(table.stats().filters for table in list(self._tables.values()))

    def close(self) -> None:
        """Close every table."""
        for table in self._tables.values():
            table.close()


def _alike(a: Page, b: Page) -> bool:
    return (a.scope, a.bits.shape[1], a.durable) == (b.scope, b.bits.shape[1], b.durable)


def _rows_of(page: Page | None) -> dict[bytes, None]:
    if page is None or page.epochs:
        return {}
    data, width = page.bits.tobytes(), page.bits.shape[1] * 8
    return dict.fromkeys(data[at : at + width] for at in range(0, len(data), width))


def _note(
    demand: Demand, view: View, origin: bytes, durable: bool, rows: Ints, keep_for: Callable[[bytes, bool], bool]
) -> None:
    if origin in view.numbers:
        demand.wanted[rows, view.numbers[origin]] = True
    elif keep_for(origin, durable):
        demand.away[origin] = np.union1d(demand.away.get(origin, np.zeros(0, np.int64)), rows)
