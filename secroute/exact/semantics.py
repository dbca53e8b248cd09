"""What a subscription means when a message misses attributes: three classical answers, and the project's own.

TRUSTED, pure. ``simple`` (SiSL) takes total messages only; ``strict`` (StSL) matches only messages that define every
attribute the subscription *mentions*; ``default`` (DeSL) fills in declared defaults; ``open`` is the project's
three-valued logic. The functions here are the definitions; the BDD table is tested against them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from secroute.content.model import Value, check_name, check_value
from secroute.content.oracle import holds, kind, matches
from secroute.content.predicate import PRESENCE_OPS, And, Constraint, Node, Not, Pattern, constraints
from secroute.errors import InputError

Semantics: TypeAlias = Literal["simple", "strict", "default", "open"]
Kind: TypeAlias = Literal["string", "number", "bool"]

_KINDS: dict[type, Kind] = {str: "string", float: "number", bool: "bool"}


def kind_of(value: Value | Pattern) -> Kind:
    """The kind a value compares under."""
    return "string" if isinstance(value, Pattern) else _KINDS[kind(value)]


@dataclass(frozen=True)
class EventSchema:
    """The attributes of all events with their kinds and, for the default semantics, their default values."""

    kinds: Mapping[str, Kind]
    defaults: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, wanted in self.kinds.items():
            check_name(name)
            if wanted not in _KINDS.values():
                raise InputError(f"attribute {name!r}: a kind is string, number or bool, not {wanted!r}")
        for name, value in self.defaults.items():
            if name not in self.kinds:
                raise InputError(f"default for {name!r}, which the schema does not have")
            if kind_of(check_value(value)) != self.kinds[name]:
                raise InputError(f"default for {name!r} is a {kind_of(value)}, but the schema says {self.kinds[name]}")

    def check_predicate(self, node: Node) -> None:
        """Raise unless every constraint is on an attribute of the schema and of its kind."""
        for constraint in constraints(node):
            if constraint.name not in self.kinds:
                raise InputError(f"unknown attribute {constraint.name!r}; the schema has {', '.join(self.kinds)}")
            if constraint.op in PRESENCE_OPS:
                continue
            found = kind_of(constraint.value)  # type: ignore[arg-type]
            if found != self.kinds[constraint.name]:
                raise InputError(
                    f"attribute {constraint.name!r} is a {self.kinds[constraint.name]}, compared with a {found}"
                )

    def check_message(self, attributes: Mapping[str, Value]) -> None:
        """Raise unless every attribute is in the schema and of its kind."""
        for name, value in attributes.items():
            if name not in self.kinds:
                raise InputError(f"unknown attribute {name!r}; the schema has {', '.join(self.kinds)}")
            if kind_of(value) != self.kinds[name]:
                raise InputError(f"attribute {name!r} is a {self.kinds[name]}, the message has a {kind_of(value)}")


def is_true(node: Node, attributes: Mapping[str, Value]) -> bool:
    """Plain two-valued truth; every attribute of the tree is there."""
    if isinstance(node, Constraint):
        return holds(node, attributes) is True
    if isinstance(node, Not):
        return not is_true(node.child, attributes)
    quantify = all if isinstance(node, And) else any
    return quantify(is_true(child, attributes) for child in node.children)


def simple_matches(node: Node, attributes: Mapping[str, Value], schema: EventSchema) -> bool:
    """SiSL: messages are total."""
    missing = [name for name in schema.kinds if name not in attributes]
    if missing:
        raise InputError(f"the simple semantics takes total messages; {missing[0]!r} is missing")
    return is_true(node, attributes)


def strict_matches(node: Node, attributes: Mapping[str, Value]) -> bool:
    """StSL: the message defines every attribute that occurs in the text of the subscription, and satisfies it."""
    return all(constraint.name in attributes for constraint in constraints(node)) and is_true(node, attributes)


def default_matches(node: Node, attributes: Mapping[str, Value], schema: EventSchema) -> bool:
    """DeSL: missing attributes have their default values."""
    return is_true(node, {**schema.defaults, **attributes})


open_matches = matches
