"""The plots of a report, as inline SVG. TRUSTED side."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

INK, SOFT, ACCENT, WARM = "#1d2733", "#8a96a3", "#2166ac", "#b2452f"


def _axes(width: float = 7.2, height: float = 3.4) -> tuple[Any, Any]:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    mpl.rcParams.update({"font.size": 9, "font.family": "DejaVu Sans", "svg.fonttype": "none", "svg.hashsalt": "audit"})
    canvas = Canvas(figsize=(width, height), layout="constrained")
    axes = canvas.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return canvas, axes


def _svg(canvas: Any) -> str:
    out = io.StringIO()
    canvas.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"|<svg ([^>]*?)height="[^"]*" width="[^"]*"',
        r"<svg \1\2",
        text,
        count=1,
    )


def operators(rows: Sequence[dict[str, Any]]) -> str:
    """False-positive rate by operator, with intervals."""
    rows = sorted(rows, key=lambda r: r["fpr"] or 0)
    canvas, axes = _axes(height=0.9 + 0.32 * len(rows))
    value = [100 * (r["fpr"] or 0) for r in rows]
    low = [v - 100 * (r["low"] or 0) for v, r in zip(value, rows, strict=True)]
    high = [100 * (r["high"] or 0) - v for v, r in zip(value, rows, strict=True)]
    axes.barh([r["op"] for r in rows], value, color=ACCENT, height=0.6)
    axes.errorbar(
        value, range(len(rows)), xerr=[[max(0, x) for x in low], [max(0, x) for x in high]], fmt="none", color=INK, lw=1
    )
    for at, (v, above) in enumerate(zip(value, high, strict=True)):
        end = v + max(0, above)
        axes.annotate(f"{v:.2f} %", (end, at), xytext=(6, 0), textcoords="offset points", va="center", color=INK)
    axes.set_xlim(0, max([*value, 0.01]) * 1.25)
    axes.set_xlabel("false positives, % of pairs that do not match (predicates that use the operator)")
    return _svg(canvas)


def predictions(rows: Sequence[dict[str, Any]], messages: int) -> str:
    """Predicted against observed share of false positives, one dot a predicate."""
    canvas, axes = _axes(height=4.2)
    floor = 0.3 / messages
    axes.plot([floor, 1], [floor, 1], color=SOFT, lw=1)
    sets = (
        ("textbook", None, WARM, "textbook (independent bits)", 6, 0.25),
        ("expected", False, ACCENT, "attributes multiplied, dependent", 6, 0.3),
        ("expected", True, "#1b7f4d", "attributes multiplied, independence holds", 12, 0.9),
    )
    for key, wanted, colour, label, size, alpha in sets:
        these = [r for r in rows if wanted is None or r["holds"] is wanted]
        x, y = ([max(floor, r[name]) for r in these] for name in (key, "observed"))
        axes.scatter(x, y, s=size, color=colour, alpha=alpha, lw=0, label=label)
    axes.set(xscale="log", yscale="log", xlabel="predicted share of messages", ylabel="observed share")
    axes.legend(frameon=False, loc="upper left", fontsize=8, markerscale=2)
    return _svg(canvas)


def shade(value: float) -> str:
    """The colour of a leakage figure between 0 and 1."""
    import matplotlib as mpl
    from matplotlib.colors import to_hex

    return str(to_hex(mpl.colormaps["YlOrRd"](value)))


def sweep(rows: Sequence[dict[str, Any]], front: Sequence[dict[str, Any]]) -> str:
    """Width against false positives; the front marked."""
    canvas, axes = _axes(height=3.8)
    floor = 1e-6
    for hardening, colour in (("none", ACCENT), ("noise 50", "#7a5195"), ("pad 0.6", WARM), ("drop 300", "#c98b1b")):
        these = [r for r in rows if r["hardening"] == hardening]
        axes.scatter(
            [r["bits"] for r in these],
            [max(floor, r["fpr"]) for r in these],
            s=12,
            alpha=0.5,
            lw=0,
            color=colour,
            label=f"hardening: {hardening}",
        )
    axes.scatter(
        [r["bits"] for r in front],
        [max(floor, r["fpr"]) for r in front],
        s=46,
        facecolors="none",
        edgecolors=INK,
        lw=0.9,
        label="Pareto front (bits, false positives, leakage)",
    )
    axes.set(xscale="log", yscale="log", xlabel="bits of a filter (m)", ylabel="false-positive rate")
    ticks = sorted({r["bits"] for r in rows})
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    return _svg(canvas)


def disjunction(rows: Sequence[dict[str, Any]]) -> str:
    """Figures 5, 6 and 7 of the routing report side by side: medians, with the 5th to 95th percentile as a band."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    mpl.rcParams.update({"font.size": 8, "font.family": "DejaVu Sans", "svg.fonttype": "none", "svg.hashsalt": "audit"})
    canvas = Canvas(figsize=(10, 3.4), layout="constrained")
    titles = {"5": "figure 5: general model", "6": "figure 6: Zipf names", "7": "figure 7: uniform names"}
    for place, (figure, title) in enumerate(titles.items(), 1):
        axes = canvas.add_subplot(1, 3, place)
        chosen = [r for r in rows if r["figure"] == figure and not (figure == "5" and r["scenario"].endswith(" 0.1%"))]
        for scenario in sorted({r["scenario"] for r in chosen}):
            points = sorted((r for r in chosen if r["scenario"] == scenario), key=lambda r: r["x"])
            x = [r["x"] for r in points]
            style = "--" if scenario.endswith("encoded") or scenario.startswith("zipf-again") else "-"
            (line,) = axes.plot(x, [r["p50"] for r in points], style, lw=1.2, label=scenario)
            axes.fill_between(
                x, [r["p5"] for r in points], [r["p95"] for r in points], color=line.get_color(), alpha=0.12
            )
        axes.axhline(0.5, color=SOFT, lw=0.8)
        axes.set(xscale="log", ylim=(0, 1.05), title=title, xlabel="n k / |M|" if figure == "5" else "predicates")
        axes.legend(frameon=False, fontsize=6)
    return _svg(canvas)
