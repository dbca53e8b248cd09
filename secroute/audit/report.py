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
from secroute.audit.leakage import LARGE, WHOLE
from secroute.audit.measures import MEASURES, ROUTER, VARIANTS, mean_advantages
from secroute.audit.sweep import pareto

_STYLE = """
:root{--ink:#1d2733;--soft:#5b6875;--line:#d9dfe5;--ok:#1b7f4d;--bad:#b2452f;--paper:#fff}
*{box-sizing:border-box}body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif;color:var(--ink);background:#f4f6f8;margin:0}
main{max-width:860px;margin:0 auto;background:var(--paper);padding:2rem 2.2rem 3rem}
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
p{margin:.5rem 0}.soft{color:var(--soft);font-size:.9rem}.verdict{display:inline-block;padding:.2rem .8rem;border-radius:1rem;color:#fff;font-weight:600}
.pass{background:var(--ok)}.fail{background:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(125px,1fr));gap:.6rem;margin:1.2rem 0}
.card{border:1px solid var(--line);border-radius:.5rem;padding:.7rem .8rem}.card b{display:block;font-size:1.25rem;line-height:1.2;white-space:nowrap}
.card span{color:var(--soft);font-size:.85rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{padding:.32rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}th{color:var(--soft);font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}code{font-size:.84rem;overflow-wrap:anywhere}
svg{width:100%;height:auto;min-width:35rem;display:block}td small{color:var(--soft)}td:first-child code{display:block;min-width:13rem}
table.heat td.n{text-align:center;border:1px solid #fff;min-width:3.2rem;print-color-adjust:exact;-webkit-print-color-adjust:exact}table.heat th.n{text-align:center}
@media(max-width:600px){main{padding:1.1rem}h1{font-size:1.3rem}table{font-size:.8rem}th,td{padding:.28rem .3rem}td:first-child,th:first-child{position:sticky;left:0;background:var(--paper)}table.heat td.n{min-width:2.3rem}}
@media print{body{background:#fff;font-size:10.5pt}main{max-width:none;padding:0}h2{break-after:avoid}svg,tr,.card{break-inside:avoid}.scroll{overflow:visible}svg{min-width:0}}
"""


def percent(value: float) -> str:
    """A share for people."""
    if value == 0:
        return "0 %"
    return f"{100 * value:.2f} %" if value >= 0.0001 else f"{100 * value:.1g} %"


def amount(size: float) -> str:
    """Bytes for people."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


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


def _summary(found: dict[str, Any], variant: str) -> str:
    fpr = found["fpr"]
    table = mean_advantages(found.get("leakage", []))
    worst = sorted(
        ((v, m) for (m, name), v in table.items() if name == variant and MEASURES[m].attacker == ROUTER),
        reverse=True,
    )[:3]
    ratio = fpr["extra_deliveries"] / max(1, fpr["deliveries"])
    parts = [
        f"{fpr['messages']:,} messages were matched against {fpr['predicates']:,} predicates, once in plain text and once "
        f"as a router sees them. <b>No message was lost: {fpr['false_negatives']} false negatives</b> in "
        f"{fpr['exact_matches']:,} true matches.",
        f"Of all pairs of a message and a predicate that do not match, a router takes {percent(fpr['fpr'])} for matches "
        f"(95 % interval {percent(fpr['fpr_low'])} to {percent(fpr['fpr_high'])}). For each wanted delivery to an interface "
        f"it makes {ratio:.2f} unwanted ones, {amount(fpr['extra_bytes'])} in all. Receivers discard them; no application "
        "sees one.",
    ]
    if worst:
        names = "; ".join(f"{MEASURES[m].words} ({v:.0%})" for v, m in worst)
        parts.append(
            f"What a curious router learns most about, from nothing (0%) to all that plain text would show (100%): {names}."
        )
        member, key = table.get(("bayes_with_member", variant), 0.0), table.get(("dictionary_with_key", variant), 0.0)
        parts.append(
            f"Encoding does not protect against everyone: a router helped by a member who tells it values comes {member:.0%} "
            f"of the way from blind guessing to plain text, and somebody with the key {key:.0%}. These are the attacks that "
            "were tried on this corpus; a better one may do better."
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


def _heat(names: Sequence[str], variants: Sequence[str], table: dict[tuple[str, str], float]) -> str:
    """Advantage of every measure (rows) under every hardening (columns): a table, so that a phone can show it."""
    body = ""
    for name in names:
        one = MEASURES[name]
        who = "" if one.attacker == ROUTER else f" <small>({one.attacker})</small>"
        body += f"<tr><td>({one.number}) {html.escape(one.words)}{who}</td>"
        for variant in variants:
            value = table.get((name, variant))
            if value is None:
                body += "<td class=n>–</td>"
                continue
            ink = "#fff" if value > 0.6 else "var(--ink)"
            body += f"<td class=n style='background:{plots.shade(value)};color:{ink}'>{value:.2f}</td>"
        body += "</tr>"
    head = "".join(f"<th class=n>{html.escape(v)}</th>" for v in variants)
    return f"<div class=scroll><table class=heat><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _leakage(found: dict[str, Any], variant: str) -> str:
    rows = found.get("leakage", [])
    if not rows:
        return ""
    table = mean_advantages([r for r in rows if r["variant"] not in (WHOLE, LARGE)])
    variants = [name for name in VARIANTS if any(r["variant"] == name for r in rows)]
    present = {r["measure"] for r in rows}
    names = [m for m, one in MEASURES.items() if one.in_summary and m in present]
    return (
        "<h2>What a router learns</h2><p>0: no better than chance. 1: as much as plain text would show. –: plain text shows "
        "no more than chance here. Each row is a measure or an attack, by a router alone unless it says otherwise; columns "
        "are hardenings of the profile. The attacker knows which is used and adapts.</p>"
        + _heat(names, variants, table)
    )


def _every_figure(found: dict[str, Any], variant: str) -> str:
    rows = found.get("leakage", [])
    if not rows:
        return ""
    order = {name: at for at, name in enumerate(MEASURES)}
    mine = sorted(
        (r for r in rows if r["variant"] in (variant, WHOLE, LARGE)),
        key=lambda r: (order[r["measure"]], r["variant"] in (WHOLE, LARGE), r["attribute"]),
    )
    first = [at == 0 or mine[at - 1]["measure"] != r["measure"] for at, r in enumerate(mine)]
    body = [
        (
            _Html(f"{html.escape(MEASURES[r['measure']].words)}<br><small>{r['measure']}</small>" if new else ""),
            r["attribute"] or (r["variant"] if r["variant"] in (WHOLE, LARGE) else "sample"),
            f"{r['value']:.4g}",
            f"{r['low']:.3g} – {r['high']:.3g}",
            f"{r['chance']:.3g}",
            f"{r['ceiling']:.3g}",
            f"{r['samples']:,}",
        )
        for r, new in zip(mine, first, strict=True)
    ]
    head = ("measure", "of", "value", "95 % interval", "chance", "plain text", "samples")
    return (
        f"<h2>Every figure of leakage</h2><p>For the profile as it runs (hardening: {html.escape(variant)}). A policy limits how far a "
        "value may come from chance towards plain text, by the name in small print.</p>"
        + _table(head, body, (2, 3, 4, 5, 6))
    )


FRONT_SHOWN = 25


def _sweep(found: dict[str, Any]) -> str:
    rows = found.get("sweep", [])
    if not rows:
        return ""
    front = pareto(rows)
    # Of a long front the part with few false positives is what a reader looks for.
    shown = sorted(sorted(front, key=lambda r: r["fpr"])[:FRONT_SHOWN], key=lambda r: (r["bits"], r["fpr"]))
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
        for r in shown
    ]
    head = ("m", "k", "encoding", "hardening", "fill", "false positives", "leakage")
    return (
        f"<h2>Other parameters</h2><p>{len(rows):,} profiles were tried on a sample. {len(front):,} of them are beaten by no other "
        "in bits, false positives and leakage at once (circles)"
        + (f"; the {len(shown)} with the fewest false positives are listed" if len(front) > len(shown) else "")
        + ". Leakage is a mean of what a router alone reads from dependent bits, popcounts, volumes and covering, "
        "0 for chance and 1 for plain text. <code>secroute audit plan</code> chooses among them.</p>"
        + _scroll(plots.sweep(rows, front))
        + _table(head, body, (0, 1, 4, 5, 6))
    )


def _scroll(plot: str) -> str:
    """A plot keeps its size on a phone and is moved sideways: shrunk, its letters could not be read."""
    return f"<div class=scroll>{plot}</div>"


def _check_words(name: str) -> str:
    """A check of the verdict in plain words."""
    fixed = {
        "false_negatives": "messages lost (false negatives)",
        "fpr_high": "false-positive rate, upper end of its interval",
        "extra_deliveries_per_delivery": "unwanted deliveries for each wanted one",
    }
    kind, _, rest = name.partition(".")
    if kind != "advantage":
        return fixed[name]
    measure, _, attribute = rest.partition(".")
    return MEASURES[measure].words + (f": {attribute}" if attribute else "")


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
    return text + (_scroll(plots.predictions(scatter, messages)) + _table(head, rows, (1, 2, 3, 4)) if rows else "")


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
        (
            _check_words(c["check"]),
            "not measured" if c["value"] is None else f"{c['value']:.3g}",
            f"{c['limit']:.3g}",
            _Html("holds" if c["ok"] else "<b style='color:var(--bad)'>VIOLATED</b>"),
        )
        for c in verdict["checks"]
    ]
    costly = [
        (_code(r["predicate"]), r["interface"], f"{r['exact']:,}", f"{r['false']:,}", percent(r["fpr"] or 0))
        for r in tables["costly"]
    ]
    busy = [
        (r["id"], f"{r['exact']:,}", f"{r['encoded'] - r['exact']:,}", amount(r["bytes"])) for r in tables["interfaces"]
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
        "<h2>Verdict</h2><p>Limits are those of the policy file, or the defaults. Leakage is counted from 0 (chance) to 1 "
        "(plain text).</p>",
        _table(("check", "value", "limit", "result"), checks, (1, 2)),
        "<h2>False positives by operator</h2>",
        _scroll(plots.operators(tables["operators"])),
        _table(("operator", "predicates", "rate", "95 % interval"), ops, (1, 2, 3)),
        "<h2>Predicted and observed</h2>",
        _prediction(found, tables["scatter"], messages),
        _leakage(found, variant),
        _sweep(found),
        "<h2>Predicates that cost most</h2>",
        _table(("predicate", "interface", "wanted", "unwanted", "rate"), costly, (2, 3, 4)),
        "<h2>Interfaces that receive most for nothing</h2>",
        _table(("interface", "wanted", "unwanted", "unwanted bytes"), busy, (1, 2, 3)),
        _every_figure(found, variant),
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
