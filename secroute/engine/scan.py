"""The compiled linear scan, in two layouts: the baseline that every other strategy must beat.

UNTRUSTED side, pure. *Columnar*: word w of all filters together, eight filters tested an instruction, further words
only where the first ones left a candidate. *Row-wise*: filter by filter, leaving each at the first word that fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from secroute.engine.simd import cycles, included8, lowest_bit
from secroute.engine.sink import (
    NO_INTERFACES,
    NO_TICKS,
    OPEN_GATE,
    Stamps,
    admit,
    begin_batch,
    begin_message,
    put,
    sort_answers,
)
from secroute.engine.types import NO_LIMIT, Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

LANES = 8
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def _next_candidate(columns: Any, start: int, end: int, absent: np.uint64) -> int:
    """The first eight rows from ``start`` on of which one has no bit of ``absent`` in the first word, or ``end``.

    A loop of its own: with anything else in its body the compiler keeps it several times slower.
    """
    while start < end and not included8(columns, start, absent):
        start += LANES
    return start


@njit(nogil=True, cache=True)
def scan_columns(
    columns: Any, rows: int, bits: Words, interfaces: Dense, live: Counts, stamp: Stamps, gate: Gate, limit: int,
    ticks: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Match a batch against ``columns`` (``uint64[W * padded]``, word after word; padding has all bits set)."""
    count, words = bits.shape
    padded = columns.size // words
    end = (rows + LANES - 1) // LANES * LANES
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(count + 16, np.int64)
    used = 0
    begin_batch(stamp, gate)
    for number in range(count):
        message = bits[number]
        low, now, left = begin_message(message, number, stamp, gate, limit)
        start = 0
        while left > 0:
            start = _next_candidate(columns, start, end, ~message[0])
            if start == end:
                break
            hits = included8(columns, start, ~message[0])
            word = 1
            while hits and word < words:
                hits &= included8(columns, word * padded + start, ~message[word])
                word += 1
            while hits:
                row = start + lowest_bit(hits)
                hits &= hits - np.uint32(1)
                value = admit(row, live, interfaces, stamp, low, now) if row < rows else -1
                if value >= 0 and left > 0:
                    out = put(out, used, value)
                    used += 1
                    left -= 1
            start += LANES
        sort_answers(out, offsets[number], used)
        offsets[number + 1] = used
        if ticks.size:
            ticks[number] = cycles()
    return offsets, out[:used]


@njit(nogil=True, cache=True)
def _next_match(filters: Words, row: int, rows: int, absent: Any) -> int:
    """The first row from ``row`` on that has no bit of ``absent``, or ``rows``."""
    words = absent.size
    first = absent[0]
    while row < rows:
        if filters[row, 0] & first == np.uint64(0):
            word = 1
            while word < words and filters[row, word] & absent[word] == np.uint64(0):
                word += 1
            if word == words:
                break
        row += 1
    return row


@njit(nogil=True, cache=True)
def scan_rows(
    filters: Words, rows: int, bits: Words, interfaces: Dense, live: Counts, stamp: Stamps, gate: Gate, limit: int,
    ticks: Ints,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Match a batch against the first ``rows`` of ``filters`` (``uint64[n, W]``)."""
    count = len(bits)
    offsets = np.zeros(count + 1, np.int64)
    out = np.empty(count + 16, np.int64)
    used = 0
    begin_batch(stamp, gate)
    for number in range(count):
        absent = ~bits[number]
        low, now, left = begin_message(bits[number], number, stamp, gate, limit)
        row = 0
        while left > 0:
            row = _next_match(filters, row, rows, absent)
            if row == rows:
                break
            value = admit(row, live, interfaces, stamp, low, now)
            if value >= 0:
                out = put(out, used, value)
                used += 1
                left -= 1
            row += 1
        sort_answers(out, offsets[number], used)
        offsets[number + 1] = used
        if ticks.size:
            ticks[number] = cycles()
    return offsets, out[:used]


class ScanMatcher:
    """Every filter tested, compiled."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int, *, layout: str = "columns") -> None:
        self._rows = len(filters)
        self._interfaces = interfaces
        self._interface_count = interface_count
        self._kernel = scan_columns if layout == "columns" else scan_rows
        self._data = _columns(filters) if layout == "columns" else filters

    @property
    def nbytes(self) -> int:
        return self._data.nbytes + self._interfaces.nbytes

    def filters(self, bits: Words, live: Counts, limit: int = NO_LIMIT, ticks: Ints = NO_TICKS) -> Csr:
        none = np.zeros(0, np.int64)
        return Csr(*self._kernel(self._data, self._rows, bits, NO_INTERFACES, live, none, OPEN_GATE, limit, ticks))

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        stamp = np.zeros(self._interface_count, np.int64)
        return Csr(*self._kernel(self._data, self._rows, bits, self._interfaces, live, stamp, gate, NO_LIMIT, ticks))


def match_columns(columns: Any, rows: int, bits: Words, live: Counts) -> Csr:
    """Rows of columnar filters (the first ``rows``) that match each message."""
    none = np.zeros(0, np.int64)
    return Csr(*scan_columns(columns, rows, bits, NO_INTERFACES, live, none, OPEN_GATE, NO_LIMIT, NO_TICKS))


def _columns(filters: Words) -> Any:
    rows, words = filters.shape
    columns = np.full((words, -(-rows // LANES) * LANES), _ALL_ONES, np.uint64)
    columns[:, :rows] = filters.T
    return columns.reshape(-1)
