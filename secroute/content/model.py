"""Messages and their values.

TRUSTED, pure. A value is a str, an int of 64 bits, a finite float or a bool. An integral float within int64 *is* the
int, so that 3.0 and 3 are one value everywhere (``-0.0`` is 0); a bool is never a number. Strings are code points,
never normalised; Python orders them by code point, which is the order of their UTF-8 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    return name


def check_value(value: object) -> Value:
    """Return a value in its one canonical form, or raise."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not limits.INT_MIN <= value <= limits.INT_MAX:
            raise InputError("an integer must fit in 64 bits")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"a number must be finite, not {value}")
        if value.is_integer() and limits.INT_MIN <= value <= limits.INT_MAX:
            return int(value)
        return value
    if isinstance(value, str):
        # A character has at most four bytes: short strings need no counting.
        if len(value) * 4 > limits.VALUE_BYTES_MAX or not value.isascii():
            size = len(utf8(value, "a string value"))
            if size > limits.VALUE_BYTES_MAX:
                raise LimitError(f"a string value of {size} bytes is longer than {limits.VALUE_BYTES_MAX}")
        return value
    raise InputError(f"a value is a string, a number or a boolean, not {type(value).__name__}")


@dataclass(frozen=True, slots=True)
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
            check_name(name)
            try:
                clean[name] = check_value(value)
            except InputError as error:
                raise type(error)(f"attribute {name!r}: {error}") from None
        object.__setattr__(self, "attributes", clean)
