"""The live table against a plain set: several threads add, remove and forward while merges are forced in between.

Every thread owns some interfaces, so it knows at any time exactly which of its filters must match, whatever the others
do: an added filter matches once ``add`` returned, a removed one never again once ``remove`` returned.
"""

from __future__ import annotations

import random
import threading
from collections import Counter

import numpy as np
import pytest

from secroute.engine import LiveTable
from secroute.opaque import Words

THREADS = 4
OPERATIONS = 26_000  # of each thread: more than 100 000 in all
MERGE_EVERY = 2_000
POOL = 600


def filter_pool(words: int) -> Words:
    """Few and small filters, so that they are removed and added again all the time and often match."""
    rng = np.random.default_rng(words)
    pool = np.zeros((POOL, words), np.uint64)
    for _ in range(3):
        bit = rng.integers(0, min(words * 64, 40), POOL)
        pool[np.arange(POOL), bit >> 6] |= np.uint64(1) << (bit & 63).astype(np.uint64)
    return pool


class Worker(threading.Thread):
    """Random operations on interfaces of its own, checked against reference counts in a dictionary."""

    def __init__(self, table: LiveTable, number: int, pool: Words) -> None:
        super().__init__()
        self.table = table
        self.pool = pool
        self.own = [10 * number + i for i in range(3)]
        self.model: dict[int, Counter[int]] = {interface: Counter() for interface in self.own}
        self.random = random.Random(number)
        self.done = 0
        self.matched = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for step in range(1, OPERATIONS + 1):
                self.operate()
                self.done += 1
                if step % MERGE_EVERY == 0:
                    self.table.merge()
        except BaseException as error:
            self.failure = error

    def operate(self) -> None:
        interface = self.random.choice(self.own)
        held = self.model[interface]
        kind = self.random.random()
        if kind < 0.38:
            rows = [self.random.randrange(POOL) for _ in range(self.random.randint(1, 4))]
            self.table.add(interface, self.pool[rows])
            held.update(rows)
        elif kind < 0.74 and held:
            rows = self.random.sample(list(held.elements()), min(len(held), self.random.randint(1, 4)))
            self.table.remove(interface, self.pool[rows])
            held.subtract(rows)
            self.model[interface] = +held
        elif kind < 0.742 and held:
            self.table.remove_interface(interface)
            held.clear()
        else:
            self.check()

    def check(self) -> None:
        picks = [self.random.randrange(POOL) for _ in range(6)]
        message = np.bitwise_or.reduce(self.pool[picks], axis=0)[None, :]
        found = set(self.table.forward(message, self.own).values.tolist())
        matching = set(np.flatnonzero(~(self.pool & ~message).any(axis=1)).tolist())
        expected = {interface for interface in self.own if matching & self.model[interface].keys()}
        assert found == expected
        self.matched += len(found)


@pytest.mark.timeout(280)
@pytest.mark.parametrize("words", [3])
def test_threads_against_a_model(words: int) -> None:
    pool = filter_pool(words)
    table = LiveTable(words, buffer_rows=64)
    workers = [Worker(table, number, pool) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for worker in workers:
        if worker.failure is not None:
            raise worker.failure
    assert sum(worker.done for worker in workers) >= 100_000
    assert sum(worker.matched for worker in workers) > 10_000
    table.merge()
    stats = table.stats()
    held = {i: +held for worker in workers for i, held in worker.model.items()}
    assert stats.filters == sum(len({pool[row].tobytes() for row in counts}) for counts in held.values())
    assert stats.merges >= THREADS * OPERATIONS // MERGE_EVERY
    assert stats.failure == ""
    assert stats.tombstones == 0
    table.close()


def test_removing_and_adding_again_leaks_nothing() -> None:
    """A million rows removed and added again; the table is as large as at the start."""
    table = LiveTable(3, buffer_rows=512)
    rng = np.random.default_rng(1)
    rows = np.unique(rng.integers(1, 2**62, (5_000, 3)).astype(np.uint64), axis=0)
    table.add(1, rows)
    table.merge()
    before = table.stats()
    turned = 0
    while turned < 1_000_000:
        part = np.ascontiguousarray(rows[rng.integers(0, 2) :: rng.integers(1, 4)])
        table.remove(1, part)
        table.add(1, part)
        turned += len(part)
    fresh = rng.integers(1, 2**62, (5_000, 3)).astype(np.uint64)
    for start in range(0, 5_000, 500):
        table.add(2, fresh[start : start + 500])
        table.remove(2, fresh[start : start + 500])
    table.merge()
    after = table.stats()
    assert after.filters == before.filters
    assert after.nbytes <= before.nbytes * 1.05
    assert after.tombstones == 0
    table.close()
