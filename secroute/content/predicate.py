"""Predicates as trees: constraints on one attribute each, combined by AND, OR and NOT.

TRUSTED, pure. Sugar (IN, BETWEEN, most LIKE patterns) is expanded when a tree is made, so every later stage sees the
fourteen operators of ``Op`` and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from secroute import limits
from secroute.content.model import Value, check_name, check_value
from secroute.errors import InputError, LimitError


class Op(Enum):
    """What a constraint asks of its attribute."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    PREFIX = "prefix"
    SUFFIX = "suffix"
    SUBSTRING = "substring"
    LIKE = "like"  # any other pattern of fixed parts with gaps between them
    NOT_PREFIX = "not prefix"
    NOT_SUFFIX = "not suffix"
    NOT_SUBSTRING = "not substring"
    NOT_LIKE = "not like"
    EXISTS = "exists"
    ABSENT = "absent"

    @property
    def negated(self) -> Op:
        """The operator that is true exactly where this one is false (and unknown where this one is unknown)."""
        return _NEGATED[self]


_PAIRS = [
    (Op.EQ, Op.NE),
    (Op.LT, Op.GE),
    (Op.GT, Op.LE),
    (Op.PREFIX, Op.NOT_PREFIX),
    (Op.SUFFIX, Op.NOT_SUFFIX),
    (Op.SUBSTRING, Op.NOT_SUBSTRING),
    (Op.LIKE, Op.NOT_LIKE),
    (Op.EXISTS, Op.ABSENT),
]
_NEGATED = dict(_PAIRS) | {b: a for a, b in _PAIRS}

ORDER_OPS = frozenset({Op.LT, Op.LE, Op.GT, Op.GE})
TEXT_OPS = frozenset({Op.PREFIX, Op.SUFFIX, Op.SUBSTRING, Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_SUBSTRING})
PATTERN_OPS = frozenset({Op.LIKE, Op.NOT_LIKE})
PRESENCE_OPS = frozenset({Op.EXISTS, Op.ABSENT})


@dataclass(frozen=True, slots=True)
class Pattern:
    """Fixed parts in order with a gap (``%``) between each two: the first is a prefix, the last a suffix."""

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise InputError("a pattern has at least one gap")
        if len(self.parts) > limits.LIKE_PARTS_MAX:
            raise LimitError(f"a pattern of {len(self.parts)} parts, at most {limits.LIKE_PARTS_MAX}")
        if not all(self.parts[1:-1]):
            raise InputError("inner parts of a pattern are not empty")
        check_value("".join(self.parts))

    def accepts(self, text: str) -> bool:
        """Whether the parts occur in ``text`` in order, without overlap, the outer two at its ends."""
        first, last = self.parts[0], self.parts[-1]
        at, end = len(first), len(text) - len(last)
        if end < at or not text.startswith(first) or not text.endswith(last):
            return False
        for part in self.parts[1:-1]:
            # The leftmost place leaves the most room for the parts that follow.
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """One attribute, one operator, one value (none for exists and absent)."""

    name: str
    op: Op
    value: Value | Pattern | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        op, value = self.op, self.value
        if op in PRESENCE_OPS:
            if value is not None:
                raise InputError(f"{op.value} takes no value")
        elif op in PATTERN_OPS:
            if not isinstance(value, Pattern) or value.parts in (("", ""),) or _simple(value) is not None:
                raise InputError("a LIKE constraint takes a pattern that no simpler operator expresses; use like()")
        else:
            if value is None or isinstance(value, Pattern):
                raise InputError(f"{op.value} needs a value")
            value = check_value(value)
            object.__setattr__(self, "value", value)
            if op in TEXT_OPS:
                if not isinstance(value, str):
                    raise InputError(f"{op.value} needs a string")
                if not value and op not in (Op.PREFIX, Op.NOT_PREFIX):
                    raise InputError(f"an empty {op.value} is written as an empty prefix")
            if op in ORDER_OPS and isinstance(value, bool):
                raise InputError("a boolean has no order; only = and != compare it")

    def _key(self) -> tuple[object, ...]:
        # True == 1 in Python but not here: the type takes part in equality.
        return (self.name, self.op, type(self.value), self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constraint) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def negated(self) -> Constraint:
        """The constraint that is true exactly where this one is false."""
        return Constraint(self.name, self.op.negated, self.value)


@dataclass(frozen=True, slots=True)
class Not:
    """True where its child is false; unknown where it is unknown."""

    child: Node


@dataclass(frozen=True, slots=True)
class And:
    """True where every child is true; false where any is false."""

    children: tuple[Node, ...]

    def __post_init__(self) -> None:
        if len(self.children) < 2:
            raise InputError("AND joins at least two conditions")


@dataclass(frozen=True, slots=True)
class Or:
    """True where any child is true; false where every child is false."""

    children: tuple[Node, ...]

    def __post_init__(self) -> None:
        if len(self.children) < 2:
            raise InputError("OR joins at least two conditions")


Node: TypeAlias = Constraint | Not | And | Or


def _simple(pattern: Pattern) -> tuple[Op, str] | None:
    """The simpler operator that says the same as ``pattern``, if there is one."""
    parts = pattern.parts
    if len(parts) == 2 and not parts[1]:
        return Op.PREFIX, parts[0]
    if len(parts) == 2 and not parts[0]:
        return Op.SUFFIX, parts[1]
    if len(parts) == 3 and not parts[0] and not parts[2]:
        return Op.SUBSTRING, parts[1]
    return None


def like(name: str, parts: tuple[str, ...]) -> Constraint:
    """The constraint for ``name LIKE`` these fixed parts with a ``%`` between each two."""
    if len(parts) == 1:
        return Constraint(name, Op.EQ, parts[0])
    inner = tuple(part for part in parts[1:-1] if part)
    pattern = Pattern((parts[0], *inner, parts[-1]))
    simple = _simple(pattern)
    return Constraint(name, *simple) if simple else Constraint(name, Op.LIKE, pattern)


def constraints(node: Node) -> Iterator[Constraint]:
    """Every constraint of a tree, left to right."""
    stack: list[Node] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, Constraint):
            yield top
        elif isinstance(top, Not):
            stack.append(top.child)
        else:
            stack.extend(reversed(top.children))


def check_size(node: Node) -> Node:
    """Return ``node`` if its depth and number of nodes are within limits (checked without recursion)."""
    stack: list[tuple[Node, int]] = [(node, 1)]
    count = 0
    while stack:
        top, depth = stack.pop()
        count += 1
        if depth > limits.SELECTOR_DEPTH_MAX:
            raise LimitError(f"a predicate nested deeper than {limits.SELECTOR_DEPTH_MAX}")
        if count > limits.PREDICATE_NODES_MAX:
            raise LimitError(f"a predicate of more than {limits.PREDICATE_NODES_MAX} conditions")
        if isinstance(top, Not):
            stack.append((top.child, depth + 1))
        elif isinstance(top, And | Or):
            stack.extend((child, depth + 1) for child in top.children)
    return node
