"""Messages and their values.

TRUSTED, pure. A value is a str, an int of 64 bits, a finite float or a bool. An integral float within int64 *is* the
int, so that 3.0 and 3 are one value everywhere (``-0.0`` is 0); a bool is never a number. Strings are code points,
never normalised; Python orders them by code point, which is the order of their UTF-8 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from secroute import limits
from secroute.errors import InputError, LimitError

Value: TypeAlias = str | int | float | bool


def utf8(text: str, what: str) -> bytes:
    """The UTF-8 bytes of ``text``; a lone surrogate has none and is refused."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} is not valid Unicode text (it holds a lone surrogate)") from None


def check_name(name: object) -> str:
    """Return an attribute name if it is non-empty text within its limit."""
    if not isinstance(name, str):
        raise InputError(f"an attribute name is text, not {type(name).__name__}")
    if not name:
        raise InputError("an attribute name must not be empty")
    size = len(utf8(name, "an attribute name"))
    if size > limits.NAME_BYTES_MAX:
        raise LimitError(f"an attribute name of {size} bytes is longer than {limits.NAME_BYTES_MAX}")
    return str.__str__(name)


def integral(text: str) -> int | None:
    """The 64-bit integer that a decimal numeral names exactly (``9007199254740993.0``), or None."""
    try:
        exact = Decimal(text)
    except InvalidOperation:
        return None
    # The exponent first: 1e999999999 would be a very long integer.
    if not exact.is_finite() or exact.adjusted() > 18 or exact != exact.to_integral_value():
        return None
    return int(exact) if limits.INT_MIN <= int(exact) <= limits.INT_MAX else None


def check_value(value: object) -> Value:
    """Return a value in its one canonical form, of exactly one of the four types, or raise.

    Values of subclasses (members of an IntEnum, NumPy's float64) become plain: their text and equality are their own.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not limits.INT_MIN <= value <= limits.INT_MAX:
            raise InputError("an integer must fit in 64 bits")
        return int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"a number must be finite, not {value}")
        if value.is_integer() and limits.INT_MIN <= value <= limits.INT_MAX:
            return int(float.__float__(value))
        return float.__float__(value)
    if isinstance(value, str):
        # A character has at most four bytes: short strings need no counting.
        if len(value) * 4 > limits.VALUE_BYTES_MAX or not value.isascii():
            size = len(utf8(value, "a string value"))
            if size > limits.VALUE_BYTES_MAX:
                raise LimitError(f"a string value of {size} bytes is longer than {limits.VALUE_BYTES_MAX}")
        return str.__str__(value)
    raise InputError(f"a value is a string, a number or a boolean, not {type(value).__name__}")


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A set of attributes, validated and in canonical form."""

    attributes: Mapping[str, Value]
    id: str = field(default="", kw_only=True)
    """The name this message has in files; it never travels."""

    def __post_init__(self) -> None:
        if not isinstance(self.attributes, Mapping):
            raise InputError(f"attributes are a mapping of names to values, not {type(self.attributes).__name__}")
        if len(self.attributes) > limits.MESSAGE_ATTRIBUTES_MAX:
            raise LimitError(f"{len(self.attributes)} attributes in a message, at most {limits.MESSAGE_ATTRIBUTES_MAX}")
        clean: dict[str, Value] = {}
        for name, value in self.attributes.items():
            plain = check_name(name)
            try:
                clean[plain] = check_value(value)
            except InputError as error:
                raise type(error)(f"attribute {name!r}: {error}") from None
        object.__setattr__(self, "attributes", clean)

    def __eq__(self, other: object) -> bool:
        # True == 1 in Python but not here: the types take part in equality.
        if not isinstance(other, Message) or self.id != other.id or self.attributes != other.attributes:
            return False
        return all(type(value) is type(other.attributes[name]) for name, value in self.attributes.items())

    def __hash__(self) -> int:
        return hash((self.id, frozenset(self.attributes.items())))
