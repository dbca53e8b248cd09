"""Predicates back to selector text; ``parse(render(p)) == p`` for every predicate."""

from __future__ import annotations

import re

from secroute.content.model import Value
from secroute.content.predicate import And, Constraint, Node, Not, Op, Or, Pattern, check_size

PLAIN_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(\.[A-Za-z_$][A-Za-z0-9_$]*)*")
KEYWORDS = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"})
_WILD = re.compile(r"[%_\\]")


def render_name(name: str) -> str:
    """A name, quoted where the language needs it."""
    if PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def render_value(value: Value) -> str:
    """A literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _like(parts: tuple[str, ...]) -> str:
    if any(_WILD.search(part) for part in parts):
        return render_value("%".join(_WILD.sub(r"\\\g<0>", part) for part in parts)) + " ESCAPE '\\'"
    return render_value("%".join(parts))


def _constraint(constraint: Constraint) -> str:
    name, op, value = render_name(constraint.name), constraint.op, constraint.value
    if op is Op.EXISTS:
        return f"{name} IS NOT NULL"
    if op is Op.ABSENT:
        return f"{name} IS NULL"
    if isinstance(value, Pattern):
        return f"{name} {'NOT ' if op is Op.NOT_LIKE else ''}LIKE {_like(value.parts)}"
    if isinstance(value, str):
        shapes = {Op.PREFIX: (value, ""), Op.SUFFIX: ("", value), Op.SUBSTRING: ("", value, "")}
        if op in shapes:
            return f"{name} LIKE {_like(shapes[op])}"
        if op.negated in shapes:
            return f"{name} NOT LIKE {_like(shapes[op.negated])}"
    assert value is not None  # noqa: S101 - the model allows None for exists and absent alone
    return f"{name} {op.value} {render_value(value)}"


def _sugar(node: And | Or) -> str | None:
    """``IN`` and ``BETWEEN``, where the tree is what they expand to."""
    first, name = node.children[0], getattr(node.children[0], "name", None)
    alike = [c for c in node.children if isinstance(c, Constraint) and c.name == name]
    if not isinstance(first, Constraint) or len(alike) != len(node.children):
        return None
    if isinstance(node, Or) and all(c.op is Op.EQ for c in alike):
        return f"{render_name(first.name)} IN ({', '.join(map(_literal, alike))})"
    if isinstance(node, And) and [c.op for c in alike] == [Op.GE, Op.LE]:
        return f"{render_name(first.name)} BETWEEN {_literal(alike[0])} AND {_literal(alike[1])}"
    return None


def _literal(constraint: Constraint) -> str:
    assert constraint.value is not None and not isinstance(constraint.value, Pattern)  # noqa: S101, PT018 - = >= <=
    return render_value(constraint.value)


def render(node: Node) -> str:
    """The selector text of a predicate."""
    return _render(check_size(node))


def _render(node: Node) -> str:
    if isinstance(node, Constraint):
        return _constraint(node)
    if isinstance(node, Not):
        return f"NOT ({_render(node.child)})"
    sugar = _sugar(node)
    if sugar is not None:
        return sugar
    word = " AND " if isinstance(node, And) else " OR "
    return word.join(_operand(node, child) for child in node.children)


def _operand(parent: And | Or, child: Node) -> str:
    # AND binds tighter than OR; a nested node of the parent's own kind keeps its parentheses so that trees survive.
    if isinstance(child, And | Or) and _sugar(child) is not None:
        return _render(child)
    if isinstance(child, Or) or (isinstance(parent, And) and isinstance(child, And)):
        return f"({_render(child)})"
    return _render(child)
