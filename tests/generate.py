"""Random messages and predicates for tests, built so that a good share of pairs match and every boundary is hit.

Seeded with ``random.Random``, never the clock. Values come from a small pool of awkward ones, and a predicate is
usually grown around a message, so that matching is common and near-misses are many.
"""

from __future__ import annotations

import random

from secroute.content import And, Constraint, Node, Not, Op, Or, Value, like
from secroute.errors import InputError

NAMES = ["price", "dest", "load", "note", "flag", "code", "dotted.name", "no index", "é"]
NUMBERS: list[Value] = [
    0, 1, -1, 2, 3, 99, 100, 101, 499, 500, 501, 1023, 1024, 0.5, -0.5, 99.5, 100.25, 1e-300, 1e300, -1e300,
    15, 16, 15.625, 31.25, -1.5, 1000, 2**53, 2**53 + 1, float(2**53) + 2, 2**63 - 1, -(2**63),
    9.007199254740993e15, 3.0,
]  # fmt: skip
TEXTS: list[Value] = [
    "", "a", "ab", "abc", "abcd", "abcabc", "ATL", "ATH", "AT", "JFK", "web-01", "web-02", "%", "_", "\\", "'", '"',
    "é", "éa", "日本語", "日本", "\U0001f600", "aé\U0001f600b", "\x00", "zzzz", "web-front-end-17",
]  # fmt: skip
_TEXT_OPS = [Op.PREFIX, Op.SUFFIX, Op.SUBSTRING]


def value(rng: random.Random) -> Value:
    """Any value."""
    kind = rng.random()
    if kind < 0.1:
        return rng.random() < 0.5
    if kind < 0.55:
        return rng.choice(NUMBERS) if rng.random() < 0.6 else rng.randint(-50, 1100)
    return rng.choice(TEXTS)


def message(rng: random.Random) -> dict[str, Value]:
    """Some attributes."""
    return {name: value(rng) for name in rng.sample(NAMES, rng.randint(0, len(NAMES)))}


def _text_constraint(rng: random.Random, name: str, text: str) -> Constraint:
    start, end = sorted(rng.randint(0, len(text)) for _ in range(2))
    shape = rng.random()
    if shape < 0.25:
        middle = text[start:end]
        parts = [text[:start], middle, text[end:]] if rng.random() < 0.5 else [text[:start], text[end:]]
        return like(name, tuple(parts))
    op = rng.choice(_TEXT_OPS)
    part = {Op.PREFIX: text[:end], Op.SUFFIX: text[start:], Op.SUBSTRING: text[start:end]}[op]
    return Constraint(name, op, part) if part else Constraint(name, Op.PREFIX, "")


def constraint(rng: random.Random, about: dict[str, Value]) -> Constraint:
    """One constraint, usually true of ``about`` or nearly so; any operator."""
    name = rng.choice(list(about)) if about and rng.random() < 0.85 else rng.choice(NAMES)
    near = about.get(name) if rng.random() < 0.8 else None
    wanted = value(rng) if near is None else near
    pick = rng.random()
    if pick < 0.08:
        return Constraint(name, Op.EXISTS)
    if pick < 0.12:
        return Constraint(name, Op.ABSENT)
    if isinstance(wanted, str) and pick < 0.6:
        made = _text_constraint(rng, name, wanted)
        return made.negated() if rng.random() < 0.15 else made
    op = rng.choice([Op.EQ, Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE])
    if not isinstance(wanted, str | bool) and rng.random() < 0.5:
        wanted = max(min(wanted + rng.choice([-100, -1, 0, 0.5, 1, 100]), 2**63 - 1), -(2**63))
    try:
        return Constraint(name, op, wanted)
    except InputError:  # a boolean has no order
        return Constraint(name, Op.EQ, wanted)


def predicate(rng: random.Random, about: dict[str, Value], depth: int = 3) -> Node:
    """A tree around a message."""
    if depth == 0 or rng.random() < 0.35:
        return constraint(rng, about)
    if rng.random() < 0.2:
        return Not(predicate(rng, about, depth - 1))
    children = tuple(predicate(rng, about, depth - 1) for _ in range(rng.randint(2, 3)))
    return And(children) if rng.random() < 0.5 else Or(children)
