"""The live table: filters come and go while other threads forward.

UNTRUSTED side, pure. Base + delta + tombstones: a buffer takes new filters at once, segments are immutable but for the
reference counts, and background merges turn buffers and small segments into larger segments. The whole state is one
tuple that a merge replaces in one assignment.

Who locks: writers (`add`, `remove`, the last step of a merge) take the lock. Readers take none: they read the state
once and use it to the end, so a forward never waits. Every (interface, filter) is in exactly one part of a state.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from secroute import limits
from secroute.engine.dedupe import row_hashes, store_once
from secroute.engine.segments import Buffer, Segment
from secroute.engine.strategies import check_engine, check_rounds, require_compiler
from secroute.engine.types import Allowed, Csr, Ints, check_filters, check_interfaces, check_width, restrict
from secroute.errors import EngineError
from secroute.opaque import Words

_BUFFER_ROWS = (2_048, 16_384)  # few buffers keep a forward short while a merge runs
_BUFFER_WORDS = 1 << 17
_TOMBSTONES_MIN = 1_024
_BULK_ROWS = 1_024  # from here on one `add` becomes a segment of its own at once
_SAMPLE_MESSAGES = 1_024
_SAMPLE_EVERY = 64  # batches

Part = Buffer | Segment


class LiveMatches(NamedTuple):
    """Matching filters by value: message i matched ``filters[offsets[i]:offsets[i + 1]]``, each on its interface.

    Ascending by interface within a message.
    """

    offsets: Ints
    interfaces: Ints
    filters: Words


@dataclass(frozen=True, slots=True)
class LiveStats:
    """How the table stands; for metrics and for tests."""

    filters: int
    """Distinct live (interface, filter) pairs."""
    interfaces: int
    nbytes: int
    bytes_per_filter: float
    segments: int
    buffered: int
    """Rows in buffers, which are scanned until a merge takes them over."""
    tombstones: int
    """Removed rows that the next merges will drop."""
    merges: int
    failure: str
    """Why the last background merge failed, empty if it did not; the table is right all the same, but slower."""


class LiveTable:
    """Interfaces and their filters, changing. Safe to use from any number of threads."""

    def __init__(
        self, words: int, *, engine: str = "auto", rounds: int | None = None, match_all: bool = False,
        buffer_rows: int | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(words, int) or not 1 <= words <= limits.WORDS_MAX:
            raise EngineError(f"a table is 1..{limits.WORDS_MAX} words wide, not {words!r}")
        if buffer_rows is None:
            least, most = _BUFFER_ROWS
            buffer_rows = min(max(_BUFFER_WORDS // words // 8 * 8, least), most)
        if buffer_rows < 8 or buffer_rows % 8:
            raise EngineError(f"buffer_rows must be a positive multiple of 8, not {buffer_rows}")
        self.words = words
        self._engine = check_engine(engine)
        self._rounds = check_rounds(rounds)
        self._match_all = match_all
        self._buffer_rows = buffer_rows
        self._compiled = engine != "reference"
        if self._compiled:
            require_compiler()
        self._lock = threading.RLock()
        self._parts: tuple[Part, ...] = (self._new_buffer(),)  # the last one is the buffer that takes new rows
        self._live: dict[int, int] = {}  # interface -> live filters
        self._busy: set[int] = set()  # ids of parts that a running merge has claimed
        self._merges = 0
        self._failure = ""
        self._closed = False
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="secroute-merge")
        self._running: set[Future[None]] = set()
        self._recent: Words | None = None
        self._batches = 0

    # --- readers ---------------------------------------------------------------------------------------------------

    def forward(self, bits: Words, allowed: Allowed = None, *, threads: int = 1) -> Csr:
        """The interface ids that each message must be sent to, within those ``allowed`` (see ``types.Allowed``)."""
        parts = self._parts
        bits = check_width(bits, self.words, "messages")
        self._observe(bits)
        found = []
        for part in parts:
            if isinstance(part, Segment):
                found.append(part.table.forward(bits, allowed, live=part.counts, threads=threads))
            elif part.used:
                found.append(restrict(part.forward(bits), allowed))
        return _union(found, len(bits))

    def match_filters(self, bits: Words) -> LiveMatches:
        """Every live filter that matches each message, with its interface."""
        parts = self._parts
        bits = check_width(bits, self.words, "messages")
        none = np.zeros(0, np.int64)
        messages, owners, rows = [none], [none], [np.zeros((0, self.words), np.uint64)]
        for part in parts:
            found = part.match(bits)
            messages.append(found.rows_of_values())
            owners.append(part.owners[found.values])
            rows.append(part.rows[found.values])
        message, owner = np.concatenate(messages), np.concatenate(owners)
        order = np.lexsort((owner, message))
        offsets = np.zeros(len(bits) + 1, np.int64)
        np.cumsum(np.bincount(message, minlength=len(bits)), out=offsets[1:])
        return LiveMatches(offsets, owner[order], np.concatenate(rows)[order])

    def stats(self) -> LiveStats:
        """The table's size and state of merging."""
        with self._lock:
            parts = self._parts
            live = sum(self._live.values())
            nbytes = sum(part.nbytes for part in parts)
            return LiveStats(
                filters=live,
                interfaces=len(self._live),
                nbytes=nbytes,
                bytes_per_filter=nbytes / max(1, live),
                segments=sum(isinstance(part, Segment) for part in parts),
                buffered=sum(part.used for part in parts if isinstance(part, Buffer)),
                tombstones=sum(len(part) for part in parts) - live,
                merges=self._merges,
                failure=self._failure,
            )

    # --- writers ---------------------------------------------------------------------------------------------------

    def add(self, interface: int, filters: Words) -> None:
        """Add one reference to each filter of ``interface``; they match from now on."""
        owner = _one_interface(interface)
        filters = check_width(check_filters(filters, match_all=self._match_all), self.words, "filters")
        if not len(filters):
            return
        keep, copies = store_once(filters, np.zeros(len(filters), np.int32))
        counts = np.ones(len(filters), np.int64) if copies is None else np.diff(copies.offsets)
        filters = np.ascontiguousarray(filters[keep])
        with self._lock:
            self._check_open()
            fresh = self._add_known(owner, filters, counts)
            if len(fresh) >= _BULK_ROWS:
                self._add_bulk(owner, filters[fresh], counts[fresh])
            else:
                self._append(owner, filters[fresh], counts[fresh])
            self._live[owner] = self._live.get(owner, 0) + len(fresh)
            self._schedule()

    def remove(self, interface: int, filters: Words) -> None:
        """Take one reference from each filter of ``interface``; one without references never matches again.

        All or nothing: if a filter is unknown there, nothing changes and :class:`EngineError` says which.
        """
        owner = _one_interface(interface)
        filters = check_width(check_filters(filters, match_all=self._match_all), self.words, "filters")
        hashes = row_hashes(filters, np.full(len(filters), owner))
        with self._lock:
            self._check_open()
            taken: list[tuple[Part, Ints, Ints]] = []
            known = np.zeros(len(filters), bool)
            for part in self._parts:
                rows = part.find(owner, filters, hashes)
                here = rows >= 0
                places, references = np.unique(rows[here], return_counts=True)
                enough = part.counts[places] >= references
                known[here] = enough[np.searchsorted(places, rows[here])]
                taken.append((part, places, references))
            if not known.all():
                row = int(np.flatnonzero(~known)[0])
                raise EngineError(f"interface {owner} does not have filter {row} of those to remove (or not so often)")
            for part, places, references in taken:
                part.counts[places] -= references.astype(np.int32)
                self._forget(owner, int(np.count_nonzero(part.counts[places] == 0)))
            self._schedule()

    def remove_interface(self, interface: int) -> None:
        """Remove every filter of ``interface``, however often it was added."""
        owner = _one_interface(interface)
        with self._lock:
            self._check_open()
            if owner not in self._live:
                raise EngineError(f"interface {owner} has no filters here")
            for part in self._parts:
                part.counts[: len(part)][part.owners[: len(part)] == owner] = 0
            del self._live[owner]
            self._schedule()

    def merge(self) -> None:
        """Merge everything into one segment now, and wait for it (readers and writers go on meanwhile)."""
        self._wait()
        with self._lock:
            self._check_open()
            if self._parts[-1].used:  # type: ignore[union-attr]
                self._parts = (*self._parts, self._new_buffer())
            claimed = tuple(part for part in self._parts[:-1] if id(part) not in self._busy)
            self._busy.update(map(id, claimed))
        if claimed:
            self._merge(claimed)
        if self._failure:
            raise EngineError(f"merging failed: {self._failure}")

    def close(self) -> None:
        """Finish running merges and stop; the table still answers, but no longer changes."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True)

    # --- adding ----------------------------------------------------------------------------------------------------

    def _add_known(self, owner: int, filters: Words, counts: Ints) -> Ints:
        """Count references to filters that are stored already (perhaps as tombstones); the rows that are not."""
        hashes = row_hashes(filters, np.full(len(filters), owner))
        fresh = np.ones(len(filters), bool)
        for part in self._parts:
            rows = part.find(owner, filters, hashes)
            here = np.flatnonzero(rows >= 0)
            places = rows[here]
            revived = int(np.count_nonzero(part.counts[places] == 0))
            part.counts[places] += counts[here].astype(np.int32)
            fresh[here] = False
            if revived:
                self._live[owner] = self._live.get(owner, 0) + revived
        return np.flatnonzero(fresh)

    def _append(self, owner: int, rows: Words, counts: Ints) -> None:
        """Put new rows into the buffer, and into further ones if it gets full."""
        while len(rows):
            buffer = self._parts[-1]
            assert isinstance(buffer, Buffer)  # noqa: S101 - the last part is one by construction
            room = buffer.capacity - buffer.used
            if room == 0:
                self._parts = (*self._parts, self._new_buffer())
                continue
            buffer.extend(owner, rows[:room], counts[:room])
            rows, counts = rows[room:], counts[room:]

    def _add_bulk(self, owner: int, filters: Words, counts: Ints) -> None:
        """Many filters at once become a segment that is scanned until a merge gives it a better strategy."""
        engine = "scan" if self._compiled else "reference"
        owners = np.full(len(filters), owner, np.int64)
        segment, _ = Segment.build(filters, owners, counts.astype(np.int32), engine=engine, rounds=0, messages=None)
        segment.provisional = True
        self._parts = (*self._parts[:-1], segment, self._parts[-1])

    def _forget(self, owner: int, gone: int) -> None:
        if gone:
            self._live[owner] -= gone
            if self._live[owner] == 0:
                del self._live[owner]

    def _new_buffer(self) -> Buffer:
        return Buffer(self.words, self._buffer_rows, compiled=self._compiled)

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the table is closed")

    def _observe(self, bits: Words) -> None:
        """Keep a few recent messages: the grouping of the next merge learns bit frequencies from them."""
        self._batches += 1  # a lost update between threads costs nothing
        if len(bits) and (self._recent is None or self._batches % _SAMPLE_EVERY == 0):
            older = self._recent[-_SAMPLE_MESSAGES // 2 :] if self._recent is not None else bits[:0]
            self._recent = np.concatenate([older, bits[: _SAMPLE_MESSAGES // 2]])

    # --- merging ---------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Start a merge if there is something worth it; called with the lock held."""
        if self._closed or len(self._running) >= 2:
            return
        claimed = choose_merge([part for part in self._parts[:-1] if id(part) not in self._busy])
        if claimed:
            self._busy.update(map(id, claimed))
            future = self._pool.submit(self._merge, claimed)
            self._running.add(future)
            future.add_done_callback(self._merged)

    def _merged(self, future: Future[None]) -> None:
        with self._lock:
            self._running.discard(future)
            if not self._failure:
                self._schedule()

    def _wait(self) -> None:
        while True:
            with self._lock:
                running = list(self._running)
            if not running:
                return
            for future in running:
                future.exception()

    def _merge(self, claimed: tuple[Part, ...]) -> None:
        """Build one segment from the live rows of ``claimed`` and swap it in for them."""
        try:
            with self._lock:
                chosen = [np.flatnonzero(part.counts[: len(part)] > 0) for part in claimed]
            rows = np.concatenate([part.rows[take] for part, take in zip(claimed, chosen, strict=True)])
            owners = np.concatenate([part.owners[take] for part, take in zip(claimed, chosen, strict=True)])
            counts = np.zeros(len(rows), np.int32)
            segment, order = Segment.build(
                rows, owners, counts, engine=self._engine, rounds=self._rounds, messages=self._recent
            )
            with self._lock:
                self._swap(claimed, chosen, segment, order)
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        finally:
            with self._lock:
                self._busy.difference_update(map(id, claimed))

    def _swap(self, claimed: tuple[Part, ...], chosen: list[Ints], segment: Segment, order: Ints) -> None:
        """Replace ``claimed`` by ``segment``, taking over what happened to their rows meanwhile; lock held."""
        counts = np.concatenate([part.counts[take] for part, take in zip(claimed, chosen, strict=True)])
        segment.counts[:] = counts[order]
        gone = set(map(id, claimed))
        rest = tuple(part for part in self._parts if id(part) not in gone)
        self._parts = (segment, *rest) if len(segment) else rest
        for part, take in zip(claimed, chosen, strict=True):
            revived = part.counts[: len(part)] > 0
            revived[take] = False
            for row in np.flatnonzero(revived).tolist():
                self._append(
                    int(part.owners[row]), part.rows[row : row + 1], part.counts[row : row + 1].astype(np.int64)
                )
        self._merges += 1


def choose_merge(idle: list[Part]) -> tuple[Part, ...]:
    """What to merge next: full buffers and scanned segments, with segments that are not much larger than them.

    Sizes of segments so grow at least by half from one to the next: there are few of them, and a row is copied a
    logarithmic number of times. A segment that is a quarter tombstones is merged by itself.
    """
    raw = [part for part in idle if isinstance(part, Buffer) or part.provisional]
    segments = sorted((part for part in idle if not any(part is other for other in raw)), key=len)
    total = sum(map(len, raw))
    claimed: list[Part] = list(raw)
    for segment in segments:
        if total and len(segment) <= 2 * total:
            claimed.append(segment)
            total += len(segment)
    if not claimed:
        for segment in segments:
            dead = int(np.count_nonzero(segment.counts[: len(segment)] == 0))
            if 4 * dead > len(segment) and dead > _TOMBSTONES_MIN:
                return (segment,)
    return tuple(claimed)


def _one_interface(interface: int) -> int:
    return int(check_interfaces([interface])[0])


def _union(parts: list[Csr], count: int) -> Csr:
    """Results of several parts of a table as one."""
    filled = [part for part in parts if len(part.values)]
    if not filled:
        return Csr.empty(count)
    if len(filled) == 1:
        return filled[0]
    rows = np.concatenate([part.rows_of_values() for part in filled])
    return Csr.of_pairs(rows, np.concatenate([part.values for part in filled]), count, unique=True)
