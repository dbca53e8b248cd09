"""Durable subscriptions as the node holds them: filters per epoch, queue, consumers, gaps. UNTRUSTED side.

Owned by the certificate name that made them. All state belongs to the event loop, except the counters that say which
number comes next and how much is queued: the store's thread reads and moves those while it prepares a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from secroute.errors import DurableError
from secroute.opaque import EncodedFilters, Scope
from secroute.router.durable_queue import DurableQueue, Entry
from secroute.router.parcels import Kind, endpoint_of
from secroute.router.stored import DurableRow, GapRow
from secroute.wire._generated.gateway_pb2 import DurableStatus


@dataclass(slots=True)
class DurableSubscription:
    """One durable subscription."""

    number: int
    owner: str
    name: bytes
    space: bytes
    shared: bool
    ack_timeout_ms: int
    tries_max: int
    queue: DurableQueue
    filters: dict[int, EncodedFilters] = field(default_factory=dict)
    consumers: dict[int, Callable[[], None]] = field(default_factory=dict)
    """Session number -> wake it up."""
    gaps: dict[int, GapRow] = field(default_factory=dict)
    next_sequence: int = 1
    """Store thread: the number of the next message, ahead of the queue's by what is being committed."""
    spooled_messages: int = 0
    spooled_bytes: int = 0

    @property
    def endpoint(self) -> int:
        """Its interface in the engine."""
        return endpoint_of(Kind.DURABLE, self.number)

    def spools(self, scope: Scope) -> bool:
        """Whether it must get everything of an epoch: a later one than its first, in which it has no filters."""
        known = self.filters
        return bool(known) and scope.space == self.space and scope.epoch > min(known) and scope.epoch not in known

    def row(self) -> DurableRow:
        """As stored."""
        return DurableRow(
            self.number, self.owner, self.name, self.space, self.shared, self.ack_timeout_ms, self.tries_max,
            tuple(self.filters.values()), self.queue.cursor(), tuple(self.gaps.values()),
        )  # fmt: skip

    def append(self, entry: Entry) -> None:
        """A committed entry."""
        self.queue.append(entry)
        if entry.spooled:
            self.spooled_messages += len(entry.rows)
            self.spooled_bytes += entry.nbytes

    def forget(self, entry: Entry) -> None:
        """An entry is done."""
        if entry.spooled:
            self.spooled_messages -= len(entry.rows)
            self.spooled_bytes -= entry.nbytes

    def wake(self) -> None:
        """Tell every consumer that there may be something."""
        for wake in self.consumers.values():
            wake()

    def status(self) -> DurableStatus:
        """Figures for listings."""
        queue = self.queue
        return DurableStatus(
            name=self.name,
            owner=self.owner,
            shared=self.shared,
            epochs=sorted(self.filters),
            filters=sum(map(len, self.filters.values())),
            queued=queue.queued,
            in_flight=queue.flying,
            dead=queue.dead,
            gaps=len(self.gaps),
            consumers=len(self.consumers),
            queued_bytes=queue.nbytes,
            space=self.space,
        )


class DurableRegistry:
    """Every durable subscription of the node."""

    def __init__(self) -> None:
        self._by_number: dict[int, DurableSubscription] = {}
        self._by_name: dict[tuple[str, bytes], DurableSubscription] = {}
        self._spoolers: dict[tuple[bytes, int], tuple[int, ...]] = {}
        self.next_number = 1

    def __iter__(self) -> Iterator[DurableSubscription]:
        return iter(list(self._by_number.values()))

    def __len__(self) -> int:
        return len(self._by_number)

    def get(self, number: int) -> DurableSubscription | None:
        """By number."""
        return self._by_number.get(number)

    def find(self, owner: str, name: bytes) -> DurableSubscription | None:
        """By owner and name."""
        return self._by_name.get((owner, name))

    def require(self, owner: str, name: bytes) -> DurableSubscription:
        """By owner and name; raises if there is none."""
        found = self.find(owner, name)
        if found is None:
            raise DurableError(f"no durable subscription {name.hex()} of {owner!r}")
        return found

    def owned_by(self, owner: str | None) -> Iterable[DurableSubscription]:
        """Those of one owner, or all."""
        return [d for d in self._by_number.values() if owner is None or d.owner == owner]

    def add(self, durable: DurableSubscription) -> None:
        """A new or restored one."""
        self._by_number[durable.number] = durable
        self._by_name[durable.owner, durable.name] = durable
        self.next_number = max(self.next_number, durable.number + 1)
        self.changed()

    def remove(self, durable: DurableSubscription) -> None:
        """A deleted one."""
        self._by_number.pop(durable.number, None)
        self._by_name.pop((durable.owner, durable.name), None)
        self.changed()

    def changed(self) -> None:
        """Filters changed: who spools what must be asked again."""
        self._spoolers.clear()

    def spoolers(self, scope: Scope) -> tuple[int, ...]:
        """Numbers of those that must get everything of a scope."""
        key = (scope.space, scope.epoch)
        if key not in self._spoolers:
            self._spoolers[key] = tuple(d.number for d in self._by_number.values() if d.spools(scope))
        return self._spoolers[key]
