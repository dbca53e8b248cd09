"""Plots of the simulator's figures (``secroute sim --plots``), as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from secroute.errors import ConfigError

_COLOURS = {"pif": "#1b6ca8", "psf": "#c0392b", "ips": "#e08e0b", "drp": "#2e8b57"}


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ConfigError("plots need matplotlib: install secroute[audit]") from None
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "secroute"  # the same figures give the same file
    import matplotlib.pyplot as plt

    return plt


def _save(plt: Any, figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_hops(runs: list[dict[str, Any]], path: Path) -> None:
    """Ideal hops and hops in vain of every scheme."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6, 3.2))
    names = [run["scheme"] for run in runs]
    axes.bar(names, [run["ideal_hops"] for run in runs], color="#7f8c8d", label="on the ideal tree")
    in_vain = [run["false_positive_hops"] for run in runs]
    axes.bar(names, in_vain, bottom=[run["ideal_hops"] for run in runs], color="#c0392b", label="in vain")
    axes.set_ylabel("hops")
    axes.set_title(f"{runs[0]['topology']}, {runs[0]['receivers']} filters, {runs[0]['messages']} messages")
    axes.legend()
    _save(plt, figure, path)


def plot_growth(points: list[dict[str, Any]], path: Path, title: str) -> None:
    """Total memory against the number of routers, measured and by the papers' formulas."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6, 4))
    sizes = [point["routers"] for point in points]
    for name, colour in _COLOURS.items():
        measured = [point["measured_bits"][name] / 8_388_608 for point in points]
        axes.loglog(sizes, measured, "o-", color=colour, label=f"{name}, measured")
        if all(name in point["formula_bits"] for point in points):
            told = [point["formula_bits"][name] / 8_388_608 for point in points]
            axes.loglog(sizes, told, "--", color=colour, alpha=0.6, label=f"{name}, formula without sharing")
    axes.set_xlabel("routers")
    axes.set_ylabel("MiB in all routers")
    axes.set_title(title)
    axes.legend(fontsize=7)
    _save(plt, figure, path)
