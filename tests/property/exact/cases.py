"""Random predicates and partial messages: all operators, unicode and empty strings, numbers around 2**53."""

from __future__ import annotations

import random

from secroute.content.model import Value
from secroute.content.predicate import And, Constraint, Node, Not, Op, Or, like

# Each name is mostly of one kind, so that types usually agree, but never always.
MOSTLY = {"a": "number", "b": "string", "c": "bool", "d.e": "number", "été": "string"}
NAMES = tuple(MOSTLY)
STRINGS = (
    "",
    "a",
    "ab",
    "abc",
    "bab",
    "b",
    "aab",
    "é",
    "e\u0301",
    "éa",
    "日本",
    "本",
    "日本a",
    "\U0001f600",
    "z",
    "a%b",
    "\uffff",
)
NUMBERS: tuple[int | float, ...] = (
    2**53 - 1,
    2**53,
    2**53 + 1,
    float(2**53),
    2**53 + 2,
    -(2**53) - 1,
    float(-(2**53)),
    0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1e-300,
    -1e-300,
    2**63 - 1,
    -(2**63),
    2.0**63,
    -(2.0**63),
    1e300,
    -1e300,
    3,
    3.0,
    3.25,
)
_TEXT = (Op.PREFIX, Op.SUFFIX, Op.SUBSTRING, Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_SUBSTRING)
_ORDER = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)


def _kind(rng: random.Random, name: str) -> str:
    return MOSTLY.get(name, "string") if rng.random() < 0.85 else rng.choice(("number", "string", "bool"))


def constraint(rng: random.Random) -> Constraint:
    """One random constraint."""
    name = rng.choice(NAMES)
    if rng.random() < 0.1:
        return Constraint(name, rng.choice((Op.EXISTS, Op.ABSENT)))
    kind, form = _kind(rng, name), rng.random()
    if kind == "bool":
        return Constraint(name, rng.choice((Op.EQ, Op.NE)), rng.random() < 0.5)
    if kind == "number":
        return Constraint(name, rng.choice(_ORDER), rng.choice(NUMBERS))
    if form < 0.4:
        return Constraint(name, rng.choice(_ORDER), rng.choice(STRINGS))
    if form < 0.8:
        op, value = rng.choice(_TEXT), rng.choice(STRINGS)
        return Constraint(name, op if value or op in (Op.PREFIX, Op.NOT_PREFIX) else Op.PREFIX, value)
    made = like(name, tuple(rng.choice(STRINGS) for _ in range(rng.randint(2, 4))))
    return made.negated() if rng.random() < 0.3 else made


def tree(rng: random.Random, depth: int = 2) -> Node:
    """A random tree; small ones are as likely as large ones, so that many match."""
    if depth == 0 or rng.random() < 0.3:
        return constraint(rng)
    kind = rng.random()
    if kind < 0.2:
        return Not(tree(rng, depth - 1))
    children = tuple(tree(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    return And(children) if kind < 0.4 else Or(children)


def value(rng: random.Random, name: str) -> Value:
    """One random value."""
    kind = _kind(rng, name)
    return rng.random() < 0.5 if kind == "bool" else rng.choice(NUMBERS if kind == "number" else STRINGS)


def message(rng: random.Random) -> dict[str, Value]:
    """A partial message, sometimes with a name no predicate knows."""
    names = [name for name in (*NAMES, "other") if rng.random() < 0.75]
    rng.shuffle(names)
    return {name: value(rng, name) for name in names}
