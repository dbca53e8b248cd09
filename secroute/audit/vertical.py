"""Inclusion of many filters in many messages at once, column by column: what an audit counts, not what a router does.

TRUSTED side, pure. A router answers message by message; an audit has all messages at hand. So bits are turned around:
one plane for each bit, with a flag for each message of a block, and a filter's matches are the AND of its planes.
Filters are sorted by their bits, so neighbours share the ANDs of their common beginning, and a beginning that no
message has ends all filters that start with it. Results are those of :class:`ForwardingTable`, and tested to be.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from secroute.audit.bitstate import unpack
from secroute.engine.simd import lowest_of
from secroute.engine.types import Csr
from secroute.opaque import Words

BLOCK_MESSAGES_MIN, BLOCK_MESSAGES_MAX = 1_024, 8_192
_BLOCK_MATCHES = 2_000_000
_CHUNK_ROWS = 16_384
Ints = npt.NDArray[np.int64]


class VerticalTable:
    """Filters sorted by their bits, the most asked for first, ready for blocks of messages."""

    def __init__(self, filters: Words) -> None:
        """Index ``uint64[N, W]`` filters."""
        chunks = [filters[at : at + _CHUNK_ROWS] for at in range(0, len(filters), _CHUNK_ROWS)]
        width = filters.shape[1] * 64
        asked = np.sum([unpack(chunk).sum(axis=0, dtype=np.int64) for chunk in chunks], axis=0)
        self._planes = (
            np.argsort(-asked, kind="stable").astype(np.int32) if chunks else np.arange(width, dtype=np.int32)
        )
        """Bit positions by how many filters ask for them: that order makes beginnings common."""
        # A filter as the byte string of its ranked flags: descending order puts shared beginnings side by side.
        empty = np.zeros((0, width // 8), np.uint8)
        keys = np.concatenate([empty, *(np.packbits(unpack(chunk)[:, self._planes], axis=1) for chunk in chunks)])
        self._order = np.lexsort(keys.T[::-1])[::-1].astype(np.int64)
        positions, sizes = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
        for at in range(0, len(keys), _CHUNK_ROWS):
            ranked = np.unpackbits(keys[self._order[at : at + _CHUNK_ROWS]], axis=1)
            positions.append(np.nonzero(ranked)[1].astype(np.int32))
            sizes.append(ranked.sum(axis=1, dtype=np.int64))
        self._positions = np.concatenate(positions)
        self._offsets = np.cumsum(np.concatenate(sizes))
        self._common = _common_beginnings(self._positions, self._offsets)

    def match_filters(self, bits: Words) -> Csr:
        """The filter rows that match each message of ``uint64[n, W]``."""
        parts, at, block = [], 0, BLOCK_MESSAGES_MIN
        while at < len(bits):
            parts.append(self._block(bits[at : at + block]))
            at += block
            # Long planes are quicker, but the matches of a block should stay in the cache.
            a_message = len(parts[-1].values) / (len(parts[-1].offsets) - 1)
            block = int(min(BLOCK_MESSAGES_MAX, max(BLOCK_MESSAGES_MIN, _BLOCK_MATCHES / max(1.0, a_message))))
        return Csr.stacked(parts) if parts else Csr(np.zeros(1, np.int64), np.zeros(0, np.int64))

    def _block(self, bits: Words) -> Csr:
        planes = turn(np.ascontiguousarray(bits), self._planes)
        rows, counts, messages = walk(planes, len(bits), self._positions, self._offsets, self._common)
        return Csr(*by_message(rows, counts, messages, self._order, len(bits)))


@nb.njit(nogil=True, cache=True)
def _common_beginnings(positions: Any, offsets: Any) -> Any:
    """How many positions each filter has in common with the one before, from the first on."""
    out = np.zeros(len(offsets) - 1, np.int64)
    for row in range(1, len(out)):
        here, before = offsets[row], offsets[row - 1]
        most = min(offsets[row + 1] - here, here - before)
        shared = 0
        while shared < most and positions[here + shared] == positions[before + shared]:
            shared += 1
        out[row] = shared
    return out


@nb.njit(nogil=True, cache=True)
def turn(bits: Any, order: Any) -> Any:
    """``uint64[m, ceil(n / 64)]``: plane i has the flags of bit ``order[i]``, one a message."""
    n, words = bits.shape
    rank = np.empty(words * 64, np.int64)
    for place in range(len(order)):
        rank[order[place]] = place
    planes = np.zeros((words * 64, (n + 63) // 64), np.uint64)
    one = np.uint64(1)
    for message in range(n):
        flag, at = one << np.uint64(message & 63), message >> 6
        for word in range(words):
            left = bits[message, word]
            while left:
                planes[rank[word * 64 + lowest_of(left)], at] |= flag
                left &= left - one
    return planes


@nb.njit(nogil=True, cache=True)
def walk(planes: Any, n: int, positions: Any, offsets: Any, common: Any) -> Any:
    """All matches: (filters with any, how many each, their messages). ``stack[d]``: who has the first d positions."""
    words, deepest = planes.shape[1], 0
    for row in range(len(common)):
        deepest = max(deepest, offsets[row + 1] - offsets[row])
    stack = np.zeros((deepest + 1, words), np.uint64)
    for message in range(n):
        stack[0, message >> 6] |= np.uint64(1) << np.uint64(message & 63)
    rows, counts, runs = np.empty(len(common), np.int32), np.empty(len(common), np.int32), 0
    messages = np.empty(1 << 16, np.uint16)
    used, valid, dead = 0, 0, deepest + 2
    one = np.uint64(1)
    for row in range(len(common)):
        valid = min(valid, common[row])
        if dead <= valid:
            continue  # no message has what this filter begins with
        dead = deepest + 2
        first, size = offsets[row], offsets[row + 1] - offsets[row]
        for depth in range(valid, size):
            plane, above, below = planes[positions[first + depth]], stack[depth], stack[depth + 1]
            alive = np.uint64(0)
            for word in range(words):
                both = above[word] & plane[word]
                below[word] = both
                alive |= both
            valid = depth + 1
            if alive == 0:
                dead = depth + 1
                break
        if dead <= size:
            continue
        found = stack[size]
        if used + 64 * words > len(messages):
            grown = np.empty(2 * len(messages) + 64 * words, np.uint16)
            grown[:used] = messages[:used]
            messages = grown
        before = used
        for word in range(words):
            left = found[word]
            while left:
                messages[used] = word * 64 + lowest_of(left)
                used += 1
                left &= left - one
        rows[runs] = row
        counts[runs] = used - before
        runs += 1
    return rows[:runs], counts[:runs], messages[:used]


@nb.njit(nogil=True, cache=True)
def by_message(rows: Any, counts: Any, messages: Any, order: Any, n: int) -> Any:
    """Matches sorted by message, as (offsets, filter rows as they were given)."""
    offsets = np.zeros(n + 1, np.int64)
    for at in range(len(messages)):
        offsets[messages[at] + 1] += 1
    for message in range(n):
        offsets[message + 1] += offsets[message]
    place = offsets[:-1].copy()
    values = np.empty(len(messages), np.int32)
    at = 0
    for run in range(len(rows)):
        row = np.int32(order[rows[run]])
        for _ in range(counts[run]):
            message = messages[at]
            at += 1
            values[place[message]] = row
            place[message] += 1
    return offsets, values
