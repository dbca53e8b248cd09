"""The BDD table agrees with the oracle under the open semantics, and with each definition under the others."""

from __future__ import annotations

import random

import pytest

from secroute.content.oracle import matches
from secroute.content.predicate import Constraint, Node, Not
from secroute.exact.bdd import BddTable
from secroute.exact.semantics import EventSchema, default_matches, kind_of, simple_matches, strict_matches
from tests.cases import cases
from tests.property.exact.cases import MOSTLY, NUMBERS, STRINGS, constraint, message, tree

SCHEMA = EventSchema(MOSTLY, {"a": 3, "b": "ab", "c": True, "d.e": 2**53 + 1, "été": ""})
PREDICATES, MESSAGES = 10, 8


def fitting(node: Node, rng: random.Random) -> Node:
    """The tree with every constraint replaced by one that fits the schema."""
    if isinstance(node, Constraint):
        while node.value is not None and kind_of(node.value) != MOSTLY[node.name]:
            node = constraint(rng)
        return node
    if isinstance(node, Not):
        return Not(fitting(node.child, rng))
    return type(node)(tuple(fitting(child, rng) for child in node.children))


def event(rng: random.Random, density: float) -> dict:
    pick = {"number": NUMBERS, "string": STRINGS, "bool": (True, False)}
    return {name: rng.choice(pick[kind]) for name, kind in MOSTLY.items() if rng.random() < density}


DEFINITIONS = {
    "simple": lambda p, m: simple_matches(p, m, SCHEMA),
    "strict": strict_matches,
    "default": lambda p, m: default_matches(p, m, SCHEMA),
}


@pytest.mark.parametrize("restrict", [True, False])
@pytest.mark.parametrize("semantics", ["open", "simple", "strict", "default"])
def test_agrees_with_its_definition(semantics: str, restrict: bool) -> None:
    rng = random.Random(8)
    tried = matched = 0
    for _ in range(cases(200, 10_000) // PREDICATES):
        predicates = [tree(rng, 3) for _ in range(PREDICATES)]
        if semantics == "open":
            messages = [message(rng) for _ in range(MESSAGES)]
            table = BddTable.build(predicates, restrict=restrict)
            expected = [[i for i, p in enumerate(predicates) if matches(p, m)] for m in messages]
        else:
            predicates = [fitting(p, rng) for p in predicates]
            density = {"simple": 1.0, "strict": 0.9, "default": 0.5}[semantics]
            messages = [event(rng, density) for _ in range(MESSAGES)]
            table = BddTable(semantics, SCHEMA, restrict=restrict)
            table.add(predicates[:5])
            table.match(messages[:1])
            table.add(predicates[5:])  # on line, after it was used
            define = DEFINITIONS[semantics]
            expected = [[i for i, p in enumerate(predicates) if define(p, m)] for m in messages]
        assert table.match(messages).to_lists() == expected
        tried += PREDICATES * MESSAGES
        matched += sum(map(len, expected))
    assert matched >= 0.3 * tried


def test_more_messages_than_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secroute.exact.bdd._CHUNK", 128)
    rng = random.Random(9)
    predicates = [fitting(tree(rng), rng) for _ in range(60)]
    table = BddTable.build(predicates, "strict", SCHEMA)
    for count in (0, 1, 63, 64, 65, 200):
        messages = [event(rng, 0.6) for _ in range(count)]
        expected = [[i for i, p in enumerate(predicates) if strict_matches(p, m)] for m in messages]
        assert table.match(messages).to_lists() == expected


def test_restriction_only_shrinks() -> None:
    rng = random.Random(10)
    predicates = [fitting(tree(rng, 3), rng) for _ in range(300)]
    assert (
        BddTable.build(predicates, "strict", SCHEMA).nodes
        <= BddTable.build(predicates, "strict", SCHEMA, restrict=False).nodes
    )
