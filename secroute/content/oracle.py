"""The oracle: what matching means, straight from the definition.

TRUSTED, pure. SQL three-valued logic over the tree as written: a comparison on a missing attribute or on a value of
another type is *unknown* (None), NOT unknown is unknown, and only *true* matches. Every engine is tested against it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from secroute.content.model import Value
from secroute.content.predicate import And, Constraint, Node, Not, Op, Pattern

_COMPARE: dict[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    # Python compares int with float exactly, and str by code point, which is the order of UTF-8.
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}
_TEXT: dict[Op, Callable[[str, str], bool]] = {
    Op.PREFIX: str.startswith,
    Op.SUFFIX: str.endswith,
    Op.SUBSTRING: lambda text, part: part in text,
    Op.NOT_PREFIX: lambda text, part: not text.startswith(part),
    Op.NOT_SUFFIX: lambda text, part: not text.endswith(part),
    Op.NOT_SUBSTRING: lambda text, part: part not in text,
}


def kind(value: object) -> type:
    """The type a value compares under: ints and floats are both numbers, a bool is not."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, int | float):
        return float
    return str if isinstance(value, str) else type(value)


def holds(constraint: Constraint, attributes: Mapping[str, Value]) -> bool | None:
    """Whether one constraint is true, false or unknown (None)."""
    op, wanted = constraint.op, constraint.value
    present = constraint.name in attributes
    if op is Op.EXISTS:
        return present
    if op is Op.ABSENT:
        return not present
    if not present:
        return None
    value = attributes[constraint.name]
    if isinstance(wanted, Pattern):
        if not isinstance(value, str):
            return None
        return wanted.accepts(value) is (op is Op.LIKE)
    if kind(value) is not kind(wanted):
        return None
    if op in _TEXT:
        assert isinstance(value, str) and isinstance(wanted, str)  # noqa: S101, PT018 - the kinds agree
        return _TEXT[op](value, wanted)
    return bool(_COMPARE[op](value, wanted))


def evaluate(node: Node, attributes: Mapping[str, Value]) -> bool | None:
    """True, False or None (unknown) for a whole tree."""
    if isinstance(node, Constraint):
        return holds(node, attributes)
    if isinstance(node, Not):
        inner = evaluate(node.child, attributes)
        return None if inner is None else not inner
    decisive = not isinstance(node, And)  # AND is decided by a false child, OR by a true one
    unknown = False
    for child in node.children:
        result = evaluate(child, attributes)
        if result is decisive:
            return decisive
        unknown = unknown or result is None
    return None if unknown else not decisive


def matches(node: Node, attributes: Mapping[str, Value]) -> bool:
    """Whether a predicate is *true* of a message's attributes."""
    return evaluate(node, attributes) is True
