"""A client's own durable subscriptions, seen from outside: what waits in them, and deleting one.

TRUSTED. Routers know them by opaque names only; which application name that is, the keyring tells.
"""

from __future__ import annotations

from dataclasses import dataclass

from secroute import limits
from secroute.errors import ConnectionLostError
from secroute.wire._generated import gateway_pb2 as pb


@dataclass(frozen=True, slots=True)
class DurableState:
    """One durable subscription of this certificate on one router."""

    name: bytes
    """Opaque, as the router knows it."""
    shared: bool
    epochs: tuple[int, ...]
    """Where it has filters."""
    queued: int
    in_flight: int
    dead: int
    gaps: int
    """Gaps that nobody has noted yet."""
    consumers: int


def states_of(answer: pb.ListDurableResponse) -> list[DurableState]:
    """A router's list; raises if an entry is not what it should be."""
    for each in answer.durable:
        if len(each.name) != limits.DURABLE_NAME_BYTES:
            raise ConnectionLostError(f"the router listed a durable name of {len(each.name)} bytes")
    return [
        DurableState(
            each.name,
            each.shared,
            tuple(each.epochs),
            each.queued,
            each.in_flight,
            each.dead,
            each.gaps,
            each.consumers,
        )
        for each in answer.durable
    ]
