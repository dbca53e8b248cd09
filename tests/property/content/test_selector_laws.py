"""Laws of the language: rendering loses nothing, normal form changes nothing, and bad text has one kind of error."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from secroute.content import disjuncts, evaluate, matches, parse, render
from secroute.content.oracle import holds
from secroute.errors import LimitError, SelectorError
from tests import generate
from tests.cases import cases

WORDS = [
    "a", '"b c"', "=", "<", ">=", "!=", "<>", "AND", "or", "Not", "IN", "(", ")", ",", "BETWEEN", "LIKE", "'x%'", "'_'",
    "ESCAPE", "'\\'", "IS", "NULL", "1", "-2.5e3", "1e999", "TRUE", "'", '"', "%", "99999999999999999999", "\n", "é",
]  # fmt: skip


def test_text_to_predicate_to_text_is_the_identity() -> None:
    rng = random.Random(4)
    for _ in range(cases(3_000, 100_000)):
        tree = generate.predicate(rng, generate.message(rng))
        text = render(tree)
        again = parse(text)
        assert again == tree, text
        assert render(again) == text


def test_normal_form_is_true_of_the_same_messages() -> None:
    rng = random.Random(5)
    matched = 0
    for _ in range(cases(5_000, 100_000)):
        about = generate.message(rng)
        tree = generate.predicate(rng, about)
        try:
            normal = disjuncts(tree)
        except LimitError:
            continue
        expected = matches(tree, about)
        found = any(all(holds(c, about) is True for c in conjunction) for conjunction in normal)
        assert found is expected, render(tree)
        matched += expected
    assert matched > cases(1_000, 20_000)


def test_negation_of_unknown_is_unknown() -> None:
    assert evaluate(parse("NOT (a = 1)"), {}) is None
    assert evaluate(parse("NOT (a = 1)"), {"a": "1"}) is None
    assert evaluate(parse("NOT (a = 1)"), {"a": 2}) is True


@settings(max_examples=cases(400, 20_000))
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)))
def test_a_fuzzed_selector_never_raises_anything_but_a_selector_error(text: str) -> None:
    try:
        tree = parse(text)
    except SelectorError:
        return
    assert parse(render(tree)) == tree
