"""Where a batch goes next: duplicates out, match, choose neighbours, keep on disk, in one transaction. UNTRUSTED side.

Runs in the links' own thread. A copy travels along the tree of its source in the network named by its stamp. A router
that is in another state of the network does not guess: if it has been in that state and moved on, it brings the
messages in anew as their source; if it has never been there it waits to get there. So a copy is never forwarded by a
tree that the next router does not share, and nothing falls between two trees.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.errors import InputError, QueueFullError, StoreError
from secroute.opaque import EncodedBatch
from secroute.overlay.hops import Hop, Wanted
from secroute.router.guard import DuplicateGuard, Keys, keys_of
from secroute.router.links_store import KeptRow, LinkStore, LinkUnit, Numbers
from secroute.router.links_view import OriginTables, View
from secroute.router.parcels import take
from secroute.wire.columns import batch_to_pb
from secroute.wire.frames import Mode
from secroute.wire.link_frames import Header

ANYBODY = b""  # held for whoever wants it, until the network is known
PART_BYTES_MAX = limits.FRAME_BYTES_MAX - 4_096  # columns of one transfer; header and scope need less than the rest
Rows = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Kept:
    """A row on disk, and how many transfers still need it."""

    id: int
    refs: int


@dataclass(slots=True, eq=False)
class Item:
    """Messages to route: published here, come over a link, or brought in anew."""

    batch: EncodedBatch | None
    """None: it is on disk, in row ``kept``."""
    mode: Mode
    expires: float
    """Monotonic; infinity: never."""
    header: Header | None = None
    """None: this router is their source."""
    destinations: bytes = b""
    neighbour: bytes = b""
    published: bool = False
    """By a client, who may send it again."""
    behind: bool = False
    """The network of its stamp is no longer that of the neighbour it came from (or it waited long enough)."""
    kept: Kept | None = None
    """The row that this takes the place of."""
    held_for: bytes = b""
    """It waited for this router; others that are away have rows of their own."""
    done: Callable[[Exception | None], None] = lambda error: None


@dataclass(slots=True, eq=False)
class Outgoing:
    """Messages for one neighbour."""

    neighbour: bytes
    header: Header
    batch: EncodedBatch
    mode: Mode
    expires: float
    destinations: bytes
    kept: Kept | None


@dataclass(slots=True)
class Routed:
    """What became of an item."""

    item: Item
    outgoing: list[Outgoing] = field(default_factory=list)
    held: list[tuple[bytes, int, int]] = field(default_factory=list)
    """(router, row, messages)."""
    parked: bool = False
    anew: int = 0
    duplicates: int = 0
    error: StoreError | QueueFullError | None = None
    unreadable: bool = False
    """Its row is damaged: trying again is in vain."""


class Forwarder:
    """The links' side of the disk and of matching."""

    def __init__(
        self, store: LinkStore, numbers: Numbers, tables: OriginTables, guard: DuplicateGuard, me: bytes, bytes_max: int
    ) -> None:
        self._store = store
        self._numbers = numbers
        self._tables = tables
        self._guard = guard
        self._me = me
        self._bytes_max = bytes_max
        self._sizes: dict[int, int] = {}
        self._next_id = 1
        # Which views re-injected what must not be mistaken for those of an earlier process.
        self._life = secrets.token_bytes(16)
        self._forget_before = 0
        self.bytes_kept = 0
        self.keep_for: Callable[[bytes, bool], bool] = lambda origin, durable: durable
        self.synced = False

    def recover(self) -> list[tuple[int, bytes | None, float]]:
        """(row, held for, expiry) of everything that the last process kept."""
        found = []
        now, unix_ms = time.monotonic(), time.time_ns() // 1_000_000
        for number, held_for, expires_ms, size in self._store.kept():
            self._note_size(number, size)
            self._next_id = number + 1
            expires = now + (expires_ms - unix_ms) / 1000 if expires_ms else float("inf")
            found.append((number, held_for, expires))
        return found

    def _note_size(self, number: int, size: int) -> None:
        self._sizes[number] = size
        self.bytes_kept += size

    def process(self, view: View, items: list[Item], unit: LinkUnit) -> list[Routed]:
        """Route items and commit everything together; if the disk refuses, nothing of it happened."""
        unix_ms = time.time_ns() // 1_000_000
        unit.forget_seen_before = self._forget_before
        mark = self._guard.next_segment
        results: list[Routed] = []
        try:
            for item in items:
                results.append(self._route(view, item, unit, unix_ms))
            if unit:
                self._store.commit(unit)
            self._forget_before = self._guard.committed(unix_ms)
        except StoreError as error:
            self._guard.failed()
            self._guard.next_segment = mark
            unit.error = error
            return [Routed(item, error=error) for item in items]
        for row in unit.kept:
            self._note_size(row.id, len(row.data))
        for number in unit.done:
            self.bytes_kept -= self._sizes.pop(number, 0)
        return results

    # --- one item ----------------------------------------------------------------------------------------------------

    def _route(self, view: View, item: Item, unit: LinkUnit, unix_ms: int) -> Routed:
        if item.batch is None:
            try:
                item.batch = self._store.load(item.kept.id if item.kept else 0)
            except (StoreError, InputError) as error:
                return Routed(item, unreadable=True, error=StoreError(f"links: a kept row cannot be read: {error}"))
        # Who sent it keeps it and tries again. Publishers are stopped first, so that what is under way finds room.
        room = self._bytes_max if item.published else 2 * self._bytes_max if item.header is not None else float("inf")
        if self.bytes_kept > room:
            full = QueueFullError(f"{self.bytes_kept} bytes wait for neighbours, at most {self._bytes_max}")
            return Routed(item, error=full)
        if item.expires <= time.monotonic():
            return Routed(item)
        header = item.header
        with_tree = header is not None and self._shares_tree(view, item, header)
        if header is not None and not with_tree and header.stamp not in view.former and not item.behind:
            return Routed(item, parked=True)
        fresh = self._fresh(view, item, with_tree, unit, unix_ms)
        routed = Routed(item, duplicates=int(len(fresh) - fresh.sum()))
        if fresh.any():
            batch = item.batch if fresh.all() else take(item.batch, np.flatnonzero(fresh))
            if with_tree and header is not None:
                self._pass_on(view, item, batch, fresh, header, routed, unit, unix_ms)
            else:
                routed.anew = 0 if item.published else len(batch)
                self._bring_in(view, item, batch, routed, unit, unix_ms)
        return routed

    def _shares_tree(self, view: View, item: Item, header: Header) -> bool:
        if header.stamp != view.stamp or header.source not in view.numbers or item.neighbour not in view.numbers:
            return False
        wide = len(item.destinations) == len(item.batch or ()) * _bytes_of(len(view.graph))
        if view.hops.names_destinations:
            return wide
        return view.hops.expected_from(view.numbers[header.source], view.numbers[item.neighbour])

    def _fresh(self, view: View, item: Item, with_tree: bool, unit: LinkUnit, unix_ms: int) -> Rows:
        """Rows that have not been routed for the same reason before. Only what is needed is remembered."""
        assert item.batch is not None  # noqa: S101 - for the type checker
        fresh = np.ones(len(item.batch), bool)
        header, reasons = item.header, []
        if item.mode is Mode.AT_LEAST_ONCE and header is not None:
            reasons.append(b"copy" + header.injector + header.injection.to_bytes(8, "little"))
        if item.mode is Mode.AT_LEAST_ONCE and item.published:
            reasons.append(b"published")
        if header is not None and not with_tree:
            # Once per message and view: however often neighbours disagree, this ends.
            reasons.append(b"anew" + self._life + view.version.to_bytes(8, "little"))
        if reasons:
            keys = keys_of(item.batch)
            for reason in reasons:
                fresh &= self._first_time(keys ^ _mask(reason), fresh, unit, unix_ms)
        return fresh

    def _first_time(self, keys: Keys, among: Rows, unit: LinkUnit, unix_ms: int) -> Rows:
        duplicate, names = self._guard.check(np.ascontiguousarray(keys))
        new = ~duplicate & among
        rows = np.flatnonzero(new)
        if len(rows):
            segment, data = self._guard.take(np.ascontiguousarray(keys[rows]), [names[row] for row in rows.tolist()])
            unit.seen.append((segment, unix_ms, data))
        return np.asarray(new)

    def _pass_on(
        self, view: View, item: Item, batch: EncodedBatch, fresh: Rows, header: Header, routed: Routed, unit: LinkUnit,
        unix_ms: int,
    ) -> None:  # fmt: skip
        """Along the tree that the header names."""
        if view.hops.names_destinations:
            packed = np.frombuffer(item.destinations, np.uint8).reshape(len(fresh), -1)[fresh]
            wanted = np.unpackbits(packed, axis=1, count=len(view.graph), bitorder="little").astype(bool)
            wanted[:, view.me] = False
        else:
            wanted = self._tables.demand(view, batch, lambda origin, durable: False).wanted
        hops = view.hops.next(view.numbers[header.source], wanted)
        self._send(view, item, batch, hops, (header.injector, header.injection), routed, unit, unix_ms)

    def _bring_in(
        self, view: View, item: Item, batch: EncodedBatch, routed: Routed, unit: LinkUnit, unix_ms: int
    ) -> None:
        """With this router as the source; what is for routers that are away is kept for them."""
        surely = item.mode is Mode.AT_LEAST_ONCE
        demand = self._tables.demand(view, batch, self._keeps(item))
        hops = view.hops.next(view.me, demand.wanted)
        self._send(view, item, batch, hops, (self._me, self._numbers.next()), routed, unit, unix_ms)
        holds = dict(demand.away)
        if surely and not self.synced:
            holds = {ANYBODY: np.arange(len(batch))}
        for router, rows in holds.items():
            number = self._keep(take(batch, rows), router, item.expires, unit, unix_ms)
            routed.held.append((router, number, len(rows)))

    def _keeps(self, item: Item) -> Callable[[bytes, bool], bool]:
        if item.mode is not Mode.AT_LEAST_ONCE:
            return lambda origin, durable: False
        if item.held_for:
            return lambda origin, durable: origin == item.held_for
        return self.keep_for

    def _send(
        self, view: View, item: Item, batch: EncodedBatch, hops: list[Hop], copy: tuple[bytes, int], routed: Routed,
        unit: LinkUnit, unix_ms: int,
    ) -> None:  # fmt: skip
        if not hops:
            return
        kept = None
        if item.mode is Mode.AT_LEAST_ONCE:
            rows = np.unique(np.concatenate([hop.rows for hop in hops]))
            kept = Kept(self._keep(take(batch, rows), None, item.expires, unit, unix_ms), 0)
        for hop in hops:
            header = Header(*copy, view.graph.ids[hop.source], view.stamp)
            to = view.graph.ids[hop.neighbour]
            for part, destinations in _fitting(take(batch, hop.rows), hop.destinations):
                routed.outgoing.append(Outgoing(to, header, part, item.mode, item.expires, destinations, kept))
        if kept is not None:
            kept.refs = len(routed.outgoing)

    def _keep(self, batch: EncodedBatch, held_for: bytes | None, expires: float, unit: LinkUnit, unix_ms: int) -> int:
        number = self._next_id
        self._next_id += 1
        left = 0 if expires == float("inf") else unix_ms + int((expires - time.monotonic()) * 1000)
        unit.kept.append(KeptRow(number, held_for, left, batch_to_pb(batch).SerializeToString()))
        return number


def _bytes_of(routers: int) -> int:
    return (routers + 7) // 8


def _fitting(batch: EncodedBatch, destinations: Wanted | None) -> Iterator[tuple[EncodedBatch, bytes]]:
    """A batch in parts that fit into a frame each, with their destinations.

    What a client's frame just held is too much for a transfer, which says more: the neighbour would refuse the frame
    and end the link, again and again.
    """
    packed = _packed(destinations)
    size = batch.bits.nbytes + batch.ids.nbytes + batch.offsets.nbytes + batch.payloads.nbytes + len(packed)
    if size <= PART_BYTES_MAX or len(batch) == 1:
        yield batch, packed
        return
    for rows in np.array_split(np.arange(len(batch)), 2):
        yield from _fitting(take(batch, rows), None if destinations is None else destinations[rows])


def _packed(destinations: Wanted | None) -> bytes:
    return b"" if destinations is None else np.packbits(destinations, axis=1, bitorder="little").tobytes()


def _mask(reason: bytes) -> Keys:
    digest = hashlib.blake2b(reason, digest_size=32, person=b"secroute-again").digest()
    return np.frombuffer(digest, np.uint8)
