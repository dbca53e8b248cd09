"""Reduction keeps the meaning, and covering never claims too much."""

from __future__ import annotations

import random

from secroute.content.dnf import disjuncts
from secroute.content.oracle import holds, matches
from secroute.exact.implication import excludes, implies
from secroute.exact.reduction import covers, reduce, reduce_conjunctions
from tests.cases import cases
from tests.property.exact.cases import NUMBERS, STRINGS, constraint, message, tree

VALUES = [True, False, *NUMBERS, *STRINGS, "ba", "abb", "aba", "éé", "a\x00", "ab\U0010ffff"]


def test_implication_is_sound_and_decides_most_pairs() -> None:
    rng = random.Random(1)
    missed = implied = 0
    for _ in range(cases(20_000, 200_000)):
        given, wanted = constraint(rng), constraint(rng)
        object.__setattr__(wanted, "name", given.name)
        messages = [{}, *({given.name: value} for value in VALUES)]
        truth = [(holds(given, m) is True, holds(wanted, m) is True) for m in messages]
        looks_implied = all(b for a, b in truth if a)
        if implies(given, wanted):
            assert looks_implied, (given, wanted)
            implied += 1
        elif looks_implied and sum(a for a, _ in truth) >= 3:
            missed += 1
        if excludes(given, wanted):
            assert not any(a and b for a, b in truth), (given, wanted)
    assert implied > missed  # the sample of values makes some pairs look implied that are not


def test_reduction_keeps_the_meaning() -> None:
    rng = random.Random(2)
    for _ in range(cases(500, 10_000)):
        predicate = tree(rng)
        smaller = reduce(predicate)
        before, after = disjuncts(predicate), disjuncts(smaller)
        assert sum(map(len, after)) <= sum(map(len, before))
        for _ in range(6):
            attributes = message(rng)
            assert matches(predicate, attributes) == matches(smaller, attributes)


def test_covering_is_sound() -> None:
    rng = random.Random(3)
    covered = 0
    for _ in range(cases(3_000, 30_000)):
        wide, narrow = tree(rng, 1), tree(rng, 1)
        if covers(wide, narrow):
            covered += 1
            for _ in range(10):
                attributes = message(rng)
                assert matches(wide, attributes) or not matches(narrow, attributes)
    assert covered > 10


def test_name_index_finds_what_trying_all_finds() -> None:
    rng = random.Random(4)
    for _ in range(cases(30, 500)):
        conjunctions = [tuple({constraint(rng): None for _ in range(rng.randint(1, 3))}) for _ in range(30)]
        left = reduce_conjunctions(conjunctions)
        assert reduce_conjunctions(left) == left
        for _ in range(20):
            attributes = message(rng)
            before = any(all(holds(c, attributes) is True for c in conjunction) for conjunction in conjunctions)
            assert before == any(all(holds(c, attributes) is True for c in conjunction) for conjunction in left)
