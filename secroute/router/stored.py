"""Rows of the store as plain values, and the layout of their blobs. UNTRUSTED side, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from secroute.opaque import EncodedBatch, EncodedFilters
from secroute.router.durable_queue import Cursor
from secroute.router.parcels import Expiry, Parcel
from secroute.wire.frames import GapReason, Runs


@dataclass(frozen=True, slots=True)
class Route:
    """Which rows of a stored batch one durable subscription gets, numbered from ``first``."""

    durable: int
    first: int
    spooled: bool
    rows: npt.NDArray[np.int32]
    nbytes: int


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch to store. ``parcels`` (one per route) never reach the disk: they spare the first reading."""

    seq: int
    batch: EncodedBatch
    routes: list[Route]
    expires_ms: bytes | None
    """One int64 (unix ms) per message, if any message expires."""
    parcels: list[Parcel]


@dataclass(frozen=True, slots=True)
class GapRow:
    """Messages that a durable subscription did not get, until its owner has noted it."""

    number: int
    durable: int
    reason: GapReason
    space: bytes
    epoch: int
    messages: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class DurableRow:
    """A durable subscription as stored."""

    number: int
    owner: str
    name: bytes
    space: bytes
    shared: bool
    ack_timeout_ms: int
    tries_max: int
    filters: tuple[EncodedFilters, ...]
    cursor: Cursor = field(default_factory=Cursor)
    gaps: tuple[GapRow, ...] = ()


def encode_routes(routes: list[Route]) -> bytes:
    """A header of five numbers per route, then all rows."""
    header = np.array([[r.durable, r.first, r.spooled, len(r.rows), r.nbytes] for r in routes], "<i8").reshape(-1, 5)
    rows = [np.asarray(route.rows, "<i4").tobytes() for route in routes]
    return b"".join((np.int64(len(routes)).tobytes(), header.tobytes(), *rows))


def decode_routes(data: bytes) -> list[Route]:
    """The inverse of :func:`encode_routes`."""
    count = int(np.frombuffer(data, "<i8", 1)[0])
    header = np.frombuffer(data, "<i8", count * 5, 8).reshape(count, 5)
    rows = np.frombuffer(data, "<i4", offset=8 + count * 40)
    ends = np.cumsum(header[:, 3])
    return [
        Route(durable, first, bool(spooled), rows[end - length : end], nbytes)
        for (durable, first, spooled, length, nbytes), end in zip(header.tolist(), ends.tolist(), strict=True)
    ]


def encode_cursor(cursor: Cursor) -> bytes:
    """Next number, reached, the three lengths, then the pairs."""
    pairs = [*cursor.open, *cursor.dead, *cursor.tries]
    head = [cursor.next_sequence, cursor.reached, len(cursor.open), len(cursor.dead), len(cursor.tries)]
    return np.array(head, "<i8").tobytes() + np.array(pairs, "<i8").tobytes()


def decode_cursor(data: bytes) -> Cursor:
    """The inverse of :func:`encode_cursor`."""
    following, reached, opened, dead, tries = np.frombuffer(data, "<i8", 5).tolist()
    pairs: Runs = tuple((a, b) for a, b in np.frombuffer(data, "<i8", offset=40).reshape(-1, 2).tolist())
    edge = opened + dead
    return Cursor(following, reached, pairs[:opened], pairs[opened:edge], pairs[edge : edge + tries])


def expiry_of(expires_ms: bytes | None, rows: npt.NDArray[np.int32], now: float, unix_ms: int) -> Expiry | None:
    """Stored wall-clock expiry as times of this process's monotonic clock, which no change of the clock moves."""
    if expires_ms is None:
        return None
    return np.asarray(now + (np.frombuffer(expires_ms, "<i8")[rows] - unix_ms) / 1000)
