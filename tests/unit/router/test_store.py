"""The store: what was committed is there, what was refused is not, and damage is never taken for data."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from secroute.errors import StoreError, StoreFullError
from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.router.durable_queue import Cursor
from secroute.router.gather import gather_bytes, gather_reference, use_compiled
from secroute.router.parcels import Kind, Routes, concatenate, endpoint_of, parcels, take
from secroute.router.store import Store, Unit
from secroute.router.stored import (
    BatchRow,
    DurableRow,
    GapRow,
    Route,
    decode_cursor,
    decode_routes,
    encode_cursor,
    encode_routes,
)
from secroute.wire.frames import GapReason

SCOPE = Scope(b"\x01" * 16, 3, b"\x02" * 32)


def batch(count: int, size: int = 10, seed: int = 0) -> EncodedBatch:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**63, (count, 2), dtype=np.uint64)
    return EncodedBatch.of(SCOPE, bits, [rng.bytes(16) for _ in range(count)], [rng.bytes(size) for _ in range(count)])


def durable(number: int = 1) -> DurableRow:
    filters = (EncodedFilters(SCOPE, np.array([[1, 2], [3, 4]], np.uint64)),)
    return DurableRow(number, "desk", bytes([number]) * 16, SCOPE.space, False, 1_000, 5, filters)


def row(seq: int, count: int = 3, size: int = 10) -> BatchRow:
    route = Route(1, seq * 100, False, np.arange(count, dtype=np.int32), 99)
    return BatchRow(seq, batch(count, size, seq), [route], b"\x07" * 8 * count, [])


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(path)
    assert store.begin_life()
    store.put_durable(durable())
    cursor = Cursor(9, 8, ((1, 2),), ((5, 1),), ((5, 3),))
    gap = GapRow(4, 1, GapReason.SPOOL_FULL, SCOPE.space, 3, 17, 1, 2)
    store.commit(Unit([row(1), row(2)], [(1, 1_000, b"k" * 64)], cursors={1: cursor}, gaps=[gap]))
    store.put_pin(SCOPE, 2)
    name = store.router_id()
    store.close(clean=False)

    store = Store(path)
    assert not store.begin_life()  # the last life did not end well
    assert store.router_id() == name
    (found,) = store.durables()
    assert (found.owner, found.cursor, found.gaps) == ("desk", cursor, (gap,))
    assert found.filters[0].scope == SCOPE
    assert found.filters[0].bits.tolist() == [[1, 2], [3, 4]]
    assert [(seq, routes[0].first, expires) for seq, _, routes, expires in store.batches()] == [
        (1, 100, b"\x07" * 24), (2, 200, b"\x07" * 24),
    ]  # fmt: skip
    assert store.load([2])[2].payload(1) == row(2).batch.payload(1)
    assert list(store.seen(0)) == [(1, 1_000, b"k" * 64)]
    assert store.pins() == [(SCOPE, 2)]
    store.commit(Unit(finished=[1], gaps_noted=[4]))
    store.drop_durable(1)
    assert [seq for seq, *_ in store.batches()] == [2]
    assert store.durables() == []
    store.close()
    assert Store(path).begin_life()


def test_a_full_store_takes_nothing_of_a_unit_and_acks_make_room(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db", bytes_max=2 * 1_048_576)

    def fill() -> int:
        for seq in range(1, 100):
            try:
                store.commit(Unit([row(seq, 3, 40_000)], [(seq, 0, b"k" * 32)]))
            except StoreFullError as error:
                assert "nothing of it was taken" in str(error)  # noqa: PT017
                return seq
        raise AssertionError("never full")

    seq = fill()
    assert [found for found, *_ in store.batches()] == list(range(1, seq))
    assert len(list(store.seen(0))) == seq - 1
    store.commit(Unit(finished=list(range(1, seq))))
    store.commit(Unit([row(seq, 3, 40_000)]))


def test_one_process_at_a_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    with pytest.raises(StoreError, match="in use"):
        Store(tmp_path / "store.db")
    store.close()
    Store(tmp_path / "store.db").close()


def test_another_format_is_refused(tmp_path: Path) -> None:
    Store(tmp_path / "store.db").close()
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="format 99"):
        Store(tmp_path / "store.db")


@pytest.mark.parametrize(
    ("table", "column", "read"),
    [
        ("filters", "bits", Store.durables),
        ("filters", "profile", Store.durables),
        ("cursor", "state", Store.durables),
        ("batch", "routes", lambda store: list(store.batches())),
        ("batch", "expires", lambda store: list(store.batches())),
        ("batch", "columns", lambda store: store.load([1])),
        ("seen", "keys", lambda store: list(store.seen(0))),
    ],
)
def test_a_single_flipped_bit_is_found(tmp_path: Path, table: str, column: str, read: object) -> None:
    path = tmp_path / "store.db"
    store = Store(path)
    store.put_durable(durable())
    store.commit(Unit([row(1)], [(1, 1_000, b"k" * 64)], cursors={1: Cursor(9, 8)}))
    store.close()
    with sqlite3.connect(path) as db:
        (blob,) = db.execute(f"SELECT {column} FROM {table}").fetchone()  # noqa: S608 - our own names
        db.execute(f"UPDATE {table} SET {column} = ?", (blob[:-1] + bytes([blob[-1] ^ 1]),))  # noqa: S608
    db.close()
    store = Store(path)
    with pytest.raises(StoreError, match="damaged"):
        read(store)  # type: ignore[operator]
    store.close()


RUNS = st.lists(st.tuples(st.integers(1, 2**40), st.integers(1, 2**20)), max_size=5).map(tuple)


@given(st.builds(Cursor, st.integers(1, 2**40), st.integers(0, 2**40), RUNS, RUNS, RUNS))
def test_cursors_survive(cursor: Cursor) -> None:
    assert decode_cursor(encode_cursor(cursor)) == cursor


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 2**40), st.booleans(), st.lists(st.integers(0, 2**30)))))
def test_routes_survive(made: list[tuple[int, int, bool, list[int]]]) -> None:
    routes = [Route(a, b, c, np.array(rows, np.int32), len(rows)) for a, b, c, rows in made]
    again = decode_routes(encode_routes(routes))
    assert [(r.durable, r.first, r.spooled, r.rows.tolist(), r.nbytes) for r in again] == [
        (r.durable, r.first, r.spooled, r.rows.tolist(), r.nbytes) for r in routes
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40), st.integers(0, 2**32))
def test_every_endpoint_gets_its_rows_in_order(pairs: list[tuple[int, int]], seed: int) -> None:
    use_compiled()
    pairs = sorted(set(pairs))
    source = concatenate([batch(4, 5, seed), batch(6, 9, seed + 1)])
    rows = np.array([row_ for row_, _ in pairs], np.int64)
    endpoints = np.array([endpoint_of(Kind(number % 2), number) for _, number in pairs], np.int64)
    routes = Routes.of(rows, endpoints)
    got = {
        endpoint: [bytes(each) for each in parcel.own().source.ids]
        for endpoint, parcel in parcels(source, routes.of_kind(Kind.SESSION), None)
    }
    wanted: dict[int, list[bytes]] = {}
    for row_, number in pairs:
        if number % 2 == 0:
            wanted.setdefault(endpoint_of(Kind.SESSION, number), []).append(bytes(source.ids[row_]))
    assert got == wanted
    assert all(take(source, rows).payload(n) == source.payload(int(rows[n])) for n in range(len(rows)))


@given(st.binary(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
def test_gather_is_its_reference(data: bytes, spans: list[tuple[int, int]]) -> None:
    use_compiled()
    spans = [(low, high) for low, high in spans if low <= high <= len(data)]
    source = np.frombuffer(data, np.uint8)
    starts = np.array([low for low, _ in spans], np.int64)
    offsets = np.concatenate(([0], np.cumsum([high - low for low, high in spans]))).astype(np.int64)
    wanted = b"".join(data[low:high] for low, high in spans)
    assert gather_bytes(source, starts, offsets).tobytes() == wanted
    assert gather_reference(source, starts, offsets).tobytes() == wanted
