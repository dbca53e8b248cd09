"""Tokens: what a value of a message says, and what a conjunction of constraints asks for.

TRUSTED, pure. The law lives here: whatever a conjunction asks for (`plan`) is said by every message it matches
(`value_tokens`). A token is a short byte string; the attribute's name is not in it, because it is hashed under a key
that belongs to that attribute.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from secroute.content.model import Value
from secroute.encoding.schema import NumberIndex, Schema, TextIndex
from secroute.encoding.tdag import Span

EXISTENCE = b"\x01e"
_EQUALITY = b"\x01="
_NUMBER_SPAN = b"\x01n"
_TEXT_SPAN = b"\x01t"
_PREFIX = b"\x01p"
_SUFFIX = b"\x01s"
_QGRAM = b"\x01q"
_SPAN = struct.Struct(">B?Q")


def equality(value: Value) -> bytes:
    """The token of one exact value; its type is part of it, and 3.0 is 3 because values are canonical."""
    if isinstance(value, bool):
        return _EQUALITY + (b"b1" if value else b"b0")
    if isinstance(value, int):
        return _EQUALITY + b"i" + str(value).encode()
    if isinstance(value, float):
        return _EQUALITY + b"f" + value.hex().encode()
    return _EQUALITY + b"s" + value.encode()


def number_span(span: Span) -> bytes:
    """The token of a node over numbers."""
    return _NUMBER_SPAN + _SPAN.pack(*span)


def number_spans(level: int, shifted: bool, positions: npt.NDArray[np.int64]) -> list[bytes]:
    """``number_span`` of many nodes of one level, without making each one by itself."""
    return _spans(_NUMBER_SPAN, level, shifted, positions)


def text_spans(level: int, shifted: bool, positions: npt.NDArray[np.int64]) -> list[bytes]:
    """``text_span`` of many nodes of one level."""
    return _spans(_TEXT_SPAN, level, shifted, positions)


def _spans(kind: bytes, level: int, shifted: bool, positions: npt.NDArray[np.int64]) -> list[bytes]:
    head, tails = kind + _SPAN.pack(level, shifted, 0)[:2], positions.astype(">u8").tobytes()
    return [head + tails[at : at + 8] for at in range(0, len(tails), 8)]


def text_span(span: Span) -> bytes:
    """The token of a node over the first bytes of strings."""
    return _TEXT_SPAN + _SPAN.pack(*span)


def prefix(text: str, length: int) -> bytes:
    """The token of the first ``length`` characters."""
    return _PREFIX + length.to_bytes(2, "big") + text[:length].encode()


def suffix(text: str, length: int) -> bytes:
    """The token of the last ``length`` characters."""
    return _SUFFIX + length.to_bytes(2, "big") + text[-length:].encode()


def qgrams(text: str, size: int) -> Iterator[bytes]:
    """The tokens of every run of ``size`` characters."""
    for at in range(len(text) - size + 1):
        yield _QGRAM + text[at : at + size].encode()


def number_tokens(index: NumberIndex, value: int | float) -> list[bytes]:
    """What a number says beyond existence and equality: every node that contains its bucket."""
    return [number_span(span) for span in index.tdag.containing(index.bucket(value))]


def text_tokens(index: TextIndex, value: str) -> list[bytes]:
    """What a string says beyond existence and equality."""
    length = len(value)
    said = [prefix(value, step) for step in index.prefixes if step <= length]
    said += [suffix(value, step) for step in index.suffixes if step <= length]
    if index.qgram:
        said += qgrams(value, index.qgram)
    if index.order_bytes:
        said += [text_span(span) for span in index.tdag.containing(index.bucket(value))]
    return said


def value_tokens(schema: Schema, name: str, value: Value) -> list[bytes]:
    """Everything a message says by having ``value`` under ``name``."""
    said = [EXISTENCE]
    if isinstance(value, bool):
        return [*said, equality(value)]
    if isinstance(value, str):
        text = schema.text(name)
        return said + ([equality(value)] if text.equality else []) + text_tokens(text, value)
    number = schema.number(name)
    if number is None:
        return [*said, equality(value)]
    return said + ([equality(value)] if number.equality else []) + number_tokens(number, value)


def describe(token: bytes) -> str:
    """A token in words, for a person."""
    kind, rest = token[:2], token[2:]
    if kind == EXISTENCE:
        return "exists"
    if kind == _EQUALITY:
        text = rest[1:].decode()
        shown = {"b": "true" if text == "1" else "false", "s": repr(text)}.get(chr(rest[0]), text)
        return f"= {float.fromhex(text)!r}" if rest[:1] == b"f" else f"= {shown}"
    if kind in (_NUMBER_SPAN, _TEXT_SPAN):
        span = Span(*_SPAN.unpack(rest))
        what = "numbers" if kind == _NUMBER_SPAN else "strings"
        return f"{what} in buckets {span.low}..{span.high}"
    if kind == _QGRAM:
        return f"contains {rest.decode()!r}"
    return f"{'starts' if kind == _PREFIX else 'ends'} with {rest[2:].decode()!r}"
