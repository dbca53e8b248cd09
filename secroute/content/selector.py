"""The selector language: text to predicate, with errors that point at line and column.

TRUSTED, pure. The grammar is in ``selector.lark``; this module gives it meaning and turns the parser's complaints
into sentences. Anything wrong with a text raises SelectorError and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, VisitError

from secroute import limits
from secroute.content.model import Value, check_value, integral
from secroute.content.predicate import And, Constraint, Node, Not, Op, Or, check_size
from secroute.content.predicate import like as like_constraint
from secroute.errors import InputError, SelectorError

_COMPARE = {"=": Op.EQ, "!=": Op.NE, "<>": Op.NE, "<": Op.LT, "<=": Op.LE, ">": Op.GT, ">=": Op.GE}
_FLIPPED = {Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


def _unquote(token: Token) -> str:
    quote = token[0]
    return str(token[1:-1]).replace(quote * 2, quote)


def _number(token: Token) -> Value:
    text = str(token)
    exact = integral(text)
    if exact is not None:
        return exact
    if text.lstrip("+-").isdigit():
        raise InputError("an integer must fit in 64 bits")
    return check_value(float(text))


def _located(method: Callable[..., Node]) -> Callable[..., Node]:
    """Turn what the model refuses into a selector error at the condition's attribute name."""

    @functools.wraps(method)
    def wrapper(self: object, items: list[Any]) -> Node:
        try:
            return method(self, *items)
        except SelectorError:
            raise
        except InputError as error:
            where = next((item for item in items if isinstance(item, _Name)), None)
            raise SelectorError(str(error), *(where.at if where else (1, 1))) from None

    return wrapper


class _Name(str):
    """An attribute name that remembers where it stood."""

    at: tuple[int, int]


class _Build(Transformer[Token, Node]):
    """Builds the predicate while the parser runs, so deep texts need no recursion."""

    def start(self, items: list[Node]) -> Node:
        return items[0]

    def or_(self, items: list[Node]) -> Node:
        return Or(tuple(items))

    def and_(self, items: list[Node]) -> Node:
        return And(tuple(items))

    def not_(self, items: list[Node]) -> Node:
        return Not(items[0])

    def name(self, items: list[Token]) -> str:
        token = items[0]
        name = _Name(_unquote(token) if token.type == "QUOTED_NAME" else str(token))
        name.at = (token.line or 1, token.column or 1)
        return name

    def value(self, items: list[Token]) -> Value:
        token = items[0]
        try:
            if token.type == "NUMBER":
                return _number(token)
            return check_value(_unquote(token)) if token.type == "STRING" else token.type == "TRUE"
        except (InputError, ValueError) as error:
            raise SelectorError(str(error), token.line or 1, token.column or 1) from None

    @_located
    def is_true(self, name: str) -> Node:
        return Constraint(str(name), Op.EQ, True)

    @_located
    def compare(self, name: str, op: Token, value: Value) -> Node:
        return Constraint(str(name), _COMPARE[op], value)

    @_located
    def compare_flipped(self, value: Value, op: Token, name: str) -> Node:
        meant = _COMPARE[op]
        return Constraint(str(name), _FLIPPED.get(meant, meant), value)

    @_located
    def absent(self, name: str) -> Node:
        return Constraint(str(name), Op.ABSENT)

    @_located
    def exists(self, name: str) -> Node:
        return Constraint(str(name), Op.EXISTS)

    @_located
    def in_(self, name: str, *values: Value) -> Node:
        choices: tuple[Node, ...] = tuple(Constraint(str(name), Op.EQ, value) for value in values)
        return choices[0] if len(choices) == 1 else Or(choices)

    @_located
    def not_in(self, name: str, *values: Value) -> Node:
        return Not(self.in_([name, *values]))

    @_located
    def between(self, name: str, low: Value, high: Value) -> Node:
        return And((Constraint(str(name), Op.GE, low), Constraint(str(name), Op.LE, high)))

    @_located
    def not_between(self, name: str, low: Value, high: Value) -> Node:
        return Not(self.between([name, low, high]))

    @_located
    def like(self, name: str, pattern: Token, escape: Token | None = None) -> Node:
        return like_constraint(str(name), _pattern_parts(pattern, escape))

    @_located
    def not_like(self, name: str, pattern: Token, escape: Token | None = None) -> Node:
        return like_constraint(str(name), _pattern_parts(pattern, escape)).negated()


def _pattern_parts(pattern: Token, escape: Token | None) -> tuple[str, ...]:
    """The fixed parts between the ``%`` of a LIKE pattern."""

    def fail(message: str, token: Token) -> SelectorError:
        return SelectorError(message, token.line or 1, token.column or 1)

    mark = None
    if escape is not None:
        mark = _unquote(escape)
        if len(mark) != 1:
            raise fail("ESCAPE takes a single character", escape)
    parts, current, text = [], "", iter(_unquote(pattern))
    for char in text:
        if char == mark:
            escaped = next(text, None)
            if escaped is None or escaped not in (mark, "%", "_"):
                raise fail(f"after the escape character {mark!r} expected '%', '_' or itself", pattern)
            current += escaped
        elif char == "%":
            parts.append(current)
            current = ""
        elif char == "_":
            raise fail("'_' (any one character) is not supported in LIKE; escape it to mean itself", pattern)
        else:
            current += char
    return (*parts, current)


_GRAMMAR = Path(__file__).with_name("selector.lark").read_text(encoding="utf-8")
_PARSER = Lark(_GRAMMAR, parser="lalr", transformer=_Build(), propagate_positions=False, maybe_placeholders=False)

_KINDS = [
    ("a value", {"STRING", "NUMBER", "TRUE", "FALSE"}),
    ("an attribute name", {"NAME", "QUOTED_NAME"}),
    ("a comparison", {"COMPARE"}),
    ("'('", {"LPAR"}),
    ("')'", {"RPAR"}),
    ("','", {"COMMA"}),
]
_WORDS = ("AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL")


def _expected(terminals: set[str]) -> str:
    kinds = [text for text, members in _KINDS if members & terminals]
    if {"a value", "an attribute name"} <= set(kinds):
        kinds = ["a condition"]
    kinds += [word for word in _WORDS if f"_{word}" in terminals]
    if "$END" in terminals:
        kinds.append("the end")
    return kinds[0] if len(kinds) == 1 else ", ".join(kinds[:-1]) + f" or {kinds[-1]}"


def _complaint(text: str, error: UnexpectedInput) -> SelectorError:
    history = [token for token in getattr(error, "token_history", None) or [] if token is not None]
    after = f" after {str(history[-1])!r}" if history else " at the start"
    if isinstance(error, UnexpectedCharacters):
        char = text[error.pos_in_stream or 0]
        if char in "'\"":
            return SelectorError(f"the quoted text that starts here is not closed by {char}", error.line, error.column)
        allowed = _expected(set(error.allowed or ()))
        if char == "-" and history and history[-1].type == "NAME":
            allowed += f' (a name with "-" is quoted: "{history[-1]}-...")'
        return SelectorError(f"unexpected {char!r}; expected {allowed}{after}", error.line, error.column)
    accepts = set(getattr(error, "accepts", None) or getattr(error, "expected", None) or ())
    line, column = getattr(error, "line", 0), getattr(error, "column", 0)
    token = getattr(error, "token", None)
    if isinstance(error, UnexpectedEOF) or token is None or token.type == "$END" or line is None or line < 1:
        lines = text.rstrip().split("\n")
        last_word = lines[-1].split()[-1][-24:]
        return SelectorError(f"expected {_expected(accepts)} after {last_word!r}", len(lines), len(lines[-1]) + 1)
    hint = "; write IS NULL to ask for absence" if token.type == "_NULL" else ""
    # Without a history the parser has said only where it stopped.
    after = after if history else ""
    return SelectorError(f"unexpected {str(token)!r}; expected {_expected(accepts)}{after}{hint}", line, column)


def parse(text: str) -> Node:
    """Parse one selector; every fault raises SelectorError."""
    if not isinstance(text, str):
        raise SelectorError(f"a selector is text, not {type(text).__name__}")
    if len(text) > limits.SELECTOR_CHARS_MAX:
        raise SelectorError(f"{len(text)} characters, at most {limits.SELECTOR_CHARS_MAX}")
    if not text.strip():
        raise SelectorError("expected a condition, the text is empty")
    try:
        node: Node = _PARSER.parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise _complaint(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, SelectorError):
            raise error.orig_exc from None
        raise
    try:
        return check_size(node)
    except InputError as error:
        raise SelectorError(str(error)) from None
