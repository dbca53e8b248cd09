"""The disjunction advantage by Monte Carlo: figures 5-7 of the routing-schemes report, in Spark.

TRUSTED side. ``a = M(p1 or .. or pn) / sum M(pi)``: how much smaller a disjunction is than its parts. General model:
predicates are sets of messages. Specific model: conjunctions of constraints; a constraint implied by another of its
conjunction is dropped, and a conjunction implied by another of the disjunction. For encoded predicates the same
reduction is inclusion of bits, and the size is the number of set bits.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from secroute.audit import plots
from secroute.content import Constraint, Op
from secroute.encoding.encoder import Encoder
from secroute.encoding.profile import Profile
from secroute.errors import AuditError
from secroute.keyring import throwaway_token_keys

POINTS = "figure string, scenario string, n long, x double, seed long, advantage double"
SIZES = ((1, 10), (2, 40), (3, 30), (4, 10), (5, 5), (6, 5))
STRING_OPS = ((Op.EQ, 40), (Op.PREFIX, 10), (Op.SUFFIX, 10), (Op.SUBSTRING, 10), (Op.NE, 10), (Op.LT, 10), (Op.GT, 10))
INT_OPS = ((Op.EQ, 40), (Op.LT, 25), (Op.GT, 25), (Op.NE, 10))
NAMES = {"zipf 500": (500, True), "zipf 5000": (5_000, True), "uniform 50": (50, False), "uniform 500": (500, False)}
_SYLLABLES = (
    "an",
    "ber",
    "con",
    "de",
    "er",
    "for",
    "gov",
    "in",
    "ka",
    "lo",
    "mar",
    "ne",
    "or",
    "pre",
    "ra",
    "so",
    "tion",
    "un",
    "ve",
    "west",
)
COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 7_000, 10_000)


@lru_cache(maxsize=4)
def terms(count: int = 200) -> tuple[str, ...]:
    """Word-like terms that share beginnings, endings and middles, as common terms do."""
    draw = random.Random(6)
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(draw.choice(_SYLLABLES) for _ in range(draw.choice((1, 2, 2, 3))))] = None
    return tuple(found)


def _pick(draw: random.Random, table: Sequence[tuple[Any, int]]) -> Any:
    return draw.choices([item for item, _ in table], [weight for _, weight in table])[0]


def conjunction(
    draw: random.Random, names: int, weights: Sequence[float] | None, words: Sequence[str]
) -> tuple[Constraint, ...]:
    """One random conjunction of the specific model; even names hold strings, odd ones whole numbers."""
    chosen = draw.choices(range(names), cum_weights=weights, k=_pick(draw, SIZES))
    made = []
    for name in chosen:
        if name % 2:
            made.append(Constraint(f"n{name}", _pick(draw, INT_OPS), draw.randint(-100, 100)))
        else:
            made.append(Constraint(f"n{name}", _pick(draw, STRING_OPS), draw.choice(words)))
    return tuple(made)


def implies(a: Constraint, b: Constraint) -> bool:
    """Whether every value that satisfies ``a`` satisfies ``b`` (same name; one type a name)."""
    x: Any = a.value
    y: Any = b.value
    if a == b:
        return True
    if a.op is Op.EQ:
        return bool(
            {
                Op.EQ: x == y, Op.NE: x != y, Op.LT: x < y, Op.GT: x > y,
                Op.PREFIX: isinstance(x, str) and x.startswith(str(y)),
                Op.SUFFIX: isinstance(x, str) and x.endswith(str(y)),
                Op.SUBSTRING: isinstance(x, str) and str(y) in x,
            }[b.op]
        )  # fmt: skip
    if a.op is Op.LT:
        return (b.op is Op.LT and x <= y) or (b.op is Op.NE and x <= y)
    if a.op is Op.GT:
        return (b.op is Op.GT and x >= y) or (b.op is Op.NE and x >= y)
    if a.op is Op.PREFIX:
        if b.op is Op.PREFIX:
            return bool(x.startswith(y))
        if b.op is Op.NE:
            return not y.startswith(x)
        # Whatever starts with x lies at or after x; it lies before y only if x does and y does not start with x.
        return (
            (b.op is Op.SUBSTRING and y in x)
            or (b.op is Op.GT and x > y)
            or (b.op is Op.LT and x < y and not y.startswith(x))
        )
    if a.op is Op.SUFFIX:
        return (
            (b.op is Op.SUFFIX and x.endswith(y))
            or (b.op is Op.SUBSTRING and y in x)
            or (b.op is Op.NE and not y.endswith(x))
        )
    return a.op is Op.SUBSTRING and ((b.op is Op.SUBSTRING and y in x) or (b.op is Op.NE and x not in y))


def reduce_conjunction(parts: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """Without constraints that another one implies."""
    kept: list[Constraint] = []
    for part in dict.fromkeys(parts):
        if any(k.name == part.name and implies(k, part) for k in kept):
            continue
        kept = [k for k in kept if not (k.name == part.name and implies(part, k))]
        kept.append(part)
    return tuple(kept)


def conjunction_implies(a: tuple[Constraint, ...], b: tuple[Constraint, ...]) -> bool:
    """Whether every message that matches ``a`` matches ``b``: each part of ``b`` is implied by a part of ``a``."""
    return all(any(x.name == y.name and implies(x, y) for x in a) for y in b)


def advantage(conjunctions: Sequence[tuple[Constraint, ...]], marks: Sequence[int]) -> list[float]:
    """The advantage after the first n conjunctions, for each n of ``marks`` (ascending), adding one at a time.

    A conjunction can only be implied by one whose names are all among its own, so candidates are looked up by name.
    """
    kept: dict[int, tuple[Constraint, ...]] = {}
    by_name: dict[str, set[int]] = defaultdict(set)
    total = size = 0
    out = []
    for number, raw in enumerate(conjunctions, 1):
        total += len(raw)
        new = reduce_conjunction(raw)
        names = {part.name for part in new}
        near = set().union(*(by_name[name] for name in names))
        if not any(conjunction_implies(new, kept[i]) for i in near):
            everywhere = set.intersection(*(by_name[name] for name in names))
            for i in [i for i in everywhere if conjunction_implies(kept[i], new)]:
                gone = kept.pop(i)
                size -= len(gone)
                for part in gone:
                    by_name[part.name].discard(i)
            kept[number] = new
            size += len(new)
            for name in names:
                by_name[name].add(number)
        if number in marks:
            out.append(size / total)
    return out


def encoded_advantage(conjunctions: Sequence[tuple[Constraint, ...]], marks: Sequence[int]) -> list[float]:
    """The same for encoded predicates: a filter that includes another's bits is implied by it; size counts set bits."""
    profile = Profile(bits=512, hashes=4)
    here = Encoder(profile, throwaway_token_keys(profile))
    nodes: list[Any] = [parts[0] if len(parts) == 1 else _and(parts) for parts in conjunctions]
    bits, owners = here.encode_predicates(nodes, match_all=True)
    weight = np.bitwise_count(bits).sum(axis=1).astype(np.int64)
    out = []
    for mark in marks:
        rows = np.flatnonzero(owners < mark)
        mine, size = bits[rows], weight[rows]
        _, first = np.unique(mine, axis=0, return_index=True)
        order = first[np.argsort(size[first], kind="stable")]
        kept = np.zeros((0, bits.shape[1]), np.uint64)
        taken: list[int] = []
        for row in order:
            # Smaller filters come first, so whatever implies this one is among the kept.
            if len(kept) and (~((kept & ~mine[row]).any(axis=1))).any():
                continue
            taken.append(int(row))
            kept = mine[taken]
        out.append(float(size[taken].sum() / max(1, size.sum())))
    return out


def _and(parts: tuple[Constraint, ...]) -> Any:
    from secroute.content import And

    return And(parts)


def zipf_edges(names: int) -> list[float]:
    """Running sums of Zipf weights."""
    return [float(total) for total in np.cumsum(1.0 / np.arange(1, names + 1))]


def specific(scenario: str, seed: int, marks: Sequence[int], encoded: bool) -> list[float]:
    """One random set of the specific model, measured at each mark."""
    names, zipf = NAMES[scenario]
    draw = random.Random(f"{scenario}/{seed}")
    weights = zipf_edges(names) if zipf else None
    words = terms()
    made = [conjunction(draw, names, weights, words) for _ in range(marks[-1])]
    return encoded_advantage(made, marks) if encoded else advantage(made, marks)


def general(universe: int, share: float, kind: str, seed: int, ratios: Sequence[float]) -> list[float]:
    """The general model: sets of k messages; the union's size over n k, at each ratio n k / |M|.

    ``kind``: ``uniform``, ``zipf`` (k different messages), or ``zipf-again`` (k draws, of which some may be the same).
    """
    draw = np.random.default_rng(seed)
    k = max(1, round(universe * share))
    weights = 1.0 / np.arange(1, universe + 1)
    cumulative = None if kind == "uniform" else np.cumsum(weights / weights.sum())
    seen = np.zeros(universe, bool)
    out, n = [], 0
    for ratio in ratios:
        while n * k < ratio * universe - 0.5:
            n += 1
            again = kind == "zipf-again"
            seen[_drawn(draw, universe, k, cumulative) if again else _distinct(draw, universe, k, cumulative)] = True
        out.append(float(seen.sum() / (n * k)))
    return out


def _drawn(draw: np.random.Generator, universe: int, count: int, cumulative: Any) -> Any:
    if cumulative is None:
        return draw.integers(0, universe, count)
    return np.minimum(np.searchsorted(cumulative, draw.random(count)), universe - 1)


def _distinct(draw: np.random.Generator, universe: int, k: int, cumulative: Any) -> Any:
    """k different messages, each drawn by its probability."""
    chosen = np.zeros(0, np.int64)
    while len(chosen) < k:
        more = _drawn(draw, universe, (2 if cumulative is None else 4) * k, cumulative)
        joined = np.concatenate([chosen, more])
        _, first = np.unique(joined, return_index=True)
        chosen = joined[np.sort(first)]
    return chosen[:k]


RATIOS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0)


def theory_job(marks: Sequence[int]) -> Any:
    """A ``mapInArrow`` function over (figure, scenario, seed): the points of one random set."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pylist(list(_points(row, marks)))

    return run


def _points(row: dict[str, Any], marks: Sequence[int]) -> Iterator[dict[str, Any]]:
    figure, scenario, seed = row["figure"], row["scenario"], row["seed"]
    if figure == "5":
        kind, universe, percent = scenario.split()
        share = float(percent.rstrip("%")) / 100
        ratios = [ratio for ratio in RATIOS if ratio >= share]
        for ratio, value in zip(ratios, general(int(universe), share, kind, seed, ratios), strict=True):
            n = round(ratio / share)
            yield {"figure": figure, "scenario": scenario, "n": n, "x": ratio, "seed": seed, "advantage": value}
        return
    encoded = scenario.endswith("encoded")
    few = [mark for mark in marks if mark <= 2_000] if encoded else list(marks)
    for n, value in zip(few, specific(scenario.removesuffix(" encoded"), seed, few, encoded), strict=True):
        yield {"figure": figure, "scenario": scenario, "n": n, "x": float(n), "seed": seed, "advantage": value}


def run_theory(
    spark: Any, out: Path, sets: int, most: int, seed: int, powers: Sequence[int] = (4, 5, 6)
) -> dict[str, Any]:
    """All three figures as a Parquet table of quantiles, and the published findings checked by numbers."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    target = out / "disjunction"
    if target.exists():
        raise AuditError(f"{target}: exists already; choose another folder")
    out.mkdir(parents=True, exist_ok=True)
    marks = [count for count in COUNTS if count <= most]
    rows = [
        ("5", f"{kind} {10**power} {share}", seed + i)
        for kind in ("uniform", "zipf", "zipf-again")
        for power in powers
        for share in ("0.1%", "1%")
        for i in range(min(5, sets))
    ]
    for scenario in NAMES:
        figure = "6" if scenario.startswith("zipf") else "7"
        rows += [(figure, scenario, seed + i) for i in range(sets)]
        rows += [(figure, f"{scenario} encoded", seed + i) for i in range(max(1, sets // 4))]
    frame = spark.createDataFrame(rows, "figure string, scenario string, seed long").repartition(min(len(rows), 32))
    points = frame.mapInArrow(theory_job(marks), POINTS)
    quantiles = points.groupBy("figure", "scenario", "n", "x").agg(
        F.min("advantage").alias("min"),
        *(F.percentile("advantage", p / 100).alias(f"p{p}") for p in (5, 50, 95)),
        F.max("advantage").alias("max"),
        F.count("*").alias("sets"),
    )
    quantiles.coalesce(1).write.parquet(str(target))
    table = [row.asDict() for row in spark.read.parquet(str(target)).collect()]
    (out / "figures.svg").write_text(plots.disjunction(table), encoding="utf-8")
    return {"out": str(target), **findings(table)}


def findings(table: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The published statements, by numbers."""
    plain = [r for r in table if r["figure"] in "67" and not r["scenario"].endswith("encoded")]
    consistent = {
        s: min((r["n"] for r in plain if r["scenario"] == s and r["p95"] <= 0.5), default=None) for s in NAMES
    }
    uniform = [r for r in table if r["figure"] == "5" and r["scenario"].startswith("uniform")]
    error = max(abs(r["p50"] / ((1 - (1 - r["x"] / r["n"]) ** r["n"]) / r["x"]) - 1) for r in uniform)
    five = {
        kind: {r["scenario"].split()[1]: round(r["p50"], 3) for r in _five_of_one_percent(table) if _kind(r) == kind}
        for kind in ("uniform", "zipf", "zipf-again")
    }
    checks = {
        "uniform_matches_formula": error < 0.02,
        "zipf_below_uniform": all(
            z["p50"] <= u["p50"]
            for u in uniform
            for z in table
            if z["scenario"] == u["scenario"].replace("uniform", "zipf") and z["x"] == u["x"]
        ),
        "none_reaches_half_below_100": all(n is None or n >= 100 for n in consistent.values()),
        "falls_with_n": all(
            a["p50"] >= b["p50"] - 0.02 for s in NAMES for a, b in _neighbours([r for r in plain if r["scenario"] == s])
        ),
    }
    return {
        "half_reached_at": consistent,
        "uniform_500_median": {
            r["n"]: round(r["p50"], 3)
            for r in sorted(plain, key=lambda r: r["n"])
            if r["scenario"] == "uniform 500" and r["n"] >= 1_000
        },
        "figure5_uniform_error_max": error,
        "figure5_five_of_one_percent": five,
        "checks": checks,
        "findings_hold": all(checks.values()),
    }


def _kind(row: dict[str, Any]) -> str:
    return str(row["scenario"]).split()[0]


def _five_of_one_percent(table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Figure 5 in words: "combining only five predicates each one selecting one out of one hundred messages"."""
    return sorted(
        (r for r in table if r["figure"] == "5" and r["scenario"].endswith(" 1%") and r["n"] == 5),
        key=lambda r: int(r["scenario"].split()[1]),
    )


def _neighbours(rows: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    ordered = sorted((r for r in rows if r["n"] >= 10), key=lambda r: r["n"])
    return list(itertools.pairwise(ordered))
