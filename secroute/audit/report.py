"""One self-contained HTML report: a summary in plain words first, then figures, plots and tables.

TRUSTED side. It names attributes, predicates and interfaces (it is for their owner) and never a key.
"""

# ruff: noqa: E501, ISC004 - markup reads better unwrapped
from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from secroute.audit import plots
from secroute.audit.leakage import WHOLE
from secroute.audit.sweep import pareto

_STYLE = """
:root{--ink:#1d2733;--soft:#5b6875;--line:#d9dfe5;--ok:#1b7f4d;--bad:#b2452f;--paper:#fff}
*{box-sizing:border-box}body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:#f4f6f8;margin:0}
main{max-width:860px;margin:0 auto;background:var(--paper);padding:2rem 2.2rem 3rem}
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
p{margin:.5rem 0}.soft{color:var(--soft);font-size:.9rem}.verdict{display:inline-block;padding:.2rem .8rem;border-radius:1rem;color:#fff;font-weight:600}
.pass{background:var(--ok)}.fail{background:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:.7rem;margin:1.2rem 0}
.card{border:1px solid var(--line);border-radius:.5rem;padding:.7rem .9rem}.card b{display:block;font-size:1.35rem;line-height:1.2}
.card span{color:var(--soft);font-size:.85rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{padding:.32rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}th{color:var(--soft);font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}code{font-size:.84rem;overflow-wrap:anywhere}
svg{width:100%;height:auto;max-width:100%}
@media(max-width:600px){main{padding:1.1rem}h1{font-size:1.3rem}}
@media print{body{background:#fff}main{max-width:none;padding:0}h2{break-after:avoid}svg,table{break-inside:avoid}}
"""

MEASURES = {
    "equal_pairs": "equal messages recognised",
    "popcount_information": "number of attributes read from the number of bits",
    "bit_skew_gini": "unevenness of bits",
    "dependent_bit_pairs": "bits that occur together",
    "bits_in_frequent_sets": "bits that belong to a recognisable set",
    "covering_edges_true": "which subscription is wider than which",
    "volume_correlation": "how busy a subscription is",
    "rank_naive": "subscriptions named by volume",
    "rank_corrected": "the same, corrected for false positives",
    "pattern_mining": "tokens rebuilt from co-occurring bits",
    "bayes_vulnerability": "one guess a message, router alone",
    "bayes_with_member": "one guess a message, router helped by a member",
    "dictionary_with_key": "values read by someone with the key",
    "linked_across_epochs": "subscriptions recognised after rotation",
}


def percent(value: float) -> str:
    """A share for people."""
    if value == 0:
        return "0 %"
    return f"{100 * value:.2f} %" if value >= 0.0001 else f"{100 * value:.1g} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], numeric: Sequence[int] = ()) -> str:
    def cell(tag: str, at: int, text: Any) -> str:
        return f"<{tag}{' class=n' if at in numeric else ''}>{text if isinstance(text, _Html) else html.escape(str(text))}</{tag}>"

    body = "".join("<tr>" + "".join(cell("td", i, c) for i, c in enumerate(row)) + "</tr>" for row in rows)
    top = "".join(cell("th", i, c) for i, c in enumerate(head))
    return f"<div class=scroll><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


class _Html(str):
    """Text that is markup already."""

    __slots__ = ()


def _code(text: str) -> _Html:
    return _Html(f"<code>{html.escape(text)}</code>")


def _mean_advantages(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["measure"] in MEASURES:
            found = sums.setdefault((row["measure"], row["variant"]), [])
            # Where plain text shows no more than chance there is nothing to compare with.
            found += [row["advantage"]] if abs(row["ceiling"] - row["chance"]) > 1e-12 else []
    return {key: sum(values) / max(1, len(values)) for key, values in sums.items()}


def _summary(found: dict[str, Any], variant: str) -> str:
    fpr = found["fpr"]
    table = _mean_advantages(found.get("leakage", []))
    worst = sorted(
        (
            (v, m)
            for (m, name), v in table.items()
            if name == variant and m not in ("dictionary_with_key", "bayes_with_member")
        ),
        reverse=True,
    )[:3]
    ratio = fpr["extra_deliveries"] / max(1, fpr["deliveries"])
    parts = [
        f"{fpr['messages']:,} messages were matched against {fpr['predicates']:,} predicates, once in plain text and once "
        f"as a router sees them. <b>No message was lost: {fpr['false_negatives']} false negatives</b> in "
        f"{fpr['exact_matches']:,} true matches.",
        f"A router sends {percent(fpr['fpr'])} of what it need not send (between {percent(fpr['fpr_low'])} and "
        f"{percent(fpr['fpr_high'])}): for each wanted delivery to an interface, {ratio:.2f} unwanted ones, "
        f"{fpr['extra_bytes'] / 1e6:,.1f} MB in all. Receivers discard them; no application sees one.",
    ]
    if worst:
        names = "; ".join(f"{MEASURES[m]} ({v:.0%} of what plain text would show)" for v, m in worst)
        parts.append(f"What a curious router learns most about: {names}.")
        member, key = table.get(("bayes_with_member", variant), 0.0), table.get(("dictionary_with_key", variant), 0.0)
        parts.append(
            f"It does not protect against everyone: a router helped by a member who tells it values comes {member:.0%} of the "
            f"way to plain text, and somebody with the key {key:.0%}."
        )
    return "".join(f"<p>{part}</p>" for part in parts)


def _cards(found: dict[str, Any]) -> str:
    fpr = found["fpr"]
    cards = [
        (f"{fpr['false_negatives']}", "false negatives"),
        (percent(fpr["fpr"]), "false-positive rate"),
        (percent(fpr["precision"]), "of encoded matches are true"),
        (f"{fpr['matches_per_message']:.1f}", "true matches a message"),
        (f"{fpr['pairs'] / 1e9:,.3g} billion", "pairs compared"),
    ]
    return (
        "<div class=cards>" + "".join(f"<div class=card><b>{v}</b><span>{t}</span></div>" for v, t in cards) + "</div>"
    )


def _leakage(found: dict[str, Any], variant: str) -> str:
    rows = found.get("leakage", [])
    if not rows:
        return ""
    table = _mean_advantages([r for r in rows if r["variant"] != WHOLE])
    known = ("none", "pad", "noise", "drop", "all", "as configured")
    variants = [name for name in known if any(r["variant"] == name for r in rows)]
    names = [m for m in MEASURES if any(key[0] == m for key in table)]
    shown = {(MEASURES[m], v): value for (m, v), value in table.items()}
    text = (
        "<h2>What a router learns</h2><p>0: no better than chance. 1: as much as plain text would show. Columns are "
        "hardenings of the profile; the attacker knows which is used and adapts.</p>"
        + plots.heat([MEASURES[m] for m in names], variants, shown)
    )
    mine = [r for r in rows if r["variant"] in (variant, WHOLE)]
    body = [
        (
            r["measure"],
            r["attribute"] or (WHOLE if r["variant"] == WHOLE else ""),
            f"{r['value']:.4g}",
            f"{r['low']:.4g} – {r['high']:.4g}",
            f"{r['chance']:.4g}",
            f"{r['ceiling']:.4g}",
            f"{r['samples']:,}",
        )
        for r in mine
    ]
    head = ("measure", "of", "value", "95 % interval", "chance", "plain text", "samples")
    return (
        text
        + f"<p class=soft>All figures for the profile as it runs ({html.escape(variant)}):</p>"
        + _table(head, body, (2, 3, 4, 5, 6))
    )


def _sweep(found: dict[str, Any]) -> str:
    rows = found.get("sweep", [])
    if not rows:
        return ""
    front = pareto(rows)
    body = [
        (
            r["bits"],
            r["hashes"],
            r["encoding"],
            r["hardening"],
            percent(r["fill"]),
            percent(r["fpr"]),
            f"{r['leakage']:.2f}",
        )
        for r in front[:25]
    ]
    head = ("m", "k", "encoding", "hardening", "fill", "false positives", "leakage")
    return "<h2>Other parameters</h2>" + plots.sweep(rows, front) + _table(head, body, (0, 1, 4, 5, 6))


def _prediction(found: dict[str, Any], scatter: Sequence[dict[str, Any]], messages: int) -> str:
    p = found["prediction"]
    text = (
        f"<p>Mean share of messages that a predicate gets for nothing: observed {percent(p['observed'])}; textbook "
        f"(independent bits) {percent(p['textbook'])}; from measured bits {percent(p['bits'])}"
    )
    if p["with_attributes"]:
        text += f"; from attributes taken one by one {percent(p['attributes'])} (observed on those predicates: {percent(p['observed_with_attributes'])})"
    text += ". The textbook forgets messages that match in part: where one condition is true, only the others must be hit by accident.</p>"
    if p["where_independent"]:
        text += (
            f"<p>Independence was measured to hold, within 10 % for every pair of attributes, for {p['where_independent']:,} "
            f"predicates: <b>{p['inside_where_independent']:,} of them were observed inside their predicted interval</b>; their mean "
            f"is {percent(p['observed_where_independent'])}, predicted {percent(p['predicted_where_independent'])} "
            f"({percent(p['low_where_independent'])} to {percent(p['high_where_independent'])}).</p>"
        )
    rows = [
        (
            "yes" if r["holds"] else "no",
            f"{r['predicates']:,}",
            percent(r["expected"]),
            percent(r["observed"]),
            f"{r['inside']:.0%}",
        )
        for r in found["calibration"]
        if r["expected"] >= 1e-6
    ]
    head = ("independent", "predicates", "predicted", "observed", "inside their interval")
    return text + (plots.predictions(scatter, messages) + _table(head, rows, (1, 2, 3, 4)) if rows else "")


def render(
    found: dict[str, Any],
    tables: dict[str, list[dict[str, Any]]],
    verdict: dict[str, Any],
    identity: dict[str, Any],
    variant: str,
) -> str:
    """The whole page."""
    messages = found["fpr"]["messages"]
    checks = [
        (c["check"], f"{c['value']:.4g}", f"{c['limit']:.4g}", "holds" if c["ok"] else "VIOLATED")
        for c in verdict["checks"]
    ]
    costly = [
        (_code(r["predicate"]), r["interface"], f"{r['exact']:,}", f"{r['false']:,}", percent(r["fpr"] or 0))
        for r in tables["costly"]
    ]
    busy = [
        (r["id"], f"{r['exact']:,}", f"{r['encoded'] - r['exact']:,}", f"{r['bytes'] / 1e6:,.2f}")
        for r in tables["interfaces"]
    ]
    ops = [
        (
            r["op"],
            f"{r['predicates']:,}",
            percent(r["fpr"] or 0),
            f"{percent(r['low'] or 0)} – {percent(r['high'] or 0)}",
        )
        for r in tables["operators"]
    ]
    profile = identity["profile"]
    hardening = ", ".join(h["name"] for h in profile["hardening"]) or "none"
    parts = [
        "<h1>Privacy and cost of encoded routing</h1>",
        f"<p><span class='verdict {verdict['verdict']}'>{verdict['verdict']}</span> <span class=soft>m = {profile['bits']}, "
        f"k = {profile['hashes']}, hardening: {html.escape(hardening)}; corpus {identity['corpus'][:12]}, seed {identity['seed']}, "
        f"keys: {html.escape(identity['keys'])}</span></p>",
        _summary(found, variant),
        _cards(found),
        "<h2>Verdict</h2>",
        _table(("check", "value", "limit", ""), checks, (1, 2)),
        "<h2>False positives by operator</h2>",
        plots.operators(tables["operators"]),
        _table(("operator", "predicates", "rate", "95 % interval"), ops, (1, 2, 3)),
        "<h2>Predicted and observed</h2>",
        _prediction(found, tables["scatter"], messages),
        _leakage(found, variant),
        _sweep(found),
        "<h2>Predicates that cost most</h2>",
        _table(("predicate", "interface", "true", "false", "rate"), costly, (2, 3, 4)),
        "<h2>Interfaces that receive most for nothing</h2>",
        _table(("interface", "wanted", "unwanted", "MB unwanted"), busy, (1, 2, 3)),
        f"<h2>Input</h2><p>{found['messages']['records']:,} messages ({found['messages']['bad']} bad records), "
        f"{found['predicates']['records']:,} predicates ({found['predicates']['bad']} bad records).</p>",
    ]
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>secroute audit</title><style>{_STYLE}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def write(path: Path, text: str) -> None:
    """Write whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
