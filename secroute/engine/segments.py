"""The parts of a live table: a small buffer that takes new filters at once, and segments that are built from buffers.

UNTRUSTED side, pure. Writers change both only under the live table's lock; readers take no lock. What a reader may see
change under its feet is one number per filter, its reference count: 0 means removed.
"""

from __future__ import annotations

import numpy as np

from secroute.engine.dedupe import row_hashes
from secroute.engine.table import ForwardingTable
from secroute.engine.types import NO_LIMIT, Counts, Csr, Ints
from secroute.opaque import Words

_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


class Segment:
    """Distinct (interface, filter) rows in the order of their hashes, with a forwarding table over them."""

    def __init__(self, table: ForwardingTable, rows: Words, owners: Ints, hashes: Words, counts: Counts) -> None:
        self.table = table
        self.rows = rows
        self.owners = owners
        self.counts = counts
        """References to each row; readers see changes at once."""
        self.provisional = False
        """Scanned for now: the next merge should take it."""
        self._hashes = hashes

    @classmethod
    def build(
        cls, rows: Words, owners: Ints, counts: Counts, *, engine: str, rounds: int | None, messages: Words | None
    ) -> tuple[Segment, Ints]:
        """A segment over distinct rows, and the order that they were put in."""
        hashes = row_hashes(rows, owners)
        order = np.argsort(hashes, kind="stable")
        rows, owners = np.ascontiguousarray(rows[order]), owners[order]
        table = ForwardingTable.build(
            rows, owners, engine=engine, rounds=rounds, match_all=True, messages=messages, distinct=True
        )
        return cls(table, rows, owners, hashes[order], counts[order]), order

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        arrays = (self.rows, self.owners, self.counts, self._hashes)
        return self.table.nbytes + sum(array.nbytes for array in arrays)

    def find(self, owner: int, filters: Words, hashes: Words) -> Ints:
        """The row of each (owner, filter), or -1."""
        found = np.full(len(filters), -1, np.int64)
        at = np.searchsorted(self._hashes, hashes)
        pending = np.flatnonzero(at < len(self))
        pending = pending[self._hashes[at[pending]] == hashes[pending]]
        while len(pending):  # more than once only where hashes collide
            place = at[pending]
            same = (self.owners[place] == owner) & (self.rows[place] == filters[pending]).all(axis=1)
            found[pending[same]] = place[same]
            pending = pending[~same]
            at[pending] += 1
            pending = pending[at[pending] < len(self)]
            pending = pending[self._hashes[at[pending]] == hashes[pending]]
        return found

    def match(self, bits: Words) -> Csr:
        """Live rows that each message matches."""
        return self.table.match_filters(bits, live=self.counts)


class Buffer:
    """New filters, appended in place and scanned: a row is visible as soon as ``used`` counts it."""

    def __init__(self, words: int, capacity: int, *, compiled: bool) -> None:
        self.rows = np.zeros((capacity, words), np.uint64)
        self.owners = np.zeros(capacity, np.int64)
        self.counts = np.zeros(capacity, np.int32)
        self.used = 0
        self._columns = np.full((words, capacity), _ALL_ONES, np.uint64)
        self._places: dict[tuple[int, bytes], int] = {}
        self._compiled = compiled

    def __len__(self) -> int:
        return self.used

    @property
    def capacity(self) -> int:
        """How many rows fit."""
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.owners.nbytes + self.counts.nbytes + self._columns.nbytes

    def find(self, owner: int, filters: Words, hashes: Words) -> Ints:
        """The row of each (owner, filter), or -1."""
        if not self._places:
            return np.full(len(filters), -1, np.int64)
        return np.array([self._places.get((owner, row.tobytes()), -1) for row in filters], np.int64)

    def extend(self, owner: int, rows: Words, counts: Ints) -> None:
        """Add rows of one owner that are not here yet; the caller has checked that they fit."""
        at, end = self.used, self.used + len(rows)
        raw, width = rows.tobytes(), rows.shape[1] * 8
        keys = ((owner, raw[start : start + width]) for start in range(0, len(raw), width))
        self._places.update(zip(keys, range(at, end), strict=True))
        self.rows[at:end] = rows
        self._columns[:, at:end] = rows.T
        self.owners[at:end] = owner
        self.counts[at:end] = counts
        self.used = end  # last: now readers see them

    def match(self, bits: Words) -> Csr:
        """Live rows that each message matches."""
        used = self.used
        if used == 0 or len(bits) == 0:
            return Csr.empty(len(bits))
        if not self._compiled:
            from secroute.engine.reference import ReferenceMatcher

            matcher = ReferenceMatcher(self.rows[:used], np.zeros(used, np.int32), 1)
            return matcher.filters(bits, self.counts[:used], NO_LIMIT)
        from secroute.engine.scan import match_columns

        return match_columns(self._columns.reshape(-1), used, bits, self.counts)

    def forward(self, bits: Words) -> Csr:
        """Interface ids that each message matches here."""
        found = self.match(bits)
        return Csr.of_pairs(found.rows_of_values(), self.owners[found.values], len(bits), unique=True)
