"""Compile (or load from the disk cache) every kernel before traffic comes: the first message must not pay for it.

UNTRUSTED side, pure but for the clock that it reports.
"""

from __future__ import annotations

import time

import numpy as np

from secroute.engine.strategies import ENGINES, require_compiler
from secroute.engine.table import ForwardingTable
from secroute.opaque import Words


def warm_up(engine: str = "auto") -> float:
    """Run every kernel that ``engine`` may need on a tiny table; the seconds it took.

    Kernels are compiled for any width at once. Raises :class:`~secroute.errors.EngineError` if compilation is
    impossible; ``engine="reference"`` needs none.
    """
    began = time.perf_counter()
    if engine != "reference":
        require_compiler()
        filters = np.arange(1, 65, dtype=np.uint64).reshape(-1, 1)
        for name in ENGINES:
            if name in ("auto", "reference") or engine not in ("auto", name, "tree"):
                continue
            table = ForwardingTable.build(filters, np.arange(64) % 2, engine=name)
            table.forward(filters)
            table.match_filters(filters, live=np.ones(64, np.int32))
            if name == "tree":
                _warm_large(filters)
    return time.perf_counter() - began


def _warm_large(filters: Words) -> None:
    """What only wide or large tables use."""
    from secroute.engine.bitmaps import message_sample
    from secroute.engine.grouping import split_rows
    from secroute.engine.mining import mine_groups

    wide = np.zeros((len(filters), 9), np.uint64)
    wide[:, 8] = filters[:, 0]
    table = ForwardingTable.build(wide, np.arange(len(wide)) % 2, engine="tree")
    table.forward(wide)
    table.match_filters(wide, live=np.ones(len(wide), np.int32))
    sample = message_sample(filters, None)
    mine_groups(filters, sample, -np.log(sample.share))
    split_rows(filters, 8, 8)
