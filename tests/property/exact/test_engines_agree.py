"""Every engine returns what the oracle returns, on random predicates and partial messages."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from secroute.content.oracle import matches
from secroute.content.predicate import And, Constraint, Op, constraints
from secroute.exact import CountingTable, ExactTable, PivotTable
from secroute.exact.batch import MessageBatch
from tests.cases import cases
from tests.property.exact.cases import message, tree

ENGINES = {
    "counting r=0": lambda p, i: CountingTable.build(p, i, rounds=0, masks=False),
    "counting r=0 masks": lambda p, i: CountingTable.build(p, i, rounds=0, masks=True),
    "counting r=10": lambda p, i: CountingTable.build(p, i, rounds=10, masks=False),
    "counting r=10 masks": lambda p, i: CountingTable.build(p, i, rounds=10, masks=True),
    "pivot": lambda p, i: PivotTable.build(p, i),
    "auto": lambda p, i: ExactTable.build(p, i),
    "oracle": lambda p, i: ExactTable.build(p, i, "oracle"),
}
PREDICATES, MESSAGES, INTERFACES = 10, 5, 4


@pytest.mark.parametrize("engine", ENGINES)
def test_agrees_with_the_oracle(engine: str) -> None:
    rng = random.Random(4)
    tried = matched = 0
    # A case is one predicate against MESSAGES messages; tables hold PREDICATES of them.
    for _ in range(cases(200, 10_000) // PREDICATES):
        predicates = [tree(rng) for _ in range(PREDICATES)]
        interfaces = [rng.randrange(INTERFACES) for _ in predicates]
        messages = [message(rng) for _ in range(MESSAGES)]
        table = ENGINES[engine](predicates, interfaces)
        expected = [[i for i, p in enumerate(predicates) if matches(p, m)] for m in messages]
        assert table.match_predicates(messages).to_lists() == expected
        assert table.match(messages).to_lists() == [sorted({interfaces[i] for i in row}) for row in expected]
        tried += PREDICATES * MESSAGES
        matched += sum(map(len, expected))
    assert matched >= 0.3 * tried


def test_the_cases_have_every_operator_and_the_awkward_values() -> None:
    rng = random.Random(4)
    found = [c for _ in range(200) for c in constraints(tree(rng))]
    assert {c.op for c in found} == set(Op)
    assert {2**53, 2**53 + 1, float(2**53), "", "é", "日本"} <= {c.value for c in found if c.value is not None}
    assert {type(v) for _ in range(50) for v in message(rng).values()} == {bool, int, float, str}


@pytest.mark.parametrize("rounds", [0, 1, 10])
@pytest.mark.parametrize("masks", [False, True])
def test_selectivity_excludes_and_agrees(rounds: int, masks: bool) -> None:
    """Interfaces whose filters all need one name: the rounds have something to exclude, over more than one word."""
    rng = random.Random(11)
    interfaces = 150
    predicates = [
        And((Constraint(f"n{i % 7}", Op.EXISTS), Constraint(f"n{rng.randrange(7)}", Op.GE, rng.randrange(3))))
        for i in range(interfaces)
        for _ in range(rng.choice((1, 2)))
    ]
    owners = [int(p.children[0].name[1:]) + 7 * (k % 20) for k, p in enumerate(predicates)]
    table = CountingTable.build(predicates, owners, rounds=rounds, masks=masks)
    messages = [{f"n{i}": rng.randrange(3) for i in range(7) if rng.random() < 0.6} for _ in range(cases(40, 2_000))]
    expected = [sorted({o for p, o in zip(predicates, owners, strict=True) if matches(p, m)}) for m in messages]
    assert table.match(messages).to_lists() == expected
    allowed = range(0, 140, 3)
    assert table.match(messages, allowed).to_lists() == [[o for o in row if o in allowed] for row in expected]
    assert len(table._segments[0].view("interface", table._interface, table._alive, 140).determinants.name) == min(
        rounds, 7
    )


@pytest.mark.parametrize("engine", ["counting", "pivot"])
def test_large_tables_agree(engine: str) -> None:
    """Many predicates and messages at once: lists longer than one entry, counters and stamps over many messages."""
    rng = random.Random(5)
    predicates = [tree(rng) for _ in range(cases(400, 2_000))]
    messages = [message(rng) for _ in range(cases(60, 300))]
    table = ExactTable.build(predicates, engine=engine)
    assert table.match_predicates(messages).to_lists() == [
        [i for i, p in enumerate(predicates) if matches(p, m)] for m in messages
    ]


@pytest.mark.parametrize("engine", ["counting", "pivot", "auto"])
def test_changes_agree(engine: str) -> None:
    """Adding and removing in any order gives what a fresh table gives."""
    rng = random.Random(6)
    for _ in range(cases(8, 100)):
        table = ExactTable(engine, rounds=3)
        live: dict[int, tuple] = {}
        for _ in range(rng.randint(3, 10)):
            new = [tree(rng) for _ in range(rng.choice((1, 2, 20)))]
            labels = [rng.randrange(3) * 100 for _ in new]
            for number, node, label in zip(table.add(new, labels), new, labels, strict=True):
                live[number] = (node, label)
            gone = rng.sample(sorted(live), min(len(live), rng.choice((0, 1, 5, 30))))
            table.remove(gone)
            for number in gone:
                del live[number]
            messages = [message(rng) for _ in range(3)]
            expected = [sorted(i for i, (p, _) in live.items() if matches(p, m)) for m in messages]
            assert table.match_predicates(messages).to_lists() == expected
            allowed = [0, 200]
            assert table.match(messages, allowed).to_lists() == [
                sorted({live[i][1] for i in row} & set(allowed)) for row in expected
            ]
        assert len(table) == len(live)


def test_arrow_agrees_with_mappings() -> None:
    """Columns of an Arrow table give the same batch as the rows; integers never pass through a double."""
    rng = random.Random(7)
    predicates = [tree(rng) for _ in range(200)]
    table = PivotTable.build(predicates)
    words = ["", "ab", "é", "日本a", "\U0001f600"]
    rows = [
        {
            "a": rng.choice([None, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]),
            "b": rng.choice([None, 0.5, 2.0**53, -0.0, 1e300]),
            "c": rng.choice([None, *words]),
            "d.e": rng.choice([None, True, False]),
            "été": rng.choice([None, *words]),
        }
        for _ in range(100)
    ]
    columns = pa.table(
        {
            "a": pa.chunked_array(
                [pa.array([r["a"] for r in rows[:40]], pa.int64()), pa.array([r["a"] for r in rows[40:]], pa.int64())]
            ),
            "b": pa.array([r["b"] for r in rows], pa.float64()),
            "c": pa.array([r["c"] for r in rows], pa.string()),
            "d.e": pa.array([r["d.e"] for r in rows], pa.bool_()),
            "été": pa.array([r["été"] for r in rows], pa.string()).dictionary_encode(),
        }
    )
    mappings = [{k: v for k, v in row.items() if v is not None} for row in rows]
    expected = [[i for i, p in enumerate(predicates) if matches(p, m)] for m in mappings]
    assert table.match_predicates(columns).to_lists() == expected
    assert table.match_predicates(columns.slice(30, 50)).to_lists() == expected[30:80]
    batch = MessageBatch.of(columns)
    assert table.match_predicates(batch.slice(10, 90)).to_lists() == expected[10:90]
    assert np.array_equal(batch.offsets, MessageBatch.of(mappings).offsets)
