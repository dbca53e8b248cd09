"""The papers' workloads as corpora of any size, made in Spark: a row depends on its number and the seed alone.

TRUSTED side. ``sigcomm`` is the evaluation of the forwarding paper, ``tr`` the specific model of the routing-schemes
report, ``icse`` boolean subscriptions over a small fixed schema as in the BDD paper. Messages are written as JSON
lines, predicates as Parquet, beside a profile that suits them.
"""

from __future__ import annotations

import json
import random
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from secroute.audit.theory import INT_OPS, STRING_OPS, conjunction, terms, zipf_edges
from secroute.content import And, Constraint, Node, Not, Op, Or, Value, render
from secroute.errors import AuditError

PREDICATES = "id string, interface string, predicate string"
PARTITION_ROWS = 20_000
_SIGCOMM_STRING = ((Op.EQ, 35), (Op.PREFIX, 15), (Op.SUFFIX, 15), (Op.SUBSTRING, 15), (Op.LT, 10), (Op.GT, 10))
_SIGCOMM_INT = ((Op.EQ, 60), (Op.LT, 20), (Op.GT, 20))
_ICSE_ATOMS = 208


@dataclass(frozen=True)
class Workload:
    """How one message and one predicate are drawn, and the profile they are encoded with."""

    message: Callable[[random.Random], dict[str, Value]]
    predicate: Callable[[random.Random], Node]
    profile: str


def _distinct(draw: random.Random, edges: list[float], count: int) -> list[int]:
    """So many different names by their probability."""
    found: dict[int, None] = {}
    while len(found) < count:
        found[bisect(edges, draw.random() * edges[-1])] = None
    return list(found)


def _op(draw: random.Random, table: Any) -> Op:
    chosen: Op = draw.choices([op for op, _ in table], [weight for _, weight in table])[0]
    return chosen


def _all(parts: list[Constraint]) -> Node:
    return parts[0] if len(parts) == 1 else And(tuple(parts))


# --- sigcomm: 1000 names (Zipf), messages of 1..18 attributes, filters of 1..9 constraints ---


@lru_cache(maxsize=1)
def _sigcomm() -> tuple[list[float], tuple[str, ...]]:
    return zipf_edges(1_000), terms(1_000)


def _sigcomm_message(draw: random.Random) -> dict[str, Value]:
    edges, words = _sigcomm()
    names = _distinct(draw, edges, draw.randint(1, 18))
    return {f"n{n}": draw.choice(words) if draw.random() < 0.5 else draw.randrange(100) for n in names}


def _sigcomm_predicate(draw: random.Random) -> Node:
    edges, words = _sigcomm()
    parts = []
    for name in _distinct(draw, edges, draw.randint(1, 9)):
        if draw.random() < 0.5:
            parts.append(Constraint(f"n{name}", _op(draw, _SIGCOMM_STRING), draw.choice(words)))
        else:
            parts.append(Constraint(f"n{name}", _op(draw, _SIGCOMM_INT), draw.randrange(100)))
    return _all(parts)


# --- tr: the report's conjunctions over 500 Zipf names; messages say ten of those names ---


@lru_cache(maxsize=1)
def _tr() -> tuple[list[float], tuple[str, ...]]:
    return zipf_edges(500), terms()


def _tr_message(draw: random.Random) -> dict[str, Value]:
    edges, words = _tr()
    return {f"n{n}": draw.randint(-100, 100) if n % 2 else draw.choice(words) for n in _distinct(draw, edges, 10)}


def _tr_predicate(draw: random.Random) -> Node:
    edges, words = _tr()
    return _all(list(dict.fromkeys(conjunction(draw, 500, edges, words))))


# --- icse: ten attributes, 208 atoms, subscriptions of 7.6 atoms with AND, OR and NOT ---


@lru_cache(maxsize=1)
def _icse() -> list[Constraint]:
    draw, words = random.Random(2001), terms()
    atoms: dict[Constraint, None] = {}
    while len(atoms) < _ICSE_ATOMS:
        name = draw.randrange(10)
        if name % 2:
            atoms[Constraint(f"a{name}", _op(draw, INT_OPS), draw.randrange(1_000))] = None
        else:
            atoms[Constraint(f"a{name}", _op(draw, STRING_OPS), draw.choice(words))] = None
    return list(atoms)


def _icse_message(draw: random.Random) -> dict[str, Value]:
    words = terms()
    return {f"a{n}": draw.randrange(1_000) if n % 2 else draw.choice(words) for n in range(10)}


def _icse_predicate(draw: random.Random) -> Node:
    left, groups = draw.choice((6, 7, 8, 9)), []
    while left:
        size = min(left, draw.choice((2, 3, 4)))
        left -= size
        atoms: list[Node] = list(draw.sample(_icse(), size))
        if draw.random() < 0.2:
            atoms[0] = Not(atoms[0])
        groups.append(atoms[0] if size == 1 else And(tuple(atoms)))
    return groups[0] if len(groups) == 1 else Or(tuple(groups))


WORKLOADS = {
    "sigcomm": Workload(_sigcomm_message, _sigcomm_predicate, "bits = 512\nhashes = 4\n"),
    "tr": Workload(_tr_message, _tr_predicate, "bits = 512\nhashes = 4\n"),
    "icse": Workload(_icse_message, _icse_predicate, "bits = 512\nhashes = 4\n"),
}


def _draw(name: str, kind: str, seed: int, row: int) -> random.Random:
    return random.Random(f"{name}/{kind}/{seed}/{row}")


def messages_job(name: str, seed: int) -> Any:
    """A ``mapInArrow`` function over row numbers: one JSON line each."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = WORKLOADS[name].message
        for batch in batches:
            lines = [
                json.dumps({"id": f"m{row}", "attributes": made(_draw(name, "message", seed, row))})
                for row in batch.column(0).to_pylist()
            ]
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["value"])

    return run


def predicates_job(name: str, seed: int, interfaces: int) -> Any:
    """A ``mapInArrow`` function over row numbers: one predicate each."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = WORKLOADS[name].predicate
        for batch in batches:
            rows = batch.column(0).to_pylist()
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([f"s{row}" for row in rows], pa.string()),
                    pa.array([f"I{row % interfaces}" for row in rows], pa.string()),
                    pa.array([render(made(_draw(name, "predicate", seed, row))) for row in rows], pa.string()),
                ],
                ["id", "interface", "predicate"],
            )

    return run


def generate(
    spark: Any, name: str, out: Path, messages: int, predicates: int, interfaces: int = 200, seed: int = 1
) -> dict[str, Any]:
    """Write a workload into a new folder; returns where it is."""
    if name not in WORKLOADS:
        raise AuditError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}")
    if out.exists():
        raise AuditError(f"{out}: exists already; choose another folder")
    parts = [max(2, -(-count // PARTITION_ROWS)) for count in (messages, predicates)]
    rows = spark.range(0, messages, 1, parts[0])
    rows.mapInArrow(messages_job(name, seed), "value string").write.text(str(out / "messages"))
    rows = spark.range(0, predicates, 1, parts[1])
    rows.mapInArrow(predicates_job(name, seed, interfaces), PREDICATES).write.parquet(str(out / "predicates"))
    (out / "profile.toml").write_text(WORKLOADS[name].profile, encoding="utf-8")
    return {
        "workload": name,
        "messages": str(out / "messages"),
        "predicates": str(out / "predicates"),
        "profile": str(out / "profile.toml"),
        "message_records": messages,
        "predicate_records": predicates,
        "seed": seed,
    }
