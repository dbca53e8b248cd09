"""``secroute bench match --live``: what a background merge does to the latency of ``forward`` on a live table.

Messages are forwarded one by one, first in quiet, then while another thread keeps adding filters and merging.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from secroute.bench.match_workloads import Workload
from secroute.engine import LiveTable, warm_up
from secroute.opaque import Words
from secroute.output import say

_QUIET_SECONDS = 3.0
_MERGES = 2


def measure_merge(load: Workload, engine: str) -> dict[str, Any]:
    """The p99 of single forwards without and with merges of the whole table."""
    warm_up(engine)
    table = LiveTable(load.filters.shape[1], engine=engine)
    held = len(load.filters) * 19 // 20
    _add(table, load, np.arange(held))
    table.merge()
    say(f"{table.stats().filters} filters merged into {table.stats().segments} segments")
    ended = time.perf_counter() + _QUIET_SECONDS
    quiet = _forward_until(table, load.messages, lambda: time.perf_counter() > ended)
    writer = threading.Thread(target=_write, args=(table, load, held))
    writer.start()
    busy = _forward_until(table, load.messages, lambda: not writer.is_alive())
    writer.join()
    stats = table.stats()
    table.close()
    p99 = [float(np.percentile(times, 99)) for times in (quiet, busy)]
    return {
        "engine": engine,
        "filters": stats.filters,
        "forwards_quiet": len(quiet),
        "forwards_merging": len(busy),
        "p50_quiet_us": round(float(np.median(quiet)), 1),
        "p50_merging_us": round(float(np.median(busy)), 1),
        "p99_quiet_us": round(p99[0], 1),
        "p99_merging_us": round(p99[1], 1),
        "max_merging_us": round(float(busy.max()), 1),
        "p99_ratio": round(p99[1] / p99[0], 2),
        "merges": stats.merges,
    }


def _write(table: LiveTable, load: Workload, held: int) -> None:
    """Add the rest of the filters in parts, merging everything after each."""
    for part in np.array_split(np.arange(held, len(load.filters)), _MERGES):
        _add(table, load, part)
        table.merge()


def _add(table: LiveTable, load: Workload, rows: npt.NDArray[np.int64]) -> None:
    """Add filters by interface, as a router does when a neighbour tells what it wants."""
    owners = load.interfaces[rows]
    for interface in np.unique(owners).tolist():
        table.add(interface, load.filters[rows[owners == interface]])


def _forward_until(table: LiveTable, messages: Words, done: Any) -> npt.NDArray[np.float64]:
    times = []
    at = 0
    while not done():
        message = messages[at : at + 1]
        began = time.perf_counter()
        table.forward(message)
        times.append(time.perf_counter() - began)
        at = (at + 1) % len(messages)
    return np.array(times) * 1e6
