"""Corpora: neutral files (JSONL or Parquet) become checked DataFrames of messages and predicates.

TRUSTED side. A record that does not parse is kept as an error, counted, shown and bounded by a tolerance; whatever
passes is canonical. Messages travel as JSON text of their attributes, because any mixture of types fits into it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from secroute.content import render
from secroute.content.files import message_of, predicate_of
from secroute.content.predicate import constraints
from secroute.errors import AuditError, InputError, SecrouteError

MESSAGES = "id string, attributes string, names int, size int, error string"
PREDICATES = "id string, interface string, predicate string, ops array<string>, error string"
EXAMPLES_SHOWN = 3
SEALED_OVERHEAD_BYTES = 64  # id, tag, salt and counter that go with every payload

_MESSAGE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("attributes", pa.string()),
        ("names", pa.int32()),
        ("size", pa.int32()),
        ("error", pa.string()),
    ]
)
_PREDICATE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("interface", pa.string()),
        ("predicate", pa.string()),
        ("ops", pa.list_(pa.string())),
        ("error", pa.string()),
    ]
)


def dump(attributes: Any) -> str:
    """The JSON text in which a message's attributes travel between jobs; equal messages have equal texts."""
    return json.dumps(attributes, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)


def _error(record: Any, error: Exception) -> dict[str, Any]:
    """A record that cannot be used, with its id, so that it can be found in a large file."""
    name = record.get("id") if isinstance(record, dict) else None
    return {"error": (f"record {name!r}: " if isinstance(name, str) and name else "")[:80] + f"{error}"[:300]}


def _message_row(record: Any) -> dict[str, Any]:
    try:
        message = message_of(record)
    except (SecrouteError, ValueError, RecursionError) as error:
        return _error(record, error)
    text = dump(dict(message.attributes))
    return {
        "id": message.id,
        "attributes": text,
        "names": len(message.attributes),
        "size": len(text.encode()) + SEALED_OVERHEAD_BYTES,
    }


def _predicate_row(record: Any) -> dict[str, Any]:
    try:
        parsed = predicate_of(record)
    except (SecrouteError, ValueError, RecursionError) as error:
        return _error(record, error)
    ops = sorted({constraint.op.value for constraint in constraints(parsed.predicate)})
    return {"id": parsed.id, "interface": parsed.interface, "predicate": render(parsed.predicate), "ops": ops}


def _load(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return ValueError(f"{error}; the line begins {line[:40]!r}")


def _from_lines(row: Any, schema: pa.Schema) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            records = [_load(line) for line in batch.column(0).to_pylist() if line and not line.isspace()]
            rows = [{"error": f"not JSON: {r}"[:300]} if isinstance(r, Exception) else row(r) for r in records]
            yield pa.RecordBatch.from_pylist(rows, schema)

    return run


def _cells(record: dict[str, Any]) -> dict[str, Any]:
    """A Parquet row in the shape of a JSONL record: maps of structs, or flat columns with nulls for missing."""
    if "attributes" not in record:
        flat = {name: value for name, value in record.items() if name != "id" and value is not None}
        return {"id": str(record.get("id", "")), "attributes": flat}
    cells = {}
    for name, cell in record["attributes"] or []:
        fields = [value for value in cell.values() if value is not None]
        if len(fields) != 1:
            raise InputError(f"attribute {name!r}: exactly one of s, i, f, b must be set")
        cells[name] = fields[0]
    return {"id": record.get("id") or "", "attributes": cells}


def _from_rows(row: Any, schema: pa.Schema, messages: bool) -> Any:
    def one(record: dict[str, Any]) -> dict[str, Any]:
        try:
            return dict(row(_cells(record) if messages else record))
        except InputError as error:
            return _error(record, error)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([one(record) for record in batch.to_pylist()], schema)

    return run


def _is_parquet(path: str) -> bool:
    if Path(path).is_dir():
        return any(Path(path).glob("*.parquet"))
    return path.endswith((".parquet", ".pq"))


def read(spark: Any, path: str, kind: str) -> Any:
    """The checked records of a file or folder; ``kind`` is ``messages`` or ``predicates``."""
    if "://" not in path and not Path(path).exists():
        raise AuditError(f"{path}: there is no such file of {kind}")
    row, schema, ddl = (
        (_message_row, _MESSAGE_SCHEMA, MESSAGES)
        if kind == "messages"
        else (_predicate_row, _PREDICATE_SCHEMA, PREDICATES)
    )
    if not _is_parquet(path):
        return spark.read.text(path).mapInArrow(_from_lines(row, schema), ddl)
    frame = spark.read.parquet(path)
    if kind == "predicates" and "predicate" not in frame.columns:
        raise AuditError(f"{path}: has no column 'predicate'; it has {', '.join(frame.columns)}")
    if kind == "predicates":
        frame = frame.select(*(c for c in ("id", "interface", "predicate") if c in frame.columns))
    else:
        _check_message_columns(path, frame)
    return frame.mapInArrow(_from_rows(row, schema, kind == "messages"), ddl)


def _check_message_columns(path: str, frame: Any) -> None:
    """Raise unless there is a column ``attributes`` of the neutral shape, or a column for each attribute."""
    shape = "map<string,struct<s:string,i:bigint,f:double,b:boolean>>"
    kinds = dict(frame.dtypes)
    if "attributes" not in kinds:
        if set(kinds) <= {"id"}:
            raise AuditError(
                f"{path}: has neither a column 'attributes' nor one for each attribute, only {list(kinds)}"
            )
    elif not kinds["attributes"].startswith("map<string,struct<"):
        raise AuditError(f"{path}: column 'attributes' is {kinds['attributes']}; it must be {shape}")


def check_errors(frame: Any, path: str, kind: str, tolerance: float) -> dict[str, Any]:
    """Counts of good and bad records; raises if more than ``tolerance`` of them are bad, or none is good."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    bad = frame.where(F.col("error").isNotNull())
    total, wrong = frame.count(), bad.count()
    examples = [r["error"] for r in bad.select("error").limit(EXAMPLES_SHOWN).collect()] if wrong else []
    if total == wrong:
        raise AuditError(
            f"{path}: no record of {total} can be used as {kind}" + (f": {examples[0]}" if examples else "")
        )
    if wrong > tolerance * total:
        raise AuditError(
            f"{path}: {wrong} of {total} {kind} do not parse, more than the tolerated {tolerance:.2%}; "
            f"the first: {'; '.join(examples)}"
        )
    return {"records": total - wrong, "bad": wrong, "bad_examples": examples}


def repeatable_sample(frame: Any, want: int, records: int, seed: int) -> Any:
    """``want`` rows of a frame of one column, at random and in random order.

    The same for a corpus and a seed however Spark cuts the corpus up: rows are drawn by a hash of their text and,
    because equal texts must not be drawn together, of their number among their equals.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    (column,) = frame.columns
    hashed = frame.withColumn("_text", F.xxhash64(column))
    number = F.row_number().over(Window.partitionBy("_text").orderBy("_text"))
    drawn = hashed.withColumn("_draw", F.xxhash64(F.lit(seed), "_text", number))
    if 1.2 * want < records:  # most rows need not be sorted
        drawn = drawn.where(F.pmod("_draw", F.lit(1_000_003)) < int(1.2 * want / records * 1_000_003) + 100)
    return drawn.orderBy("_draw").limit(want).select(column)
