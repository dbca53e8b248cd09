"""The compiled linear scan, in two layouts: the baseline that every other strategy must beat.

UNTRUSTED side, pure. *Columnar*: word w of all filters together, eight filters tested an instruction, further words
only where the first ones left a candidate. *Row-wise*: filter by filter, leaving each at the first word that fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from secroute.engine.simd import cycles, included8, lowest_bit
from secroute.engine.sink import (
    NO_TICKS,
    Asked,
    admit,
    ask_filters,
    ask_interfaces,
    begin_batch,
    begin_message,
    end_message,
    leaf,
    put,
    run_batch,
)
from secroute.engine.types import NO_LIMIT, Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

LANES = 8
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


@leaf
def _next_candidate(columns: Any, start: int, end: int, absent: np.uint64) -> int:
    """The first eight rows from ``start`` on of which one has no bit of ``absent`` in the first word, or ``end``.

    A loop of its own: with anything else in its body the compiler keeps it several times slower.
    """
    while start < end and not included8(columns, start, absent):
        start += LANES
    return start


@leaf
def scan_columns(
    columns: Any, rows: int, bits: Words, first: int, asked: Asked, offsets: Ints, out: Ints, ticks: Ints
) -> int:
    """Match a batch against ``columns`` (``uint64[W * padded]``, word after word; padding has all bits set)."""
    count, words = bits.shape
    padded = columns.size // words
    end = (rows + LANES - 1) // LANES * LANES
    begin_batch(asked)
    for number in range(first, count):
        message = bits[number]
        low, now, left = begin_message(message, number, asked)
        used = offsets[number]
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
            while hits and left > 0:
                row = start + lowest_bit(hits)
                hits &= hits - np.uint32(1)
                value = admit(row, row, asked, low, now) if row < rows else -1
                if value >= 0:
                    used = put(out, used, value)
                    left -= 1
            start += LANES
        if not end_message(number, used, offsets, out):
            return number
        if ticks.size:
            ticks[number] = cycles()
    return len(bits)


@leaf
def _next_match(filters: Words, row: int, rows: int, message: Any) -> int:
    """The first row from ``row`` on that has no bit which ``message`` lacks, or ``rows``."""
    words = message.size
    absent = ~message[0]
    while row < rows:
        if filters[row, 0] & absent == np.uint64(0):
            word = 1
            while word < words and filters[row, word] & ~message[word] == np.uint64(0):
                word += 1
            if word == words:
                break
        row += 1
    return row


@leaf
def scan_rows(
    filters: Words, rows: int, bits: Words, first: int, asked: Asked, offsets: Ints, out: Ints, ticks: Ints
) -> int:
    """Match a batch against the first ``rows`` of ``filters`` (``uint64[n, W]``)."""
    count = len(bits)
    begin_batch(asked)
    for number in range(first, count):
        low, now, left = begin_message(bits[number], number, asked)
        used = offsets[number]
        row = 0
        while left > 0:
            row = _next_match(filters, row, rows, bits[number])
            if row == rows:
                break
            value = admit(row, row, asked, low, now)
            if value >= 0:
                used = put(out, used, value)
                left -= 1
            row += 1
        if not end_message(number, used, offsets, out):
            return number
        if ticks.size:
            ticks[number] = cycles()
    return len(bits)


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
        return run_batch(self._kernel, (self._data, self._rows), bits, ask_filters(live, limit), ticks)

    def interfaces(self, bits: Words, live: Counts, gate: Gate, ticks: Ints = NO_TICKS) -> Csr:
        asked = ask_interfaces(self._interfaces, self._interface_count, live, gate)
        return run_batch(self._kernel, (self._data, self._rows), bits, asked, ticks)


def match_columns(columns: Any, rows: int, bits: Words, live: Counts) -> Csr:
    """Rows of columnar filters (the first ``rows``) that match each message."""
    return run_batch(scan_columns, (columns, rows), bits, ask_filters(live, NO_LIMIT), NO_TICKS)


def _columns(filters: Words) -> Any:
    rows, words = filters.shape
    columns = np.full((words, -(-rows // LANES) * LANES), _ALL_ONES, np.uint64)
    columns[:, :rows] = filters.T
    return columns.reshape(-1)
