"""The ICSE 2001 workload: queries of a probabilistic grammar over ten attributes and 208 atoms, and partial messages.

TRUSTED side (it makes plaintext). The paper's grammar is not published; this one has its attributes, constants,
operators, sugar (``between``, ``in``) and mean numbers of atoms (7.6) and of AND, OR and NOT (7.7). Our language has no
*superstring*; *prefix* stands in.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from secroute.content.model import Value
from secroute.content.predicate import And, Constraint, Node, Not, Op, Or
from secroute.exact.semantics import EventSchema, Kind

_INTS = tuple(f"i{n}" for n in range(3))
_DOUBLES = tuple(f"d{n}" for n in range(3))
_STRINGS = tuple(f"s{n}" for n in range(4))
NAMES = _INTS + _DOUBLES + _STRINGS
_KINDS: dict[str, Kind] = {name: "string" if name in _STRINGS else "number" for name in NAMES}
_DEFAULTS: dict[str, Value] = {name: "" if name in _STRINGS else -1 for name in NAMES}
SCHEMA = EventSchema(_KINDS, _DEFAULTS)
_NUMBERS = (10, 30, 50, 70)
_TEXTS = ("aa", "bb", "a", "b")
_NUMBER_OPS = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)
_TEXT_OPS = (Op.EQ, Op.NE, Op.SUBSTRING, Op.PREFIX)
_WORDS = (
    "a",
    "b",
    "aa",
    "bb",
    "ab",
    "ba",
    "aab",
    "abb",
    "bba",
    "baa",
    "abab",
    "c",
    "ca",
    "cb",
    "cc",
    "cab",
    "bac",
    "d",
    "",
    "dd",
)


@dataclass(frozen=True, slots=True)
class Icse:
    """Queries and messages; the weights were set once, to the means above and to nothing else."""

    seed: int = 2001

    def queries(self, count: int) -> list[Node]:
        """Boolean combinations of groups, each group about one attribute."""
        rng = random.Random(self.seed)
        return [_query(rng) for _ in range(count)]

    def messages(self, count: int, density: float, seed: int = 0) -> list[dict[str, Value]]:
        """Messages that define ``density`` of the attributes on average, and at least one."""
        rng = random.Random(f"{self.seed} {seed}")
        made = []
        for _ in range(count):
            wanted = density * len(NAMES)
            size = int(wanted) + (rng.random() < wanted - int(wanted))
            made.append({name: _value(rng, name) for name in rng.sample(NAMES, max(1, size))})
        return made


def _value(rng: random.Random, name: str) -> Value:
    if name in _STRINGS:
        return rng.choice(_WORDS)
    return rng.randint(0, 80) if name in _INTS else rng.uniform(0.0, 80.0)


def _join(rng: random.Random, parts: Sequence[Node], conjunction: float) -> Node:
    if len(parts) == 1:
        return parts[0]
    return And(tuple(parts)) if rng.random() < conjunction else Or(tuple(parts))


def _atom(rng: random.Random, name: str) -> Node:
    if name in _STRINGS:
        return Constraint(name, rng.choice(_TEXT_OPS), rng.choice(_TEXTS))
    return Constraint(name, rng.choice(_NUMBER_OPS), rng.choice(_NUMBERS))


def _group(rng: random.Random) -> Node:
    name, form = rng.choice(NAMES), rng.random()
    values: Sequence[Value] = _TEXTS if name in _STRINGS else _NUMBERS
    if form < 0.30:
        return _atom(rng, name)
    if form < 0.55:
        chosen = rng.sample(values, rng.randint(2, 3))
        return Or(tuple(Constraint(name, Op.EQ, value) for value in chosen))
    if form < 0.80 and name not in _STRINGS:
        low, high = sorted(rng.sample(_NUMBERS, 2))
        return And((Constraint(name, Op.GE, low), Constraint(name, Op.LE, high)))
    return _join(rng, [_atom(rng, name) for _ in range(2)], 0.5)


def _query(rng: random.Random) -> Node:
    groups = [_group(rng) for _ in range(rng.choice((2, 3, 4, 4, 5, 5, 6)))]
    parts = [Not(group) if rng.random() < 0.27 else group for group in groups]
    if len(parts) > 3 and rng.random() < 0.5:
        middle = len(parts) // 2
        parts = [_join(rng, parts[:middle], 0.7), _join(rng, parts[middle:], 0.7)]
    return _join(rng, parts, 0.7)
