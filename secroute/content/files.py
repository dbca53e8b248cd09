"""The neutral files every command reads and writes: messages and predicates as JSONL or Parquet, streaming.

TRUSTED. JSONL: ``{"id": "m1", "attributes": {"dest": "ATL"}}`` and ``{"id": "s1", "interface": "I1", "predicate":
"dest = 'ATL'"}``, one object a line. Parquet holds the same; attributes are a map of names to a struct with one set
field (s, i, f, b), because a column of mixed types would turn 64-bit integers into floats. Flat Parquet tables (a
column an attribute, null for missing) are read too. Every error names the file and the line (or row).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secroute import limits
from secroute.content.model import Message, Value
from secroute.content.predicate import Node
from secroute.content.render import render
from secroute.content.selector import parse
from secroute.errors import FileFormatError, InputError

_PARQUET_ROWS = 8_192


@dataclass(frozen=True)
class PredicateRecord:
    """One line of a predicates file."""

    id: str
    interface: str
    predicate: Node


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise InputError("a name occurs twice in one object")
    return table


def _refuse_constant(text: str) -> None:
    raise InputError(f"a number must be finite, not {text}")


def message_of(record: object) -> Message:
    """A message from plain data."""
    if not isinstance(record, dict):
        raise InputError('expected an object like {"id": "m1", "attributes": {...}}')
    extra = sorted(set(record) - {"id", "attributes"})
    if extra:
        raise InputError(f"unknown key {extra[0]!r}; a message has id and attributes")
    if "attributes" not in record:
        raise InputError("a message needs attributes")
    return Message(record["attributes"], id=_text(record.get("id", ""), "id"))


def predicate_of(record: object) -> PredicateRecord:
    """A predicate record from plain data."""
    if not isinstance(record, dict):
        raise InputError('expected an object like {"id": "s1", "interface": "I1", "predicate": "..."}')
    extra = sorted(set(record) - {"id", "interface", "predicate"})
    if extra:
        raise InputError(f"unknown key {extra[0]!r}; a predicate has id, interface and predicate")
    if "predicate" not in record:
        raise InputError("a predicate record needs predicate")
    identity = _text(record.get("id", ""), "id")
    interface = _text(record.get("interface", identity), "interface")
    return PredicateRecord(identity, interface, parse(record["predicate"]))


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{what} is text, not {type(value).__name__}")
    return value


def _json_lines(path: Path) -> Iterator[tuple[int, object]]:
    with path.open("rb") as lines:
        number = 0
        while line := lines.readline(limits.RECORD_BYTES_MAX + 1):
            number += 1
            if len(line) > limits.RECORD_BYTES_MAX:
                raise FileFormatError(path, f"a line is longer than {limits.RECORD_BYTES_MAX} bytes", number)
            if line.isspace():
                continue
            try:
                yield (
                    number,
                    json.loads(line, object_pairs_hook=_no_duplicates, parse_constant=_refuse_constant),
                )
            except InputError as error:
                raise FileFormatError(path, str(error), number) from None
            except (ValueError, RecursionError) as error:
                raise FileFormatError(path, f"not JSON: {error}", number) from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, object]]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(_PARQUET_ROWS):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
    except pyarrow.ArrowInvalid as error:
        raise FileFormatError(path, f"not Parquet: {error}") from None


def _one_field(name: str, cell: dict[str, Value | None]) -> Value:
    fields = [value for value in cell.values() if value is not None]
    if len(fields) != 1:
        raise InputError(f"attribute {name!r}: exactly one of s, i, f, b must be set")
    return fields[0]


def _parquet_message(record: object) -> object:
    if not isinstance(record, dict):
        return record
    if "attributes" not in record:
        flat = {name: value for name, value in record.items() if name != "id" and value is not None}
        return {"id": str(record.get("id", "")), "attributes": flat}
    cells = record["attributes"]
    return {**record, "attributes": {name: _one_field(name, cell) for name, cell in cells}}


def _is_parquet(path: Path) -> bool:
    return path.suffix in (".parquet", ".pq")


def read_messages(path: str | Path) -> Iterator[Message]:
    """Stream the messages of a file."""
    path = Path(path)
    parquet = _is_parquet(path)
    for number, record in _parquet_rows(path) if parquet else _json_lines(path):
        try:
            yield message_of(_parquet_message(record) if parquet else record)
        except InputError as error:
            raise FileFormatError(path, str(error), number) from None


def read_predicates(path: str | Path) -> Iterator[PredicateRecord]:
    """Stream the predicates of a file."""
    path = Path(path)
    for number, record in _parquet_rows(path) if _is_parquet(path) else _json_lines(path):
        try:
            yield predicate_of(record)
        except InputError as error:
            raise FileFormatError(path, str(error), number) from None


def _write(path: Path, records: Iterable[dict[str, Any]], schema: Any) -> None:
    if not _is_parquet(path):
        with path.open("w", encoding="utf-8") as out:
            for record in records:
                out.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        return
    import pyarrow
    import pyarrow.parquet

    def batches() -> Iterator[Any]:
        chunk: list[dict[str, Any]] = []
        for record in records:
            chunk.append(record)
            if len(chunk) == _PARQUET_ROWS:
                yield pyarrow.RecordBatch.from_pylist(chunk, schema)
                chunk = []
        yield pyarrow.RecordBatch.from_pylist(chunk, schema)

    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for batch in batches():
            writer.write_batch(batch)


def _cell(value: Value) -> dict[str, Value | None]:
    kind = "b" if isinstance(value, bool) else {str: "s", int: "i", float: "f"}[type(value)]
    return {"s": None, "i": None, "f": None, "b": None, kind: value}


def write_messages(path: str | Path, messages: Iterable[Message]) -> None:
    """Write messages; the name's ending (.parquet or anything else) chooses the form."""
    path = Path(path)
    if not _is_parquet(path):
        _write(path, ({"id": m.id, "attributes": dict(m.attributes)} for m in messages), None)
        return
    import pyarrow as pa

    cell = pa.struct([("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_())])
    schema = pa.schema([("id", pa.string()), ("attributes", pa.map_(pa.string(), cell))])
    rows = ({"id": m.id, "attributes": [(n, _cell(v)) for n, v in m.attributes.items()]} for m in messages)
    _write(path, rows, schema)


def write_predicates(path: str | Path, records: Iterable[PredicateRecord]) -> None:
    """Write predicate records; the name's ending chooses the form."""
    path = Path(path)
    rows = ({"id": r.id, "interface": r.interface, "predicate": render(r.predicate)} for r in records)
    schema = None
    if _is_parquet(path):
        import pyarrow as pa

        schema = pa.schema([(name, pa.string()) for name in ("id", "interface", "predicate")])
    _write(path, rows, schema)
