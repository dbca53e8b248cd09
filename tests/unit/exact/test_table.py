"""The exact table: exact values, changes, limits and refusals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from secroute.content.model import Message
from secroute.content.predicate import Constraint, Op
from secroute.content.selector import parse
from secroute.errors import InputError, LimitError
from secroute.exact import CountingTable, ExactTable, MessageBatch, PivotTable, covers, reduce
from secroute.exact.columns import from_predicates
from secroute.exact.reduction import reduce_conjunctions

BIG = 2**53


def test_numbers_around_2_to_53_stay_apart() -> None:
    table = PivotTable.build([Constraint("a", Op.EQ, BIG + 1), Constraint("a", Op.GT, float(BIG))])
    messages = [{"a": BIG}, {"a": BIG + 1}, {"a": float(BIG)}, {"a": BIG + 2.0}]
    assert table.match(messages).to_lists() == [[], [0, 1], [], [1]]
    assert table.match(pa.table({"a": pa.array([BIG, BIG + 1], pa.int64())})).to_lists() == [[], [0, 1]]


def test_a_bool_is_not_a_number_and_an_integral_float_is_the_int() -> None:
    table = CountingTable.build([parse("a = 1"), parse("a = TRUE"), parse("a <> FALSE")])
    assert table.match([{"a": 1.0}, {"a": True}, {"a": "1"}, {}]).to_lists() == [[0], [1, 2], [], []]


def test_small_changes_do_not_rebuild_the_rest() -> None:
    table = PivotTable.build([parse(f"a = {i} AND b > {i}") for i in range(1000)])
    large = table._segments[0]
    (number,) = table.add([parse("a = 5")])
    assert table.match_predicates([{"a": 5, "b": 9}]).to_lists() == [[5, number]]
    assert table._segments[0] is large
    table.remove([5])
    assert table.match_predicates([{"a": 5, "b": 9}]).to_lists() == [[number]]
    assert table._segments[0] is large
    with pytest.raises(InputError, match="predicate 5 was removed before"):
        table.remove([5])
    with pytest.raises(InputError, match="no predicate 4000"):
        table.remove([4000])


def test_what_is_mostly_removed_is_compiled_again() -> None:
    for engine in (PivotTable, CountingTable):
        table = engine.build([parse(f"a = {i} AND b > {i}") for i in range(1000)])
        table.match([{"a": 1, "b": 2}])
        before = table.nbytes
        table.remove(range(10, 1000))
        assert table.match_predicates([{"a": 5, "b": 9}, {"a": 50, "b": 90}]).to_lists() == [[5], []]
        assert table.constraints == 20
        assert table.nbytes < before / 3  # numbers of predicates and labels of interfaces stay
        table.remove(range(10))
        assert table.constraints == 0
        assert table.match([{"a": 5, "b": 9}]).to_lists() == [[]]


def test_new_labels_and_old_ones() -> None:
    table = PivotTable.build([parse("a = 1"), parse("a = 1"), parse("b = 1")], [7, -(2**63), 7])
    assert table.match([{"a": 1}, {"b": 1}]).to_lists() == [[-(2**63), 7], [7]]
    table.add([parse("b = 1"), parse("c = 1")], [2**63 - 1, 0])
    assert table.match([{"b": 1, "c": 1}], allowed=[0, 7]).to_lists() == [[0, 7]]
    with pytest.raises(InputError, match="an interface is an integer"):
        table.add([parse("a = 1")], [2**63])
    assert len(table) == 5


def test_segments_stay_few() -> None:
    table = PivotTable()
    for i in range(200):
        table.add([parse(f"a = {i}")])
        table.match([{"a": i}])
    assert len(table._segments) <= 9
    assert table.match([{"a": i} for i in range(200)]).to_lists() == [[i] for i in range(200)]


def test_auto_asks_the_oracle_when_there_is_little_to_do() -> None:
    table = ExactTable.build([parse("a = 1")])
    assert table._prefers_oracle([Message({"a": 1})])
    assert not table._prefers_oracle(MessageBatch.of([{"a": 1}]))
    table.add([parse(f"a = {i}") for i in range(500)])
    assert not table._prefers_oracle([Message({"a": 1})] * 100)


def test_columns_build_the_same_table() -> None:
    nodes = [parse("a = 1 OR b = 'x'"), parse("b LIKE 'x%y%z'"), parse("c IS NULL")]
    messages = [{"a": 1}, {"b": "x", "c": 1}, {"b": "x-y-z", "c": 1}]
    assert ExactTable.build(from_predicates(nodes)).match(messages).to_lists() == [[0, 2], [0], [1]]


def test_empty_tables_and_batches() -> None:
    for table in (PivotTable(), CountingTable(), ExactTable()):
        assert table.match([{"a": 1}, {}]).to_lists() == [[], []]
        assert table.match([]).to_lists() == []
    table = PivotTable.build([parse("a = 1")])
    assert table.match([]).to_lists() == []
    assert table.match([{}]).to_lists() == [[]]
    assert table.match(pa.table({"a": pa.array([None, None], pa.null())})).to_lists() == [[], []]


def test_a_sample_changes_the_pivots_not_the_answer() -> None:
    node = parse("common = 1 AND rare = 1")
    others = [parse(f"rare = {i} AND other = {i}") for i in range(50)]
    messages = [{"common": 1, "rare": 1}, {"common": 1}]
    for sample in (None, [{"common": 1}] * 90 + [{"rare": 1}] * 10):
        table = PivotTable.build([node, *others], sample=sample)
        assert table.match(messages).to_lists() == [[0], []]


def test_refusals() -> None:
    table = PivotTable.build([parse("a = 1")])
    with pytest.raises(InputError, match="finite"):
        table.match([{"a": float("nan")}])
    with pytest.raises(InputError, match="64 bits"):
        table.match([{"a": 2**63}])
    with pytest.raises(InputError, match="not list"):
        table.match([{"a": [1]}])
    with pytest.raises(InputError, match="a value of a message"):
        table.match([{"a": None}])
    with pytest.raises(InputError, match="surrogate"):
        table.match([{"a": "\ud800"}])
    with pytest.raises(InputError, match="must not be empty"):
        table.match([{"": 1}])
    with pytest.raises(LimitError, match="attributes in a message"):
        table.match([{f"a{i}": 1 for i in range(300)}])
    with pytest.raises(InputError, match="column 'a': a number must be finite"):
        table.match(pa.table({"a": [1.0, float("inf")]}))
    with pytest.raises(InputError, match="column 'a' is of type"):
        table.match(pa.table({"a": pa.array([1, 2], pa.timestamp("s"))}))
    with pytest.raises(InputError, match="signed"):
        table.match(pa.table({"a": pa.array([2**63], pa.uint64())}))
    with pytest.raises(InputError, match="no engine"):
        ExactTable("magic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="2 predicates but 1 interfaces"):
        ExactTable.build([parse("a = 1"), parse("a = 2")], [1])
    with pytest.raises(InputError, match="at least one conjunction"):
        PivotTable.build([()])
    with pytest.raises(InputError, match="a tree or a sequence"):
        PivotTable.build(["a = 1"])  # type: ignore[list-item]


def test_a_refused_predicate_leaves_the_table_as_it_was() -> None:
    table = ExactTable.build([parse("a = 1")])
    explosive = parse(" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(20)))
    with pytest.raises(LimitError, match="alternatives"):
        table.add([parse("a = 1"), explosive])
    assert len(table) == 1
    assert table.match_predicates(MessageBatch.of([{"a": 1}])).to_lists() == [[0]]
    assert table.add([parse("a = 1")]) == range(1, 2)


def test_conjunctions_are_taken_as_they_are() -> None:
    conjunctions = [(Constraint("a", Op.EQ, 1), Constraint("a", Op.EQ, 1)), (Constraint("b", Op.EXISTS),)]
    for engine in ("pivot", "counting", "auto"):
        table = ExactTable.build([conjunctions], engine=engine)
        assert table.match([{"a": 1}, {"b": ""}, {"a": 2}]).to_lists() == [[0], [0], []]


def test_interfaces_keep_their_labels() -> None:
    table = PivotTable.build([parse("a = 1"), parse("a > 0"), parse("a < 9")], [700, -5, 700])
    found = table.match([{"a": 1}])
    assert found.to_lists() == [[-5, 700]]
    assert found.values.dtype == np.int64


def test_reduction_of_the_report() -> None:
    """(x > 10 AND y = 100) OR (y > 0) is y > 0."""
    assert reduce(parse("x > 10 AND y = 100 OR y > 0")) == parse("y > 0")
    assert reduce(parse("severity > 2 OR severity > 3")) == parse("severity > 2")
    assert reduce(parse("a LIKE 'abc%' AND a LIKE 'ab%' AND a >= 'a' AND a <> 'b'")) == parse("a LIKE 'abc%'")
    assert reduce(parse("a = 1 AND a IS NOT NULL OR a = 1")) == parse("a = 1")


def test_covering() -> None:
    assert covers(parse("price < 500"), parse("price < 200 AND dest = 'ATL'"))
    assert not covers(parse("price < 200"), parse("price < 500"))
    assert covers(parse("a LIKE 'x%' OR b = 1"), parse("a LIKE 'xy%z' OR b = 1 AND c = 2"))
    assert not covers(parse("a = 1"), parse("a = TRUE"))
    assert covers(parse(f"a > {BIG}"), parse(f"a >= {BIG + 1}"))


def test_reducing_many_conjunctions_is_not_quadratic() -> None:
    wide = [(Constraint(f"n{i % 300}", Op.LT, i),) for i in range(3000)]
    narrow = [(*conjunction, Constraint("z", Op.EQ, 1)) for conjunction in wide]
    left = reduce_conjunctions(narrow + wide)
    assert len(left) == 300
    assert all(len(conjunction) == 1 and conjunction[0].value >= 2700 for conjunction in left)
