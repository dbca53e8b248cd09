"""Messages as columns: one batch, made once from dictionaries or Arrow, matched against any number of tables.

TRUSTED, pure. Nothing here depends on a table: names and strings are numbered within the batch, and a table looks each
distinct one up once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from secroute import limits
from secroute.content.model import Message, Value, check_name
from secroute.errors import InputError, LimitError
from secroute.exact.columns import (
    BOOL,
    NUMBER,
    STRING,
    Bytes,
    Floats,
    Int32s,
    Int64s,
    Interner,
    encode_values,
    pack_strings,
)
from secroute.exact.numbers import split_floats


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Attributes of message i: rows ``offsets[i]:offsets[i + 1]`` of name, kind and value."""

    offsets: Int64s
    names: list[str]
    name: Int32s
    kind: Bytes
    value: Int32s
    """0 or 1 for a boolean, else a place in the numbers or strings."""
    whole: Int64s
    rest: Floats
    text: Bytes
    text_offsets: Int64s

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def slice(self, start: int, stop: int) -> MessageBatch:
        """The messages ``start:stop`` over the same names and values."""
        offsets = self.offsets[start : stop + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        return MessageBatch(
            offsets - offsets[0],
            self.names,
            self.name[rows],
            self.kind[rows],
            self.value[rows],
            self.whole,
            self.rest,
            self.text,
            self.text_offsets,
        )

    @classmethod
    def of(cls, messages: Any) -> MessageBatch:
        """A batch from a batch, an Arrow table or record batch, or a sequence of messages or mappings."""
        if isinstance(messages, MessageBatch):
            return messages
        if hasattr(messages, "column_names") and hasattr(messages, "columns"):
            return from_arrow(messages)
        return from_mappings(messages)


def from_mappings(messages: Sequence[Message | Mapping[str, Value]]) -> MessageBatch:
    """A batch from messages or plain mappings of names to values."""
    names: list[str] = []
    values: list[Value] = []
    sizes: list[int] = []
    for message in messages:
        attributes = message.attributes if isinstance(message, Message) else message
        names += attributes
        values += attributes.values()
        sizes.append(len(attributes))
    if sizes and max(sizes) > limits.MESSAGE_ATTRIBUTES_MAX:
        raise LimitError(f"{max(sizes)} attributes in a message, at most {limits.MESSAGE_ATTRIBUTES_MAX}")
    interner = Interner()
    name = np.fromiter(map(interner.__getitem__, names), np.int32, len(names))
    encoded = encode_values(values)
    if not np.isin(encoded.kind, (BOOL, NUMBER, STRING)).all():
        raise InputError("a value of a message is a string, a number or a boolean")
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    text, text_offsets = pack_strings(encoded.strings)
    return MessageBatch(
        offsets,
        [check_name(name) for name in interner],
        name,
        encoded.kind,
        encoded.index,
        encoded.whole,
        encoded.rest,
        text,
        text_offsets,
    )


@dataclass(frozen=True, slots=True)
class _Column:
    """One attribute over all messages: which rows have it, of which kind, and the values."""

    rows: Int64s
    kind: int
    value: Int32s
    whole: Int64s
    rest: Floats
    text: Bytes
    lengths: Int64s


_NO_WHOLE, _NO_REST, _NO_TEXT = np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.uint8)


def from_arrow(table: Any) -> MessageBatch:
    """A batch from an Arrow table whose columns are the attributes; a null is a missing attribute.

    Integers stay integers (never by way of a double), so values around 2**53 keep their last bit.
    """
    if len(set(table.column_names)) != len(table.column_names):
        raise InputError("two columns of the table have the same name")
    columns = [_arrow_column(name, table.column(name)) for name in table.column_names]
    sizes = np.zeros(table.num_rows, np.int64)
    for column in columns:
        sizes[column.rows] += 1
    offsets = np.zeros(table.num_rows + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    name = np.empty(int(offsets[-1]), np.int32)
    kind = np.empty(len(name), np.uint8)
    value = np.empty(len(name), np.int32)
    place = offsets[:-1].copy()
    numbers = strings = 0
    for i, column in enumerate(columns):
        at = place[column.rows]
        place[column.rows] += 1
        name[at], kind[at] = i, column.kind
        value[at] = column.value + (numbers if column.kind == NUMBER else strings if column.kind == STRING else 0)
        numbers += len(column.whole)
        strings += len(column.lengths)
    text_offsets = np.zeros(strings + 1, np.int64)
    if columns:
        np.cumsum(np.concatenate([column.lengths for column in columns]), out=text_offsets[1:])
    return MessageBatch(
        offsets,
        [check_name(name) for name in table.column_names],
        name,
        kind,
        value,
        np.concatenate([_NO_WHOLE, *(column.whole for column in columns)]),
        np.concatenate([_NO_REST, *(column.rest for column in columns)]),
        np.concatenate([_NO_TEXT, *(column.text for column in columns)]),
        text_offsets,
    )


def _arrow_column(name: str, chunked: Any) -> _Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = chunked.combine_chunks() if isinstance(chunked, pa.ChunkedArray) else chunked
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    rows = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    array = array.drop_null()
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if not pa.types.is_dictionary(array.type):
            array = pc.dictionary_encode(array)
        distinct = array.dictionary.cast(pa.large_string())
        text, lengths = _arrow_text(distinct)
        codes = array.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        return _Column(rows, STRING, codes, _NO_WHOLE, _NO_REST, text, lengths)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_boolean(kind):
        bools = array.to_numpy(zero_copy_only=False).astype(np.int32)
        return _Column(rows, BOOL, bools, _NO_WHOLE, _NO_REST, _NO_TEXT, _NO_WHOLE)
    if pa.types.is_null(kind):
        return _Column(rows, BOOL, np.empty(0, np.int32), _NO_WHOLE, _NO_REST, _NO_TEXT, _NO_WHOLE)
    if pa.types.is_integer(kind):
        numbers = array.to_numpy(zero_copy_only=False)
        if numbers.dtype == np.uint64 and (numbers > np.uint64(2**63 - 1)).any():
            raise InputError(f"column {name!r}: an integer must fit in 64 bits, signed")
        whole, rest = numbers.astype(np.int64), np.zeros(len(numbers))
    elif pa.types.is_floating(kind):
        try:
            whole, rest = split_floats(array.to_numpy(zero_copy_only=False).astype(np.float64))
        except InputError as error:
            raise InputError(f"column {name!r}: {error}") from None
    else:
        raise InputError(f"column {name!r} is of type {kind}; an attribute is a string, a number or a boolean")
    return _Column(rows, NUMBER, np.arange(len(whole), dtype=np.int32), whole, rest, _NO_TEXT, _NO_WHOLE)


def _arrow_text(strings: Any) -> tuple[Bytes, Int64s]:
    """Bytes and lengths of a large_string array without nulls, straight from its buffers."""
    if not len(strings):
        return _NO_TEXT, np.empty(0, np.int64)
    _, offset_buffer, data = strings.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    text = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else _NO_TEXT
    return text, np.diff(offsets)
