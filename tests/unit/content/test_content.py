"""Values, names, messages and selectors: what is accepted, what it means, and how refusals read."""

from __future__ import annotations

import pytest

from secroute import limits
from secroute.content import Constraint, Message, Op, check_value, disjuncts, matches, parse, render
from secroute.errors import InputError, LimitError, SelectorError


def test_an_integral_float_is_the_integer() -> None:
    assert type(check_value(3.0)) is int
    assert repr(check_value(-0.0)) == "0"
    assert type(check_value(2.0**63)) is float  # outside int64
    assert check_value(True) is True


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 2**63, None, b"x", [1], "\ud800"])
def test_values_that_are_refused(bad: object) -> None:
    with pytest.raises(InputError):
        check_value(bad)


def test_numbers_compare_exactly() -> None:
    assert not matches(parse(f"a = {2**53 + 1}"), {"a": 2**53})
    assert matches(parse("a > 9007199254740992.0"), {"a": 2**53 + 1})
    assert not matches(parse("a = 1"), {"a": True})
    assert not matches(parse("a = TRUE"), {"a": 1})


def test_true_and_one_are_different_constraints() -> None:
    assert Constraint("a", Op.EQ, True) != Constraint("a", Op.EQ, 1)
    assert len({Constraint("a", Op.EQ, True), Constraint("a", Op.EQ, 1)}) == 2


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("class = 'alert' AND severity > 2", {"class": "alert", "severity": 3}, True),
        ("class = 'alert' AND severity > 2", {"class": "alert"}, False),
        ("device LIKE 'web-%' AND NOT region IN ('eu', 'us')", {"device": "web-1", "region": "asia"}, True),
        ("device LIKE 'web-%' AND NOT region IN ('eu', 'us')", {"device": "web-1"}, False),
        ("x LIKE 'a%b%c'", {"x": "a-b-c"}, True),
        ("x LIKE 'a%b%c'", {"x": "acb"}, False),
        ("x LIKE 'ab%ba'", {"x": "aba"}, False),  # the two ends may not overlap
        ("x LIKE '50\\%%' ESCAPE '\\'", {"x": "50% off"}, True),
        ("x IS NULL", {}, True),
        ("x IS NOT NULL", {"x": False}, True),
        ("x NOT BETWEEN 1 AND 3", {"x": 4}, True),
        ("x NOT BETWEEN 1 AND 3", {}, False),
        ("5 < x", {"x": 6}, True),
        ("active", {"active": True}, True),
        ("NOT active", {"active": False}, True),
        ("'b' < x", {"x": "é"}, True),
    ],
)
def test_meaning(text: str, message: dict[str, object], expected: bool) -> None:
    assert matches(parse(text), Message(message).attributes) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("price >", "1:8", "expected a value after '>'"),
        ("a = 1 AND\n  b >> 2", "2:6", "unexpected '>'"),
        ("x LIKE 'b_c'", "1:8", "'_'"),
        ("a = 'open", "1:5", "not closed"),
        ("a < TRUE", "1:1", "no order"),
        ("a = 1e400", "1:5", "finite"),
        ("", "1:1", "empty"),
        ("a = 1 b = 2", "1:7", "AND, OR or the end"),
    ],
)
def test_errors_point_at_line_and_column(text: str, where: str, words: str) -> None:
    with pytest.raises(SelectorError, match="selector") as caught:
        parse(text)
    assert f"selector:{where}:" in str(caught.value)
    assert words in str(caught.value)


def test_bounds_are_enforced() -> None:
    with pytest.raises(SelectorError, match="at most"):
        parse("a = 1" + " " * limits.SELECTOR_CHARS_MAX)
    with pytest.raises(SelectorError, match="nested deeper"):
        parse("NOT " * 100 + "a = 1")
    with pytest.raises(LimitError, match="alternatives"):
        disjuncts(parse(" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(13))))
    with pytest.raises(LimitError):
        Message({"n" * 300: 1})
    with pytest.raises(LimitError):
        Message({"n": "x" * 5000})
    with pytest.raises(LimitError):
        Message({f"n{i}": 1 for i in range(300)})


def test_names_that_need_quotes_get_them() -> None:
    assert render(parse('"device-type" = 1')) == '"device-type" = 1'
    assert render(parse('"and" = 1')) == '"and" = 1'
    assert render(parse("a.b.c = 1")) == "a.b.c = 1"
