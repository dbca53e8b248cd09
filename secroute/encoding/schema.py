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


def _whole(table: Mapping[str, Any], key: str, default: int, low: int, high: int, where: str) -> int:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SchemaError(f"{where}: {key} is a whole number from {low} to {high}, not {value!r}")
    return value


def _flag(table: Mapping[str, Any], key: str, default: bool, where: str) -> bool:
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise SchemaError(f"{where}: {key} is true or false, not {value!r}")
    return value


def _ladder(table: Mapping[str, Any], key: str, where: str) -> tuple[int, ...]:
    steps = table.get(key, [])
    whole = isinstance(steps, list) and all(isinstance(s, int) and not isinstance(s, bool) for s in steps)
    if not whole or sorted(set(steps)) != steps or any(not 1 <= s <= limits.LADDER_LENGTH_MAX for s in steps):
        raise SchemaError(f"{where}: {key} is a rising list of lengths from 1 to {limits.LADDER_LENGTH_MAX}")
    if len(steps) > limits.LADDER_STEPS_MAX:
        raise SchemaError(f"{where}: {key} has {len(steps)} steps, at most {limits.LADDER_STEPS_MAX}")
    return tuple(steps)


def _unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    extra = sorted(set(table) - known)
    if extra:
        raise SchemaError(f"{where}: unknown key {extra[0]!r}; known are {', '.join(sorted(known))}")


@dataclass(frozen=True)
class NumberIndex:
    """Ranges over a numeric domain cut into ``2**levels`` buckets of equal width."""

    low: int | float
    high: int | float
    levels: int
    step: int = 1
    equality: bool = True

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


def _bound(value: object, key: str, where: str) -> int | float:
    parsed: object = value
    if isinstance(value, str):
        try:
            parsed = int(value) if value.lstrip("-").isdigit() else float.fromhex(value)
        except (ValueError, OverflowError):
            raise SchemaError(f"{where}: {key} is a number, not {value[:40]!r}") from None
    try:
        number = check_value(parsed)
    except InputError as error:
        raise SchemaError(f"{where}: {key}: {error}") from None
    if isinstance(number, bool | str):
        raise SchemaError(f"{where}: {key} is a number, not {value!r}")
    return number


def _number_index(table: Mapping[str, Any], where: str) -> NumberIndex:
    _unknown(table, {"type", "low", "high", "levels", "buckets", "step", "equality"}, where)
    for key in ("low", "high"):
        if key not in table:
            raise SchemaError(f"{where}: a number needs {key!r}, the {key}est value that matters")
    low, high = _bound(table["low"], "low", where), _bound(table["high"], "high", where)
    if not low < high:
        raise SchemaError(f"{where}: low ({low}) must be below high ({high})")
    most = limits.SCHEMA_LEVELS_MAX
    if "buckets" in table:
        buckets = _whole(table, "buckets", 2, 2, 1 << most, where)
        if buckets & (buckets - 1) or "levels" in table:
            raise SchemaError(f"{where}: buckets is a power of two, and stands instead of levels")
        levels = buckets.bit_length() - 1
    else:
        levels = _whole(table, "levels", 10, 1, most, where)
    step = _whole(table, "step", 1, 1, levels, where)
    return NumberIndex(low, high, levels, step, _flag(table, "equality", True, where))


def _text_index(table: Mapping[str, Any], where: str) -> TextIndex:
    _unknown(table, {"type", "prefixes", "suffixes", "qgram", "order_bytes", "step", "equality"}, where)
    return TextIndex(
        prefixes=_ladder(table, "prefixes", where),
        suffixes=_ladder(table, "suffixes", where),
        qgram=_whole(table, "qgram", 0, 0, limits.QGRAM_LENGTH_MAX, where),
        order_bytes=_whole(table, "order_bytes", 0, 0, limits.ORDER_BYTES_MAX, where),
        step=_whole(table, "step", 1, 1, limits.SCHEMA_LEVELS_MAX, where),
        equality=_flag(table, "equality", True, where),
    )


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
            attributes[name] = (_number_index if table["type"] == "number" else _text_index)(table, where)
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
