"""Neutral files: what is written is read back exactly, and every error names the line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from secroute.content import Message, parse
from secroute.content.files import PredicateRecord, read_messages, read_predicates, write_messages, write_predicates
from secroute.errors import FileFormatError
from tests import generate


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_round_trip(tmp_path: Path, ending: str) -> None:
    rng = random.Random(1)
    messages = [Message(generate.message(rng), id=f"m{i}") for i in range(300)]
    path = tmp_path / f"messages.{ending}"
    write_messages(path, messages)
    again = list(read_messages(path))
    assert again == messages
    kinds = [[type(v) for v in m.attributes.values()] for m in messages]
    assert [[type(v) for v in m.attributes.values()] for m in again] == kinds
    records = [PredicateRecord(f"s{i}", f"I{i % 3}", generate.predicate(rng, {})) for i in range(100)]
    path = tmp_path / f"predicates.{ending}"
    write_predicates(path, records)
    assert list(read_predicates(path)) == records


def test_a_flat_table_keeps_64_bit_integers_beside_nulls(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"id": ["a", "b"], "n": pa.array([2**53 + 1, None], pa.int64()), "s": ["x", None]})
    pq.write_table(table, tmp_path / "flat.parquet")
    first, second = read_messages(tmp_path / "flat.parquet")
    assert first.attributes == {"n": 2**53 + 1, "s": "x"}
    assert second.attributes == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ('{"id": "m", "attributes": {"a": NaN}}', "finite"),
        ('{"id": "m", "attributes": {"a": 1, "a": 2}}', "twice"),
        ('{"id": "m", "attributes": {"a": null}}', "attribute 'a'"),
        ('{"id": "m", "atributes": {}}', "unknown key 'atributes'"),
        ('{"id": "m"}', "needs attributes"),
        ("[]", "expected an object"),
        ('{"id": "m", "attributes": {"a": 9223372036854775808}}', "64 bits"),
    ],
)
def test_bad_message_lines(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "ok", "attributes": {}}\n\n' + line + "\n")
    with pytest.raises(FileFormatError) as caught:
        list(read_messages(path))
    assert f"{path}:3: " in str(caught.value)
    assert words in str(caught.value)


def test_a_bad_selector_names_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "s", "interface": "i", "predicate": "a >"}\n')
    with pytest.raises(FileFormatError, match=r"p\.jsonl:1: selector:1:4: expected a value"):
        list(read_predicates(path))


def test_interface_defaults_to_the_id(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": "s", "predicate": "a = 1"}\n')
    assert list(read_predicates(path)) == [PredicateRecord("s", "s", parse("a = 1"))]
