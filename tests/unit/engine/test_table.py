"""The forwarding table by small examples: the paper's function, determinants, duplicates, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import secroute.engine.strategies as strategies
from secroute.engine import ENGINES, Csr, ForwardingTable, warm_up
from secroute.engine.determinants import determinants, selectivity
from secroute.errors import EmptyFilterError, EngineError, OpaqueError
from secroute.opaque import Words


def rows(*values: int) -> Words:
    return np.array(values, np.uint64).reshape(-1, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interface_is_output_if_one_of_its_filters_is_included(engine: str) -> None:
    table = ForwardingTable.build(rows(0b0011, 0b1100, 0b0110), [9, 9, 4], engine=engine)
    found = table.forward(rows(0b0111, 0b1000, 0b1110))
    assert [found.row(i).tolist() for i in range(3)] == [[4, 9], [], [4, 9]]
    assert table.forward(rows(0b0111), [4]).values.tolist() == [4]
    assert table.match_filters(rows(0b0111)).values.tolist() == [0, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_identical_filters_are_stored_once_and_all_reported(engine: str) -> None:
    table = ForwardingTable.build(rows(3, 3, 3, 5), [1, 1, 2, 1], engine=engine)
    assert len(table) == 3
    assert table.match_filters(rows(3)).values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("engine", ENGINES)
def test_empty_tables_and_batches(engine: str) -> None:
    none = np.zeros((0, 2), np.uint64)
    empty = ForwardingTable.build(none, [], engine=engine)
    assert empty.forward(np.ones((3, 2), np.uint64)).offsets.tolist() == [0, 0, 0, 0]
    assert empty.match_filters(none).offsets.tolist() == [0]
    table = ForwardingTable.build(np.ones((2, 2), np.uint64), [1, 2], engine=engine)
    assert table.forward(none).offsets.tolist() == [0]
    assert table.forward(np.ones((1, 2), np.uint64), []).values.tolist() == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_filter_without_bits_needs_a_flag_and_matches_everything(engine: str) -> None:
    with pytest.raises(EmptyFilterError, match="row 1 has no bits"):
        ForwardingTable.build(rows(1, 0), [1, 2], engine=engine)
    table = ForwardingTable.build(rows(1, 0), [1, 2], engine=engine, match_all=True)
    assert table.forward(rows(0)).values.tolist() == [2]


def test_determinants_come_by_how_many_interfaces_they_exclude() -> None:
    filters = rows(0b0111, 0b0101, 0b1100, 0b0110)
    masks = determinants(filters, np.array([0, 0, 1, 2], np.int32), 3)
    assert masks[:, 0].tolist() == [0b0101, 0b1100, 0b0110]
    table = selectivity(masks, 10)
    assert table.bits.tolist() == [2, 0, 1, 3]
    assert table.ids[: table.starts[1]].tolist() == [0, 1, 2]
    assert len(table.first(1).bits) == 1


@pytest.mark.parametrize(
    ("bits", "error", "text"),
    [
        (np.ones((1, 2), np.int64), OpaqueError, "little-endian uint64"),
        (np.ones((1, 2), ">u8"), OpaqueError, "little-endian uint64"),
        (np.ones((2, 4), np.uint64)[:, ::2], OpaqueError, "C-contiguous"),
        (np.ones(2, np.uint64), OpaqueError, "two dimensions"),
        (np.ones((1, 3), np.uint64), EngineError, "3 words wide, the table has 2"),
        ([[1, 2]], OpaqueError, "numpy array"),
        (np.ones((1, 129), np.uint64), OpaqueError, "1..128 words"),
    ],
)
def test_messages_of_a_wrong_layout_are_refused(bits: object, error: type[Exception], text: str) -> None:
    for engine in ("reference", "scan", "tree"):
        table = ForwardingTable.build(np.ones((1, 2), np.uint64), [1], engine=engine)
        for ask in (table.forward, table.match_filters):
            with pytest.raises(error, match=text):
                ask(bits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("interfaces", "text"),
    [([1], "1 interfaces for 2 filters"), ([1, -1], "from 0"), ([1.5, 2], "integers"), ([[1, 2]], "one dimension")],
)
def test_interfaces_of_a_wrong_kind_are_refused(interfaces: object, text: str) -> None:
    with pytest.raises(EngineError, match=text):
        ForwardingTable.build(rows(1, 2), interfaces)  # type: ignore[arg-type]


def test_other_wrong_arguments_are_refused() -> None:
    with pytest.raises(EngineError, match="no engine 'fast'; there are auto, "):
        ForwardingTable.build(rows(1), [1], engine="fast")
    with pytest.raises(EngineError, match="rounds must be an integer from 0"):
        ForwardingTable.build(rows(1), [1], rounds=-1)
    table = ForwardingTable.build(rows(1), [1])
    for wrong, text in (
        ({"threads": 0}, "threads must be 1"),
        ({"allowed": np.ones((2, 3), bool)}, "2 rows for 1 messages"),
        ({"allowed": Csr(np.array([0, 2]), np.array([1]))}, "offsets of allowed"),
        ({"allowed": [0.5]}, "integers"),
        ({"live": np.ones(2, np.int32)}, "live must be int32"),
    ):
        with pytest.raises(EngineError, match=text):
            table.forward(rows(1), **wrong)  # type: ignore[arg-type]
    with pytest.raises(EngineError, match="limit must be at least 1"):
        table.match_filters(rows(1), limit=0)


def test_unknown_interfaces_in_allowed_have_nothing_to_match() -> None:
    table = ForwardingTable.build(rows(1), [1])
    assert table.forward(rows(1), [0, 1, 77]).values.tolist() == [1]
    assert table.forward(rows(1), np.array([True, False])).values.tolist() == []


def test_threads_split_a_batch_and_change_nothing() -> None:
    rng = np.random.default_rng(3)
    filters = rng.integers(1, 2**12, (500, 1)).astype(np.uint64)
    messages = rng.integers(0, 2**12, (101, 1)).astype(np.uint64)
    table = ForwardingTable.build(filters, np.arange(500) % 7, engine="tree")
    one, many = table.forward(messages), table.forward(messages, threads=3)
    assert np.array_equal(one.offsets, many.offsets)
    assert np.array_equal(one.values, many.values)


def test_auto_scans_small_tables_and_grows_a_tree_over_large_ones() -> None:
    assert ForwardingTable.build(rows(1), [1]).engine == "scan"
    large = np.arange(1, 3_001, dtype=np.uint64).reshape(-1, 1)
    assert ForwardingTable.build(large, np.zeros(3_000, int)).engine == "tree"


def test_the_tree_stays_within_its_memory() -> None:
    rng = np.random.default_rng(1)
    for words, most in ((3, 64), (8, 110)):
        filters = rng.integers(1, 2**63, (30_000, words)).astype(np.uint64)
        filters &= rng.integers(1, 2**63, (30_000, words)).astype(np.uint64)
        table = ForwardingTable.build(filters, np.arange(30_000) % 64, engine="tree")
        assert table.bytes_per_filter < most


def test_without_a_compiler_only_the_reference_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "secroute.engine.scan", None)
    with pytest.raises(EngineError, match="--engine reference"):
        strategies.require_compiler()
    with pytest.raises(EngineError, match="--engine reference"):
        warm_up()
    assert warm_up("reference") >= 0
    assert ForwardingTable.build(rows(1), [1], engine="reference").forward(rows(1)).values.tolist() == [1]


def test_warming_up_reports_its_time() -> None:
    assert 0 < warm_up() < 120


@pytest.mark.parametrize("interfaces", [1, 64, 65, 3_000])
@pytest.mark.parametrize("words", [3, 9])
@pytest.mark.parametrize("engine", ["scan", "scan-rows", "counting", "tree"])
def test_a_message_with_every_bit_matches_every_filter_once(engine: str, words: int, interfaces: int) -> None:
    """Padding has all bits set too, and the answers are many more than an answer array begins with."""
    filters = sparse_rows(3_001, words)
    owners = np.arange(len(filters)) % interfaces
    table = ForwardingTable.build(filters, owners, engine=engine)
    full = np.full((5, words), 2**64 - 1, np.uint64)
    copies = [table.match_filters(full).row(number).tolist() for number in range(5)]
    assert copies == [list(range(len(filters)))] * 5
    for allowed, expected in ((None, list(range(interfaces))), ([0], [0])):
        found = table.forward(full, allowed)
        assert [found.row(number).tolist() for number in range(5)] == [expected] * 5


def sparse_rows(count: int, words: int) -> Words:
    """Distinct filters of few bits, so that wide ones are kept by positions."""
    rng = np.random.default_rng(words)
    filters = np.zeros((count, words), np.uint64)
    filters[:, 0] = np.arange(1, count + 1)
    for _ in range(3):
        bits = rng.integers(64, words * 64, count)
        filters[np.arange(count), bits >> 6] |= np.uint64(1) << (bits & 63).astype(np.uint64)
    return filters
