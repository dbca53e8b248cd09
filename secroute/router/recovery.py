"""What a router does with its store at start: pins, durable subscriptions, stored batches. UNTRUSTED side.

After a crash everything that is not done may have been delivered already and is marked so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from secroute.router.durable_queue import DONE, Entry
from secroute.router.durables import DurableRegistry, DurableSubscription
from secroute.router.scopes import ScopeTables
from secroute.router.store import Store
from secroute.router.stored import DurableRow, expiry_of


@dataclass(slots=True)
class Recovered:
    """What was found."""

    batch_refs: dict[int, int] = field(default_factory=dict)
    orphans: list[int] = field(default_factory=list)
    """Stored batches that nobody needs any more."""
    messages: int = 0
    next_batch: int = 1
    next_gap: int = 1


def recover(
    store: Store,
    registry: DurableRegistry,
    tables: ScopeTables,
    restore: Callable[[DurableRow], DurableSubscription],
    now: float,
    unix_ms: int,
    clean: bool,
) -> Recovered:
    """Fill the registry and the tables from the store."""
    found = Recovered()
    for scope, words in store.pins():
        tables.restore(scope, words, now)
    rows = {row.number: row for row in store.durables()}
    for row in rows.values():
        durable = restore(row)
        for part in row.filters:
            durable.filters[part.scope.epoch] = part
            tables.restore(part.scope, part.bits.shape[1], now).table.add(durable.endpoint, part.bits)
        registry.add(durable)
        found.next_gap = max([found.next_gap, *(gap.number + 1 for gap in row.gaps)])
    for seq, _, routes, expires_ms in store.batches():
        refs = 0
        for route in routes:
            durable_ = registry.get(route.durable)
            if durable_ is None:
                continue
            entry = Entry(
                seq, route.first, route.rows, route.nbytes, route.spooled,
                expiry_of(expires_ms, route.rows, now, unix_ms), recovered=not clean,
            )  # fmt: skip
            rows[route.durable].cursor.restore(entry)
            durable_.next_sequence = max(durable_.next_sequence, entry.end)
            if (entry.states == DONE).all():
                continue
            refs += 1
            found.messages += len(route.rows)
            durable_.append(entry)
        if refs:
            found.batch_refs[seq] = refs
        else:
            found.orphans.append(seq)
        found.next_batch = seq + 1
    return found
