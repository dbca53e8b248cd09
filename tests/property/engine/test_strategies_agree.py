"""Every strategy gives the answers of ``reference``, on tables of every shape."""

from __future__ import annotations

import numpy as np
import pytest

from secroute.engine import ENGINES, Csr, ForwardingTable
from secroute.engine.grouping import gather, group_filters
from secroute.engine.types import Allowed
from secroute.opaque import Words
from tests.cases import cases
from tests.property.engine.tables import Case, random_case

COMPILED = [name for name in ENGINES if name not in ("auto", "reference")]
PARTS = 10


def equal(left: Csr, right: Csr) -> bool:
    return np.array_equal(left.offsets, right.offsets) and np.array_equal(left.values, right.values)


def brute_force(case: Case) -> tuple[list[list[int]], list[list[int]]]:
    """Matching filters and interfaces in plain Python, straight from the definition."""
    filters = [int.from_bytes(row.tobytes(), "little") for row in case.filters]
    rows, ids = [], []
    for number, message in enumerate(int.from_bytes(row.tobytes(), "little") for row in case.messages):
        matched = [i for i, bits in enumerate(filters) if bits & message == bits]
        rows.append(matched)
        ids.append(sorted({int(case.interfaces[i]) for i in matched if _is_allowed(case.allowed, number, i, case)}))
    return rows, ids


def _is_allowed(allowed: Allowed, number: int, row: int, case: Case) -> bool:
    interface = int(case.interfaces[row])
    if allowed is None:
        return True
    if isinstance(allowed, Csr):
        return interface in allowed.row(number).tolist()
    if isinstance(allowed, np.ndarray) and allowed.dtype == np.bool_:
        mask = allowed if allowed.ndim == 1 else allowed[number]
        return interface < len(mask) and bool(mask[interface])
    return interface in list(allowed)


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("part", range(PARTS))
def test_all_strategies_equal_the_reference(part: int) -> None:
    matched = 0
    for seed in range(part, cases(400, 10_000), PARTS):
        case = random_case(seed)
        built = {
            name: ForwardingTable.build(
                case.filters, case.interfaces, engine=name, rounds=case.rounds, match_all=True
            )
            for name in ("reference", *COMPILED)
        }  # fmt: skip
        interfaces = built["reference"].forward(case.messages, case.allowed)
        filters = built["reference"].match_filters(case.messages)
        matched += len(filters.values)
        for name in COMPILED:
            found = built[name].forward(case.messages, case.allowed, threads=case.threads)
            assert equal(found, interfaces), (seed, name)
            assert equal(built[name].match_filters(case.messages, threads=case.threads), filters), (seed, name)
    assert matched > 1_000


@pytest.mark.parametrize("seed", range(40))
def test_the_reference_equals_the_definition(seed: int) -> None:
    case = random_case(seed)
    table = ForwardingTable.build(
        case.filters, case.interfaces, engine="reference", rounds=case.rounds, match_all=True
    )  # fmt: skip
    rows, ids = brute_force(case)
    assert [table.match_filters(case.messages).row(i).tolist() for i in range(len(rows))] == rows
    assert [table.forward(case.messages, case.allowed).row(i).tolist() for i in range(len(ids))] == ids


@pytest.mark.parametrize("engine", COMPILED)
def test_rows_without_references_never_match(engine: str) -> None:
    for seed in range(cases(30, 300)):
        case = random_case(seed)
        distinct, first = np.unique(case.filters, axis=0, return_index=True)
        if not len(first):
            continue
        owners = case.interfaces[first]
        live = np.random.default_rng(seed).integers(0, 2, len(first)).astype(np.int32)
        table = ForwardingTable.build(distinct, owners, engine=engine, match_all=True, distinct=True)
        fewer = ForwardingTable.build(
            np.ascontiguousarray(distinct[live > 0]), owners[live > 0], engine="reference", match_all=True
        )  # fmt: skip
        assert equal(table.forward(case.messages, live=live), fewer.forward(case.messages))
        alive = np.flatnonzero(live)
        found = table.match_filters(case.messages, live=live)
        assert np.array_equal(found.values, alive[fewer.match_filters(case.messages).values])


@pytest.mark.parametrize("engine", COMPILED)
def test_a_limit_gives_so_many_true_matches(engine: str) -> None:
    for seed in range(cases(30, 300)):
        case = random_case(seed)
        every = ForwardingTable.build(case.filters, case.interfaces, engine="reference", match_all=True)
        full = every.match_filters(case.messages)
        table = ForwardingTable.build(case.filters, np.arange(len(case.filters)), engine=engine, match_all=True)
        found = table.match_filters(case.messages, limit=2)
        for message in range(len(case.messages)):
            assert len(found.row(message)) == min(2, len(full.row(message)))
            assert np.isin(found.row(message), full.row(message)).all()


def tagged(rng: np.random.Generator, rows: int, words: int, vocabulary: int) -> tuple[Words, Words]:
    """Filters of 3-5 tags of seven bits and messages of some of them and more: large enough to be mined."""
    tags = np.zeros((vocabulary, words), np.uint64)
    for _ in range(7):
        bit = rng.integers(0, words * 64, vocabulary)
        tags[np.arange(vocabulary), bit >> 6] |= np.uint64(1) << (bit & 63).astype(np.uint64)
    picks = np.minimum(rng.geometric(0.002, (rows, 5)), vocabulary - 1)
    filters = np.bitwise_or.reduce(tags[picks[:, : 3 + rows % 3]], axis=1)
    chosen = rng.integers(0, rows, (60, 2))
    return filters, filters[chosen[:, 0]] | filters[chosen[:, 1]]


@pytest.mark.parametrize("words", [1, 3, 8, 16])
def test_large_tables_agree(words: int) -> None:
    rng = np.random.default_rng(words)
    filters, messages = tagged(rng, 24_000, words, 3_000)
    interfaces = rng.integers(0, 50, len(filters))
    scan = ForwardingTable.build(filters, interfaces, engine="scan")
    for sample in (None, messages.repeat(2, axis=0)):
        tree = ForwardingTable.build(filters, interfaces, engine="tree", messages=sample)
        assert equal(tree.match_filters(messages), scan.match_filters(messages))
        assert equal(tree.forward(messages, [1, 2, 3]), scan.forward(messages, [1, 2, 3]))


@pytest.mark.parametrize("words", [1, 3, 16])
def test_grouping_keeps_every_row_once(words: int) -> None:
    filters, _ = tagged(np.random.default_rng(words), 20_000, words, 2_000)
    for order, ends in (group_filters(filters, None)[:2], gather(filters, np.ones(words * 64), 8, 8)):
        assert np.array_equal(np.sort(order), np.arange(len(filters)))
        assert ends[0] == 0
        assert ends[-1] == len(filters)
        assert (np.diff(ends) > 0).all()


def test_equal_filters_on_many_interfaces_are_one_group() -> None:
    filters = np.full((40_000, 3), 7, np.uint64)
    table = ForwardingTable.build(filters, np.arange(40_000), engine="tree")
    assert len(table.forward(np.full((1, 3), 15, np.uint64)).values) == 40_000
    assert len(table.forward(np.full((1, 3), 8, np.uint64)).values) == 0
