"""From a match result to what each endpoint gets, column by column: no Python per message.

UNTRUSTED side, no I/O. An *endpoint* is whatever the engine calls an interface: a session, a durable subscription or a
link; its kind stands in the two lowest bits of its number, so that a column of numbers is sorted by kind at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from secroute.opaque import EncodedBatch
from secroute.router.gather import gather_bytes

Ints = npt.NDArray[np.int64]
Expiry = npt.NDArray[np.float64]

# Copying a parcel for every endpoint is cheap for a few and ruinous for a broadcast: beyond this many times the batch,
# endpoints share the batch until they must wait.
EAGER_COPIES = 4


class Kind(IntEnum):
    """Kinds of endpoints."""

    SESSION = 0
    DURABLE = 1
    LINK = 2


def endpoint_of(kind: Kind, number: int) -> int:
    """The engine's interface number of an endpoint."""
    return number * 4 + kind


def number_of(endpoint: int) -> int:
    """The number that an endpoint was made from."""
    return endpoint >> 2


@dataclass(slots=True)
class Parcel:
    """Messages of one scope on their way to one endpoint."""

    source: EncodedBatch
    rows: Ints | None
    """Rows of ``source``; ``None``: all of them, and nobody else shares it."""
    expires: Expiry | None = None
    """When each message expires (monotonic seconds); ``None``: never."""
    spooled: bool = False

    def __len__(self) -> int:
        return len(self.source) if self.rows is None else len(self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of bits and payloads."""
        if self.rows is None:
            return int(self.source.bits.nbytes + self.source.payloads.nbytes)
        return int(self.costs().sum())

    def costs(self) -> Ints:
        """Bytes of bits and payload of each message."""
        offsets = self.source.offsets
        lengths: Ints = np.diff(offsets) + self.source.bits.shape[1] * 8
        return lengths if self.rows is None else lengths[self.rows]

    def own(self) -> Parcel:
        """The same messages in memory of their own, so that a waiting endpoint does not hold a whole batch."""
        if self.rows is None:
            return self
        return Parcel(take(self.source, self.rows), None, self.expires, self.spooled)

    def pick(self, positions: Ints) -> Parcel:
        """Some of the messages."""
        rows = positions if self.rows is None else self.rows[positions]
        expires = None if self.expires is None else self.expires[positions]
        return Parcel(self.source, rows, expires, self.spooled).own()

    def part(self, low: int, high: int) -> Parcel:
        """Messages ``low..high`` without copying them."""
        expires = None if self.expires is None else self.expires[low:high]
        if self.rows is not None:
            return Parcel(self.source, self.rows[low:high], expires, self.spooled)
        return Parcel(part(self.source, low, high), None, expires, self.spooled)

    def fresh(self, now: float) -> Parcel:
        """Without the messages that have expired."""
        if self.expires is None or self.expires.min(initial=np.inf) > now:
            return self
        return self.pick(np.flatnonzero(self.expires > now))


def part(batch: EncodedBatch, low: int, high: int) -> EncodedBatch:
    """Rows ``low..high`` as views."""
    start, end = batch.offsets[low], batch.offsets[high]
    offsets = batch.offsets[low : high + 1] - start
    return EncodedBatch(batch.scope, batch.bits[low:high], batch.ids[low:high], batch.payloads[start:end], offsets)


def take(batch: EncodedBatch, rows: Ints) -> EncodedBatch:
    """Rows in the given order, payloads copied by a compiled loop (``EncodedBatch.take`` indexes every byte)."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.diff(batch.offsets)[rows], out=offsets[1:])
    payloads = gather_bytes(batch.payloads, batch.offsets[:-1][rows], offsets)
    return EncodedBatch(batch.scope, batch.bits[rows], batch.ids[rows], payloads, offsets)


def concatenate(batches: Sequence[EncodedBatch]) -> EncodedBatch:
    """Batches of one scope and width, one after another."""
    if len(batches) == 1:
        return batches[0]
    ends = np.cumsum([0, *(len(batch.payloads) for batch in batches)])
    offsets = [np.zeros(1, np.int64), *(b.offsets[1:] + ends[i] for i, b in enumerate(batches))]
    return EncodedBatch(
        batches[0].scope,
        np.concatenate([b.bits for b in batches]),
        np.concatenate([b.ids for b in batches]),
        np.concatenate([b.payloads for b in batches]),
        np.concatenate(offsets),
    )


@dataclass(frozen=True, slots=True)
class Routes:
    """Which rows of a batch go to which endpoint: endpoint i gets ``rows[starts[i]:starts[i + 1]]``, ascending."""

    endpoints: Ints
    starts: Ints
    rows: Ints

    @classmethod
    def of(cls, rows: Ints, endpoints: Ints) -> Routes:
        """Group (row, endpoint) pairs by endpoint, keeping the order of rows."""
        order = np.argsort(endpoints, kind="stable")
        ordered = endpoints[order]
        first = np.flatnonzero(np.diff(ordered, prepend=-1)) if len(ordered) else np.zeros(0, np.int64)
        return cls(ordered[first], np.append(first, len(ordered)), rows[order])

    def __len__(self) -> int:
        return len(self.endpoints)

    def rows_of(self, index: int) -> Ints:
        """The rows of endpoint ``index``."""
        return self.rows[self.starts[index] : self.starts[index + 1]]

    def keep_rows(self, keep: npt.NDArray[np.bool_]) -> Routes:
        """Only the rows for which ``keep`` is true."""
        if keep.all():
            return self
        chosen = keep[self.rows]
        owners = np.repeat(self.endpoints, np.diff(self.starts))
        return Routes.of(self.rows[chosen], owners[chosen])

    def of_kind(self, kind: Kind) -> Routes:
        """Only endpoints of one kind."""
        chosen = (self.endpoints & 3) == kind
        if chosen.all():
            return self
        lengths = np.diff(self.starts)
        starts = np.zeros(int(chosen.sum()) + 1, np.int64)
        np.cumsum(lengths[chosen], out=starts[1:])
        return Routes(self.endpoints[chosen], starts, self.rows[np.repeat(chosen, lengths)])


def parcels(batch: EncodedBatch, routes: Routes, expires: Expiry | None) -> list[tuple[int, Parcel]]:
    """A parcel for every endpoint, in one gather for all of them unless the fan-out is wide."""
    if not len(routes):
        return []
    picked = None if expires is None else expires[routes.rows]
    bounds = routes.starts.tolist()
    spans = list(zip(routes.endpoints.tolist(), bounds[:-1], bounds[1:], strict=True))
    if len(routes.rows) > EAGER_COPIES * len(batch):
        return [(e, Parcel(batch, routes.rows[a:b], None if picked is None else picked[a:b])) for e, a, b in spans]
    whole = take(batch, routes.rows)
    return [(e, Parcel(part(whole, a, b), None, None if picked is None else picked[a:b])) for e, a, b in spans]
