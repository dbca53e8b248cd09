"""Edges that once went wrong: values that are not quite plain, texts that grow, files that are damaged."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from secroute.content import Constraint, Message, Not, Op, matches, parse, render
from secroute.content.files import PredicateRecord, read_messages, read_predicates, write_messages, write_predicates
from secroute.errors import FileFormatError, InputError, LimitError, SelectorError


class Level(int, enum.Enum):
    HIGH = 3


class State(str, enum.Enum):  # noqa: UP042 - what older code bases have
    OPEN = "open"


@pytest.mark.parametrize(
    ("value", "plain"), [(Level.HIGH, 3), (State.OPEN, "open"), (np.float64(3.0), 3), (np.float64(3.5), 3.5), (-0.0, 0)]
)
def test_values_of_subclasses_become_plain(value: Any, plain: Any) -> None:
    kept = Message({"a": value}).attributes["a"]
    assert kept == plain
    assert type(kept) is type(plain)
    asked = Constraint("a", Op.EQ, value)
    assert parse(render(asked)) == asked
    assert matches(asked, {"a": plain})
    assert matches(asked, {"a": value})


@pytest.mark.parametrize("value", [np.int64(3), np.True_, None, b"x", [1], "\ud800"])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError):
        Message({"a": value})


def test_messages_differ_by_type() -> None:
    assert Message({"a": 1}) != Message({"a": True})
    assert Message({"a": 1}) == Message({"a": 1.0})
    assert hash(Message({"a": 1})) == hash(Message({"a": 1.0}))


def test_decimal_numerals_are_exact() -> None:
    assert parse("a = 9007199254740993.0") == Constraint("a", Op.EQ, 2**53 + 1)
    assert parse("a = 9.007199254740993e15") == Constraint("a", Op.EQ, 2**53 + 1)
    with pytest.raises(SelectorError, match="64 bits"):
        parse("a = " + "9" * 5000)
    with pytest.raises(SelectorError, match="finite"):
        parse("a = 1e999999999")


def test_hints_say_what_would_be_right() -> None:
    with pytest.raises(SelectorError, match="IS NULL"):
        parse("a = NULL")
    with pytest.raises(SelectorError, match='"device-'):
        parse("device-type = 'x'")


def test_long_lists_and_ranges_survive_their_text() -> None:
    for text in (f"a IN ({','.join(map(str, range(9000)))})", "a BETWEEN 1 AND 2 AND b IN ('x', 'y')", "a IN (1) OR b"):
        predicate = parse(text)
        assert parse(render(predicate)) == predicate


def test_trees_built_in_code_are_bounded() -> None:
    node: Any = Constraint("a", Op.EXISTS)
    for _ in range(5000):
        node = Not(node)
    with pytest.raises(LimitError, match="nested deeper"):
        render(node)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    largest = Message({f"n{i}": "\x01" * 4096 for i in range(256)})
    write_messages(tmp_path / "m.jsonl", [largest])
    assert list(read_messages(tmp_path / "m.jsonl")) == [largest]
    wide = parse(" OR ".join(f"f{i % 10}" for i in range(10_000)))
    with pytest.raises(LimitError, match="could not be read back"):
        write_predicates(tmp_path / "p.jsonl", [PredicateRecord("p", "i", wide)])
    assert not (tmp_path / "p.jsonl").exists()


def test_a_file_can_be_rewritten_from_its_own_reader(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    write_messages(path, [Message({"a": 1}), Message({"a": 2})])
    write_messages(path, (Message({**m.attributes, "b": 1}) for m in read_messages(path)))
    assert [m.attributes["b"] for m in read_messages(path)] == [1, 1]


def test_predicates_remember_their_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('\n{"predicate": "a"}\n\n{"predicate": "b"}\n')
    assert [record.line for record in read_predicates(path)] == [2, 4]


CELL = pa.struct([("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_())])
ONE = {"s": None, "i": 1, "f": None, "b": None}


@pytest.mark.parametrize(
    "attributes",
    [
        pa.array([None], pa.map_(pa.string(), CELL)),
        pa.array([[("a", None)]], pa.map_(pa.string(), CELL)),
        pa.array([[("a", ONE), ("a", ONE)]], pa.map_(pa.string(), CELL)),
        pa.array([[("a", "x")]], pa.map_(pa.string(), pa.string())),
        pa.array([{"a": 1}]),
        pa.array(["{}"]),
        pa.array([1]),
    ],
)
def test_odd_parquet_is_refused_with_its_row(tmp_path: Path, attributes: Any) -> None:
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"id": ["m"], "attributes": attributes}), path)
    with pytest.raises(FileFormatError, match=r"m\.parquet:1: "):
        list(read_messages(path))


def test_damaged_parquet_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"id": [str(i) for i in range(5000)], "x": list(range(5000))}), path)
    data = bytearray(path.read_bytes())
    data[100:140] = b"\xff" * 40
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"m\.parquet"):
        list(read_messages(path))
