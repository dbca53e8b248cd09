"""The live table's promises one by one, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from secroute.engine import LiveTable
from secroute.errors import EmptyFilterError, EngineError, OpaqueError
from secroute.opaque import Words


def rows(*values: int) -> Words:
    return np.array(values, np.uint64).reshape(-1, 1)


@pytest.fixture(params=["auto", "reference", "scan", "counting", "tree"])
def table(request: pytest.FixtureRequest) -> LiveTable:
    return LiveTable(1, engine=request.param, buffer_rows=8)


def matched(table: LiveTable, message: int) -> list[int]:
    return table.forward(rows(message)).values.tolist()


def test_an_added_filter_matches_at_once_and_a_removed_one_never_again(table: LiveTable) -> None:
    table.add(7, rows(1, 6))
    assert matched(table, 1) == [7]
    assert matched(table, 8) == []
    table.merge()
    assert matched(table, 7) == [7]
    table.remove(7, rows(1))
    assert matched(table, 1) == []
    assert matched(table, 6) == [7]


def test_a_filter_added_twice_must_be_removed_twice(table: LiveTable) -> None:
    table.add(1, rows(4, 4))
    table.remove(1, rows(4))
    table.merge()
    assert matched(table, 4) == [1]
    table.remove(1, rows(4))
    assert matched(table, 4) == []
    with pytest.raises(EngineError, match="does not have filter 0"):
        table.remove(1, rows(4))


def test_removing_is_all_or_nothing(table: LiveTable) -> None:
    table.add(1, rows(1, 2))
    with pytest.raises(EngineError, match="filter 1 of those to remove"):
        table.remove(1, rows(1, 16))
    assert matched(table, 1) == [1]


def test_an_interface_goes_as_a_whole(table: LiveTable) -> None:
    table.add(1, rows(*range(1, 60)))
    table.add(2, rows(1))
    table.merge()
    table.add(1, rows(64))
    table.remove_interface(1)
    assert matched(table, 127) == [2]
    with pytest.raises(EngineError, match="interface 1 has no filters"):
        table.remove_interface(1)


def test_matches_by_value_say_filter_and_interface(table: LiveTable) -> None:
    table.add(3, rows(1, 2))
    table.merge()
    table.add(4, rows(1))
    found = table.match_filters(rows(3, 4))
    assert found.offsets.tolist() == [0, 3, 3]
    assert sorted(zip(found.interfaces.tolist(), found.filters[:, 0].tolist(), strict=True)) == [(3, 1), (3, 2), (4, 1)]


def test_bulk_additions_and_background_merges_keep_every_filter() -> None:
    table = LiveTable(1)
    for interface in range(4):
        table.add(interface, np.arange(1, 3_001, dtype=np.uint64).reshape(-1, 1))
    assert matched(table, 2**12 - 1) == [0, 1, 2, 3]
    table.merge()
    stats = table.stats()
    assert (stats.filters, stats.interfaces, stats.segments, stats.buffered) == (12_000, 4, 1, 0)
    assert stats.bytes_per_filter > 0
    table.close()


def test_what_the_broadcast_layer_forbids_is_not_answered(table: LiveTable) -> None:
    table.add(1, rows(1))
    table.merge()
    table.add(2, rows(1))
    assert table.forward(rows(1), [2, 99]).values.tolist() == [2]


def test_a_closed_table_answers_but_does_not_change(table: LiveTable) -> None:
    table.add(1, rows(1))
    table.close()
    assert matched(table, 1) == [1]
    with pytest.raises(EngineError, match="closed"):
        table.add(1, rows(2))


def test_bad_input_is_refused() -> None:
    table = LiveTable(2)
    with pytest.raises(EngineError, match="1 words wide, the table has 2"):
        table.add(1, rows(1))
    with pytest.raises(OpaqueError, match="little-endian uint64"):
        table.add(1, np.ones((1, 2), np.int64))  # type: ignore[arg-type]
    with pytest.raises(EmptyFilterError, match="row 0 has no bits"):
        table.add(1, np.zeros((1, 2), np.uint64))
    with pytest.raises(EngineError, match="ids are integers from 0"):
        table.add(-1, np.ones((1, 2), np.uint64))
    for wrong in ({"words": 0}, {"words": 129}, {"words": 1, "engine": "fast"}, {"words": 1, "buffer_rows": 7}):
        with pytest.raises(EngineError):
            LiveTable(**wrong)  # type: ignore[arg-type]
