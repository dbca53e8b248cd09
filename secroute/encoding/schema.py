"""Schemas: which attributes are indexed for more than equality and existence, and how finely.

TRUSTED, pure. A schema is part of the profile, so publishers and subscribers of an epoch always agree on it. The
bucket functions here are the only ones: monotone, in exact integer arithmetic, clamped at the ends of the domain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from secroute import limits
from secroute.content.model import check_name, check_value, utf8
from secroute.encoding.tdag import Tdag
from secroute.errors import InputError, SchemaError


def _whole(value: object, key: str, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SchemaError(f"{key} is a whole number from {low} to {high}, not {value!r}")


def _flag(value: object, key: str) -> None:
    if not isinstance(value, bool):
        raise SchemaError(f"{key} is true or false, not {value!r}")


def _ladder(steps: object, key: str) -> tuple[int, ...]:
    whole = isinstance(steps, list | tuple) and all(isinstance(s, int) and not isinstance(s, bool) for s in steps)
    rising = list(steps) if whole else []  # type: ignore[call-overload]
    if not whole or sorted(set(rising)) != rising or any(not 1 <= s <= limits.LADDER_LENGTH_MAX for s in rising):
        raise SchemaError(f"{key} is a rising list of lengths from 1 to {limits.LADDER_LENGTH_MAX}")
    if len(rising) > limits.LADDER_STEPS_MAX:
        raise SchemaError(f"{key} has {len(rising)} steps, at most {limits.LADDER_STEPS_MAX}")
    return tuple(rising)


def _unknown(table: Mapping[str, Any], known: set[str]) -> None:
    extra = sorted(set(table) - known)
    if extra:
        raise SchemaError(f"unknown key {extra[0]!r}; known are {', '.join(sorted(known))}")


@dataclass(frozen=True)
class NumberIndex:
    """Ranges over a numeric domain cut into ``2**levels`` buckets of equal width."""

    low: int | float
    high: int | float
    levels: int
    step: int = 1
    equality: bool = True

    def __post_init__(self) -> None:
        # Checked here and not where files are read: what is built in code goes into keyrings too.
        object.__setattr__(self, "low", _bound(self.low, "low"))
        object.__setattr__(self, "high", _bound(self.high, "high"))
        if not self.low < self.high:
            raise SchemaError(f"low ({self.low}) must be below high ({self.high})")
        _whole(self.levels, "levels", 1, limits.SCHEMA_LEVELS_MAX)
        _whole(self.step, "step", 1, self.levels)
        _flag(self.equality, "equality")

    @cached_property
    def _exact(self) -> tuple[int, int, int]:
        """low = a/q and high - low = b/q as whole numbers (a, b, q)."""
        (ln, ld), (hn, hd) = self.low.as_integer_ratio(), self.high.as_integer_ratio()
        return ln * hd, hn * ld - ln * hd, ld * hd

    @cached_property
    def tdag(self) -> Tdag:
        """The nodes over the buckets."""
        return Tdag(self.levels, self.step)

    def bucket(self, value: int | float) -> int:
        """The bucket of a number; monotone and exact, clamped to the domain."""
        offset, width, scale = self._exact
        numerator, denominator = value.as_integer_ratio()
        bucket = ((numerator * scale - offset * denominator) << self.levels) // (width * denominator)
        return min(max(bucket, 0), (1 << self.levels) - 1)

    def to_dict(self) -> dict[str, Any]:
        """The canonical form: bounds as text, so that no two writers print one number differently."""
        return {
            "type": "number",
            "low": _bound_text(self.low),
            "high": _bound_text(self.high),
            "levels": self.levels,
            "step": self.step,
            "equality": self.equality,
        }


@dataclass(frozen=True)
class TextIndex:
    """Ladders of prefix and suffix lengths, q-grams, and order over the first bytes, each optional."""

    prefixes: tuple[int, ...] = ()
    suffixes: tuple[int, ...] = ()
    qgram: int = 0
    order_bytes: int = 0
    step: int = 1
    equality: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", _ladder(self.prefixes, "prefixes"))
        object.__setattr__(self, "suffixes", _ladder(self.suffixes, "suffixes"))
        _whole(self.qgram, "qgram", 0, limits.QGRAM_LENGTH_MAX)
        _whole(self.order_bytes, "order_bytes", 0, limits.ORDER_BYTES_MAX)
        _whole(self.step, "step", 1, limits.SCHEMA_LEVELS_MAX)
        _flag(self.equality, "equality")

    @cached_property
    def tdag(self) -> Tdag:
        """The nodes over the first ``order_bytes`` bytes."""
        return Tdag(8 * self.order_bytes, self.step)

    def bucket(self, text: str) -> int:
        """The first bytes of the text as a number; monotone in the order of UTF-8."""
        return int.from_bytes(utf8(text, "a string value")[: self.order_bytes].ljust(self.order_bytes, b"\0"), "big")

    def to_dict(self) -> dict[str, Any]:
        """The canonical form."""
        return {
            "type": "string",
            "prefixes": list(self.prefixes),
            "suffixes": list(self.suffixes),
            "qgram": self.qgram,
            "order_bytes": self.order_bytes,
            "step": self.step,
            "equality": self.equality,
        }


def _bound_text(value: int | float) -> str:
    return str(value) if isinstance(value, int) else value.hex()


def _bound(value: object, key: str) -> int | float:
    """A bound as a number; text is the canonical form alone, as ``_bound_text`` writes it."""
    try:
        if isinstance(value, str):
            value = float.fromhex(value) if value.lstrip("-").startswith("0x") else int(value)
        number = check_value(value)
    except (InputError, ValueError, OverflowError):
        number = ""
    if isinstance(number, bool | str):
        raise SchemaError(f"{key} is a finite number, not {value!r}")
    return number


def _number_index(table: Mapping[str, Any]) -> NumberIndex:
    _unknown(table, {"type", "low", "high", "levels", "buckets", "step", "equality"})
    for key in ("low", "high"):
        if key not in table:
            raise SchemaError(f"a number needs {key!r}, the {key}est value that matters")
    levels = table.get("levels", 10)
    if "buckets" in table:
        buckets = table["buckets"]
        _whole(buckets, "buckets", 2, 1 << limits.SCHEMA_LEVELS_MAX)
        if buckets & (buckets - 1) or "levels" in table:
            raise SchemaError("buckets is a power of two, and stands instead of levels")
        levels = buckets.bit_length() - 1
    return NumberIndex(table["low"], table["high"], levels, table.get("step", 1), table.get("equality", True))


def _text_index(table: Mapping[str, Any]) -> TextIndex:
    _unknown(table, {"type", "prefixes", "suffixes", "qgram", "order_bytes", "step", "equality"})
    return TextIndex(**{key: value for key, value in table.items() if key != "type"})


PLAIN_TEXT = TextIndex()


@dataclass(frozen=True)
class Schema:
    """Indexed attributes by name; every other attribute has equality and existence."""

    attributes: Mapping[str, NumberIndex | TextIndex] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, tables: object) -> Schema:
        """Read ``{name: {type = "number" | "string", ...}}``; anything unknown or out of range raises SchemaError."""
        if not isinstance(tables, Mapping):
            raise SchemaError("attributes is a table of tables, one for each attribute")
        if len(tables) > limits.SCHEMA_ATTRIBUTES_MAX:
            raise SchemaError(f"{len(tables)} attributes, at most {limits.SCHEMA_ATTRIBUTES_MAX}")
        attributes: dict[str, NumberIndex | TextIndex] = {}
        for name, table in sorted(tables.items()):
            where = f"attributes.{name}"
            try:
                check_name(name)
            except InputError as error:
                raise SchemaError(f"{where}: {error}") from None
            if not isinstance(table, Mapping) or table.get("type") not in ("number", "string"):
                raise SchemaError(f'{where}: needs type = "number" or type = "string"')
            try:
                attributes[name] = (_number_index if table["type"] == "number" else _text_index)(table)
            except SchemaError as error:
                raise SchemaError(f"{where}: {error}") from None
        return cls(attributes)

    def to_dict(self) -> dict[str, Any]:
        """The canonical form, which ``from_dict`` reads back to an equal schema."""
        return {name: self.attributes[name].to_dict() for name in sorted(self.attributes)}

    def number(self, name: str) -> NumberIndex | None:
        """How numbers under this name are indexed beyond equality, if they are."""
        index = self.attributes.get(name)
        return index if isinstance(index, NumberIndex) else None

    def text(self, name: str) -> TextIndex:
        """How strings under this name are indexed (equality alone where the schema is silent)."""
        index = self.attributes.get(name)
        return index if isinstance(index, TextIndex) else PLAIN_TEXT
