"""Drawing what ``exact_plots`` measured. TRUSTED side. The papers' points are those that their text and tables give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

Rows = list[dict[str, Any]]

PAPER_NODES = {
    25_000: (180_226, 108_889),
    50_000: (351_616, 206_848),
    75_000: (543_677, 299_942),
    100_000: (708_969, 376_992),
}
PAPER_DENSITY = {
    25_000: (1.56, 3.81, 5.86, 8.23, 27.64, 20.12),
    50_000: (3.56, 7.63, 10.92, 14.74, 55.66, 41.58),
    75_000: (6.65, 12.49, 18.11, 22.56, 89.93, 61.75),
    100_000: (9.01, 15.57, 21.4, 30.83, 121.32, 81.64),
}
_STYLE = {
    "counting r=0": ("tab:blue", "-"),
    "counting r=10": ("tab:blue", "--"),
    "counting, masks": ("tab:green", "-"),
    "pivot": ("tab:red", "-"),
}


def _axes(title: str, x: str, y: str) -> tuple[Any, Any]:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(True, which="major", alpha=0.3)
    return figure, axes


def _lines(axes: Any, rows: Rows, x: str) -> None:
    for name, (colour, dash) in _STYLE.items():
        if name in rows[0]:
            axes.plot([r[x] for r in rows], [r[name] for r in rows], dash, color=colour, marker=".", label=name)
    axes.set(xscale="log", yscale="log")


def _figure_8(rows: Rows) -> Any:
    figure, axes = _axes("Figure 8: one filter an interface", "constraints", "µs a message")
    _lines(axes, rows, "constraints")
    axes.plot(5e6, 330_000, "k*", markersize=10, label="paper (950 MHz)")
    axes.legend()
    return figure


def _figure_9(rows: Rows) -> Any:
    figure, axes = _axes("Figure 9: fixed numbers of interfaces", "constraints", "µs a message")
    counts = sorted({row["interfaces"] for row in rows})
    shades = plt.get_cmap("viridis")
    for i, count in enumerate(counts):
        mine = [row for row in rows if row["interfaces"] == count]
        size, colour = [row["constraints"] for row in mine], shades(i / len(counts))
        axes.plot(size, [row["counting r=0"] for row in mine], "-", color=colour, label=f"counting, I = {count}, r=0")
        axes.plot(size, [row["counting r=10"] for row in mine], "--", color=colour)
    mine = [row for row in rows if row["interfaces"] == 20]
    axes.plot([r["constraints"] for r in mine], [r["pivot"] for r in mine], "-", color="tab:red", label="pivot, I = 20")
    axes.plot(5e6, 3_000, "k*", markersize=10, label="paper, I = 20 (950 MHz)")
    axes.plot([], [], "k--", label="r=10")
    axes.set(xscale="log", yscale="log")
    axes.legend(fontsize="small")
    return figure


def _figure_10(rows: Rows) -> Any:
    title = "Figure 10: one million constraints"
    figure, axes = _axes(title, "filters an interface", "µs a message")
    _lines(axes, rows, "filters_per_interface")
    axes.legend()
    return figure


def _figure_11(rows: Rows) -> Any:
    figure, axes = _axes("Figure 11: gain of selectivity rounds, one filter an interface", "rounds", "gain, %")
    for masks, colour in ((False, "tab:blue"), (True, "tab:green")):
        for size, dash in ((1_000_000, "--"), (5_000_000, "-")):
            mine = [row for row in rows if row["masks"] == masks and row["constraints"] == size]
            label = f"{size // 1_000_000} M constraints, {'name masks' if masks else 'as in the paper'}"
            xs, ys = [0, *(r["rounds"] for r in mine)], [0, *(r["gain_percent"] for r in mine)]
            axes.plot(xs, ys, dash, color=colour, marker=".", label=label)
    axes.set_ylim(top=50)
    axes.axhline(0, color="k", linewidth=0.8)
    axes.axhline(40, color="k", linestyle=":", label="paper: up to 40 %, fading after 50-70 rounds")
    axes.legend(fontsize="small")
    return figure


def _nodes(rows: Rows) -> Any:
    figure, axes = _axes("Nodes of the shared BDD", "queries", "nodes")
    xs = [row["queries"] for row in rows]
    axes.plot(xs, [row["before"] for row in rows], "--", color="tab:red", marker=".", label="before restriction")
    axes.plot(xs, [row["after"] for row in rows], "-", color="tab:red", marker=".", label="after restriction")
    for place, (dash, label) in enumerate((("--", "paper, before"), ("-", "paper, after"))):
        axes.plot(xs, [PAPER_NODES[x][place] for x in xs], dash, color="k", marker="*", label=label)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure


def _density(rows: Rows) -> Any:
    figure, axes = _axes("1000 messages against 100 000 queries", "attributes defined, %", "seconds")
    row = next(row for row in rows if row["queries"] == 100_000)
    xs = [7.7, 15.4, 23.1, 30.8, 100.0]
    ours, paper = [row[f"{x:g} %"] for x in xs], PAPER_DENSITY[100_000]
    axes.plot(xs, paper[:5], "k-", marker="*", label="paper, strict (200 MHz)")
    axes.plot(100, paper[5], "k", marker="o", linestyle="none", label="paper, simple")
    axes.plot(xs, ours, "-", color="tab:red", marker=".", label="ours, strict")
    axes.plot(100, row["simple, 100 %"], color="tab:red", marker="o", linestyle="none", label="ours, simple")
    axes.set(yscale="log")
    axes.legend()
    return figure


_DRAWN: dict[str, tuple[str, Callable[[Rows], Any]]] = {
    "8": ("exact-figure-8.png", _figure_8),
    "9": ("exact-figure-9.png", _figure_9),
    "10": ("exact-figure-10.png", _figure_10),
    "11": ("exact-figure-11.png", _figure_11),
    "nodes": ("exact-bdd-nodes.png", _nodes),
    "density": ("exact-bdd-density.png", _density),
}


def draw(measured: dict[str, Rows], out: Path) -> list[Path]:
    """One picture for each thing that was measured."""
    made = []
    for name, rows in measured.items():
        file, make = _DRAWN[name]
        figure = make(rows)
        figure.savefig(out / file, dpi=110, metadata={"Software": None})
        plt.close(figure)
        made.append(out / file)
    return made
