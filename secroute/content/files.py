"""The neutral files every command reads and writes: messages and predicates as JSONL or Parquet, streaming.

TRUSTED. JSONL: ``{"id": "m1", "attributes": {"dest": "ATL"}}`` and ``{"id": "s1", "interface": "I1", "predicate":
"dest = 'ATL'"}``, one object a line. Parquet holds the same; attributes are a map of names to a struct with one set
field (s, i, f, b), because a column of mixed types would turn 64-bit integers into floats. Flat Parquet tables (a
column an attribute, null for missing) are read too. Every error names the file and the line (or row).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from secroute import limits
from secroute.content.model import Message, Value, integral, utf8
from secroute.content.predicate import Node
from secroute.content.render import render
from secroute.content.selector import parse
from secroute.errors import FileFormatError, InputError, LimitError

_PARQUET_ROWS = 8_192


@dataclass(frozen=True)
class PredicateRecord:
    """One line of a predicates file."""

    id: str
    interface: str
    predicate: Node
    line: int = field(default=0, compare=False)
    """The line (or row) of its file; 0 if it came from none."""


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
    utf8(value, what)
    return value


def _float(text: str) -> int | float:
    exact = integral(text)
    return float(text) if exact is None else exact


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
                    json.loads(
                        line,
                        object_pairs_hook=_no_duplicates,
                        parse_constant=_refuse_constant,
                        parse_float=_float,
                    ),
                )
            except InputError as error:
                raise FileFormatError(path, str(error), number) from None
            except (ValueError, RecursionError) as error:
                raise FileFormatError(path, f"not JSON: {error}", number) from None


def _parquet_rows(path: Path) -> Iterator[tuple[int, object]]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    batches = _parquet_batches(path)
    while True:
        try:
            batch = next(batches, None)
            rows = [] if batch is None else batch.to_pylist()
        except FileNotFoundError:
            raise
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            # Damage shows as any of these, depending on where it is.
            raise FileFormatError(path, f"not Parquet, or damaged: {error}", number + 1) from None
        if batch is None:
            return
        for record in rows:
            number += 1
            yield number, record


def _parquet_batches(path: Path) -> Iterator[Any]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        yield from file.iter_batches(_PARQUET_ROWS)


def _one_field(name: object, cell: object) -> Value:
    fields = cell if isinstance(cell, dict) else {}
    chosen = [value for value in fields.values() if value is not None]
    if len(chosen) != 1 or not set(fields) <= {"s", "i", "f", "b"}:
        raise InputError(f"attribute {name!r}: exactly one of s, i, f, b must be set")
    return chosen[0]  # type: ignore[no-any-return]


def _parquet_message(record: object) -> object:
    if not isinstance(record, dict):
        return record
    if "attributes" not in record:
        flat = {name: value for name, value in record.items() if name != "id" and value is not None}
        identity = record.get("id")
        return {"id": "" if identity is None else str(identity), "attributes": flat}
    cells = record["attributes"]
    if not isinstance(cells, list) or not all(isinstance(cell, tuple) for cell in cells):
        raise InputError("attributes are a map of names to a struct with one of s, i, f, b set")
    return {**record, "attributes": _no_duplicates([(name, _one_field(name, cell)) for name, cell in cells])}


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
            yield replace(predicate_of(record), line=number)
        except InputError as error:
            raise FileFormatError(path, str(error), number) from None


def _write(path: Path, records: Iterable[dict[str, Any]], schema: Any) -> None:
    """Write whole or not at all: the records may come from the very file that is replaced."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if _is_parquet(path):
            _write_parquet(part, records, schema)
        else:
            _write_lines(part, records)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    with path.open("wb") as out:
        for number, record in enumerate(records, 1):
            line = utf8(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n", f"record {number}")
            if len(line) > limits.RECORD_BYTES_MAX:
                raise LimitError(f"record {number} would make a line longer than {limits.RECORD_BYTES_MAX} bytes")
            out.write(line)


def _write_parquet(path: Path, records: Iterable[dict[str, Any]], schema: Any) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = iter(records)
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        while chunk := list(itertools.islice(rows, _PARQUET_ROWS)):
            writer.write_batch(pyarrow.RecordBatch.from_pylist(chunk, schema))


def _selector(record: PredicateRecord) -> str:
    text = render(record.predicate)
    if len(text) > limits.SELECTOR_CHARS_MAX:
        raise LimitError(f"predicate {record.id!r}: its text of {len(text)} characters could not be read back")
    return text


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
    rows = ({"id": r.id, "interface": r.interface, "predicate": _selector(r)} for r in records)
    schema = None
    if _is_parquet(path):
        import pyarrow as pa

        schema = pa.schema([(name, pa.string()) for name in ("id", "interface", "predicate")])
    _write(path, rows, schema)
