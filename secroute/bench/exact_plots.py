"""The figures of docs/papers.md: SIGCOMM 2003 figures 8-11 and the two tables of ICSE 2001, measured and drawn.

TRUSTED side (plaintext workloads). ``python -m secroute.bench.exact_plots --measure 8`` measures one figure and keeps
the numbers in ``exact-measured.json``; without ``--measure`` it draws all that was measured. Times are the best
of several runs, and what is to be compared (rounds against no rounds) runs alternately, so that what else the machine
does hits neither.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from secroute.bench.workloads import Sigcomm
from secroute.bench.workloads_icse import SCHEMA, Icse
from secroute.exact import BddTable, Columns, ExactTable, MessageBatch
from secroute.exact.counting import CountingEngine
from secroute.exact.filters import build_filters
from secroute.exact.selectivity import Determinants, determinants
from secroute.output import say

SIZES = (1_000, 10_000, 100_000, 500_000, 1_000_000, 2_000_000, 3_500_000, 5_000_000)
INTERFACES = (10, 20, 50, 100, 200)
FILTERS_EACH = (1, 3, 10, 30, 100, 1_000, 10_000, 100_000)
ROUNDS = (1, 2, 5, 10, 20, 30, 50, 70, 100, 150)
QUERIES = (25_000, 50_000, 75_000, 100_000)
DENSITIES = (0.077, 0.154, 0.231, 0.308, 1.0)
_MESSAGES = 100  # as in the paper
_REPEAT = 7

Rows = list[dict[str, Any]]


def _times(batch: MessageBatch, *tables: ExactTable | BddTable) -> list[float]:
    """Least seconds each table takes for the batch, run alternately after one run that is not counted."""
    taken: list[list[float]] = [[] for _ in tables]
    for run in range(_REPEAT + 1):
        for times, table in zip(taken, tables, strict=True):
            start = time.perf_counter()
            table.match(batch)
            if run:
                times.append(time.perf_counter() - start)
    return [min(times) for times in taken]


def _engines(columns: Columns, interfaces: int, names: Sequence[str]) -> dict[str, ExactTable]:
    """Tables by name: ``counting r=0`` and ``r=10`` are the paper's algorithm, without the name masks."""
    labels = Sigcomm().interfaces(columns.filters, interfaces).tolist()
    options: dict[str, dict[str, Any]] = {
        "counting r=0": {"engine": "counting", "rounds": 0, "masks": False},
        "counting r=10": {"engine": "counting", "rounds": 10, "masks": False},
        "counting, masks": {"engine": "counting", "rounds": 0, "masks": True},
        "pivot": {"engine": "pivot"},
    }
    return {name: ExactTable.build(columns, labels, **options[name]) for name in names}


def _compare(columns: Columns, interfaces: int, names: Sequence[str]) -> dict[str, float]:
    """Microseconds a message of each engine."""
    batch = MessageBatch.of(Sigcomm().messages(_MESSAGES))
    tables = _engines(columns, interfaces, names)
    times = _times(batch, *tables.values())
    return {name: round(1e6 * taken / len(batch), 2) for name, taken in zip(tables, times, strict=True)}


def figure_8() -> Rows:
    """Time a message over the number of constraints, one filter an interface."""
    names = ("counting r=0", "counting r=10", "counting, masks", "pivot")
    rows = []
    for size in SIZES:
        columns = Sigcomm().filters(size)
        rows.append({"constraints": size, **_compare(columns, columns.filters, names)})
        say(f"figure 8: {rows[-1]}")
    return rows


def figure_9() -> Rows:
    """Time a message over the number of constraints, for fixed numbers of interfaces."""
    rows = []
    for size in SIZES:
        columns = Sigcomm().filters(size)
        for interfaces in INTERFACES:
            found = _compare(columns, interfaces, ("counting r=0", "counting r=10", "pivot"))
            rows.append({"constraints": size, "interfaces": interfaces, **found})
        say(f"figure 9: {rows[-1]}")
    return rows


def figure_10() -> Rows:
    """Time a message over the filters an interface, at one million constraints."""
    columns, rows = Sigcomm().filters(1_000_000), []
    for each in FILTERS_EACH:
        found = _compare(columns, max(1, columns.filters // each), ("counting r=0", "counting r=10", "pivot"))
        rows.append({"filters_per_interface": each, **found})
        say(f"figure 10: {rows[-1]}")
    return rows


def figure_11() -> Rows:
    """Gain of selectivity rounds over none, one filter an interface, without and with name masks.

    All rounds run over the same arrays: two tables of the same content may differ by more than a few rounds gain.
    """
    rows: Rows = []
    batch = MessageBatch.of(Sigcomm().messages(_MESSAGES))
    for size in (1_000_000, 5_000_000):
        filters = build_filters(Sigcomm().filters(size))
        attributes, owner = filters.dictionary.resolve(batch), filters.predicate
        most = determinants(filters, owner, max(ROUNDS))
        for masks in (False, True):
            engine = CountingEngine.build(filters, masks=masks)
            best = dict.fromkeys((0, *ROUNDS), float("inf"))
            for _ in range(_REPEAT):
                for rounds in best:
                    table = Determinants(most.name[:rounds], most.bits[:rounds])
                    done = np.zeros(len(filters), np.int32)
                    start = time.perf_counter()
                    engine.match(attributes, owner, done, len(filters), table)
                    best[rounds] = min(best[rounds], time.perf_counter() - start)
            for rounds in ROUNDS:
                gain = round(100 * (1 - best[rounds] / best[0]), 1)
                rows.append({"constraints": size, "masks": masks, "rounds": rounds, "gain_percent": gain})
            say(f"figure 11: {rows[-len(ROUNDS) :]}")
    return rows


def table_1() -> Rows:
    """Nodes before and after restriction."""
    rows = []
    for count in QUERIES:
        queries = Icse().queries(count)
        before, after = (
            BddTable.build(queries, "strict", SCHEMA, restrict=restrict).nodes for restrict in (False, True)
        )
        rows.append({"queries": count, "before": before, "after": after, "factor": round(before / after, 2)})
        say(f"table 1: {rows[-1]}")
    return rows


def table_2() -> Rows:
    """Seconds for 1000 messages at each density."""
    rows: Rows = []
    for count in QUERIES:
        queries = Icse().queries(count)
        strict = BddTable.build(queries, "strict", SCHEMA)
        row: dict[str, Any] = {"queries": count}
        for density in DENSITIES:
            batch = MessageBatch.of(Icse().messages(1_000, density))
            row[f"{100 * density:g} %"] = round(_times(batch, strict)[0], 4)
        batch = MessageBatch.of(Icse().messages(1_000, 1.0))
        simple = BddTable.build(queries, "simple", SCHEMA)
        row["simple, 100 %"] = round(_times(batch, simple)[0], 4)
        rows.append(row)
        say(f"table 2: {row}")
    return rows


FIGURES: dict[str, Callable[[], Rows]] = {
    "8": figure_8,
    "9": figure_9,
    "10": figure_10,
    "11": figure_11,
    "nodes": table_1,
    "density": table_2,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is asked for, or draw what was measured."""
    parser = argparse.ArgumentParser(prog="python -m secroute.bench.exact_plots", description=__doc__)
    parser.add_argument("--measure", choices=[*FIGURES, "all"], help="measure this, and keep the numbers")
    parser.add_argument("--out", type=Path, default=Path("docs/img"), help="where the numbers and the pictures are")
    args = parser.parse_args(argv)
    kept = args.out / "exact-measured.json"
    measured: dict[str, Rows] = json.loads(kept.read_text()) if kept.exists() else {}
    if args.measure:
        for name in FIGURES if args.measure == "all" else [args.measure]:
            measured[name] = FIGURES[name]()
        lines = [
            f'  "{name}": [\n    ' + ",\n    ".join(map(json.dumps, measured[name])) + "\n  ]" for name in measured
        ]
        args.out.mkdir(parents=True, exist_ok=True)
        kept.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        from secroute.bench.exact_draw import draw

        for path in draw(measured, args.out):
            say(str(path))


if __name__ == "__main__":
    main()
