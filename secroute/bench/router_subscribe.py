"""How long a subscription takes to become active while the router holds a million filters; part of ``bench router``.

The table is filled with random rows: only its size matters here, and the predicates need no encoding.
"""

from __future__ import annotations

import asyncio
import time

import numpy as np

from secroute.bench.router_lab import Lab
from secroute.bench.router_load import Reader
from secroute.client import TlsIdentity
from secroute.client.link import Link, refusal
from secroute.opaque import EncodedFilters, Scope
from secroute.wire import frames

_SCOPE = Scope(bytes(16), 1, bytes(32))
_WORDS, _BITS_SET = 3, 12
_ROWS = 1_000  # of one subscription
_ASKED = 200
_MERGED_S = 30.0


def random_filters(count: int, seed: int) -> EncodedFilters:
    """Rows with about a dozen bits each."""
    rng = np.random.default_rng(seed)
    flat = np.zeros((count, _WORDS * 64), bool)
    flat[np.arange(count)[:, None], rng.integers(0, _WORDS * 64, (count, _BITS_SET))] = True
    return EncodedFilters(_SCOPE, np.packbits(flat, axis=1, bitorder="little").view("<u8"))


async def subscribe_times(lab: Lab, filters: int, sessions: int) -> dict[str, float]:
    """Fill a router, then subscribe one filter at a time and wait for its result."""
    router, identity = lab.router("subscribe"), lab.identity("bench")
    each = max(1, filters // sessions // _ROWS)
    readers = []
    for number in range(sessions):
        parts = [random_filters(_ROWS, number * each + part) for part in range(each)]
        readers.append(await Reader.open(router.target, identity, parts, False))
    during = await _ask(router.target, lab.identity("asker"), 10_000_000)  # merges of the big table are still under way
    await asyncio.sleep(min(_MERGED_S, filters / 100_000))
    after = await _ask(router.target, lab.identity("asker"), 20_000_000)
    for reader in readers:
        await reader.close()
    await asyncio.to_thread(router.stop)
    return {
        "subscribe_table_filters": sessions * each * _ROWS,
        "subscribe_active_p50_ms": _share(after, 0.5),
        "subscribe_active_p99_ms": _share(after, 0.99),
        "subscribe_active_worst_ms": _share(during + after, 1.0),
    }


async def _ask(target: str, identity: TlsIdentity | None, seed: int) -> list[float]:
    link = Link(target, identity)
    await link.open(frames.Hello(software="bench"), 60.0)
    times = []
    for number in range(1, _ASKED + 1):
        part = random_filters(1, seed + number)
        began = time.perf_counter()
        link.send(frames.Subscribe(number, number, (part,)))
        result = await link.receive()
        times.append(time.perf_counter() - began)
        if isinstance(result, frames.SubscribeResult) and result.problem is not None:
            raise refusal(result.problem)
    await link.close()
    return times


def _share(times: list[float], share: float) -> float:
    return round(sorted(times)[int(share * (len(times) - 1))] * 1000, 2)
