"""``secroute bench match --curves DIR``: the paper's figures for encoded tables, measured and drawn.

Time a message against the number of filters (figure 8), against filters an interface (figures 9 and 10), and against
selectivity rounds (figure 11), on the paper's workload as the default profile encodes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from secroute.bench.match import best_of
from secroute.bench.match_workloads import Workload, paper_workload, tag_workload
from secroute.engine import ForwardingTable
from secroute.output import say

_BITS, _FILL = 2_048, 0.4
_MESSAGES = 100  # as in the paper
_PASSES = 3
_ENGINES = ("counting", "scan", "tree")
_COUNTS = (1_000, 3_000, 10_000, 30_000, 100_000)
_PER_INTERFACE = (1, 10, 100, 1_000)
_ROUNDS = (0, 10, 20, 40, 70, 100)

Curves = dict[str, list[tuple[float, float]]]


def draw(directory: Path, seed: int) -> dict[str, Any]:
    """Measure everything, write the plots and their numbers; the numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    figures = {
        "filters": ("filters", _against_filters(seed)),
        "tags": ("filters of 192 bits, zipf", _against_tag_filters(seed)),
        "per-interface": ("filters an interface, 10 000 in all", _against_interfaces(seed)),
        "rounds": ("selectivity rounds, 10 000 interfaces of one filter", _against_rounds(seed)),
    }
    for name, (label, curves) in figures.items():
        _plot(directory / f"engine-{name}.png", label, curves, log=name != "rounds")
    result = {name: curves for name, (_, curves) in figures.items()}
    (directory / "engine-curves.json").write_text(json.dumps(result) + "\n")
    return {"figures": sorted(f"engine-{name}.png" for name in figures), "us_per_message": result}


def _time_us(load: Workload, engine: str, rounds: int | None = None) -> float:
    table = ForwardingTable.build(load.filters, load.interfaces, engine=engine, rounds=rounds)
    table.forward(load.messages[:2])
    seconds, _ = best_of(table.forward, load.messages, _PASSES)
    say(f"{table}, {table.rounds} rounds: {seconds / len(load.messages) * 1e6:.1f} us a message")
    return round(seconds / len(load.messages) * 1e6, 2)


def _against_filters(seed: int) -> Curves:
    curves: Curves = {engine: [] for engine in _ENGINES}
    for count in _COUNTS:
        load = paper_workload(count, _BITS, _FILL, _MESSAGES, seed)
        for engine in _ENGINES:
            curves[engine].append((count, _time_us(load, engine)))
    return curves


def _against_tag_filters(seed: int) -> Curves:
    curves: Curves = {engine: [] for engine in _ENGINES}
    for count in _COUNTS:
        load = tag_workload("zipf", count, 192, _MESSAGES, seed)
        for engine in _ENGINES:
            curves[engine].append((count, _time_us(load, engine)))
    return curves


def _against_interfaces(seed: int) -> Curves:
    load = paper_workload(10_000, _BITS, _FILL, _MESSAGES, seed)
    curves: Curves = {engine: [] for engine in _ENGINES}
    for share in _PER_INTERFACE:
        spread = Workload(load.filters, np.arange(len(load.filters)) // share, load.messages)
        for engine in _ENGINES:
            curves[engine].append((share, _time_us(spread, engine)))
    return curves


def _against_rounds(seed: int) -> Curves:
    load = paper_workload(10_000, _BITS, _FILL, _MESSAGES, seed).one_filter_per_interface()
    return {"counting": [(rounds, _time_us(load, "counting", rounds)) for rounds in _ROUNDS]}


def _plot(path: Path, label: str, curves: Curves, *, log: bool) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    for name, points in curves.items():
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", label=name)
    if log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(label)
    axes.set_ylabel("microseconds a message")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
