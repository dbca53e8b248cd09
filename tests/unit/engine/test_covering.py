"""Covering and reduction, by example and against all pairs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from secroute.engine import advertise, covers, reduce
from secroute.errors import EngineError
from secroute.opaque import Words
from tests.cases import cases


def rows(*values: int) -> Words:
    return np.array(values, np.uint64).reshape(-1, 1)


def test_fewer_bits_cover_more() -> None:
    assert covers(rows(0b01)[0], rows(0b11)[0])
    assert not covers(rows(0b11)[0], rows(0b01)[0])
    assert covers(rows(5)[0], rows(5)[0])
    with pytest.raises(EngineError, match="do not compare"):
        covers(np.ones(1, np.uint64), np.ones(2, np.uint64))


def test_reduction_remembers_what_each_filter_covers() -> None:
    reduction = reduce(rows(0b111, 0b001, 0b011, 0b100, 0b100))
    assert reduction.kept.tolist() == [1, 3]
    assert reduction.covered_by[2] == 1
    assert reduction.covered_by[4] == 3
    assert [reduction.covers.row(i).tolist() for i in range(2)] in ([[0, 2], [4]], [[2], [0, 4]])


def test_advertising_says_what_is_new() -> None:
    assert advertise(rows(0b001, 0b110), rows(0b011, 0b010, 0b111)).tolist() == [False, True, False]
    assert advertise(np.zeros((0, 1), np.uint64), rows(1)).tolist() == [True]


def test_reduction_equals_all_pairs() -> None:
    for seed in range(cases(60, 1_000)):
        rng = np.random.default_rng(seed)
        filters = rng.integers(0, 2**8, (int(rng.integers(0, 80)), 2)).astype(np.uint64)
        reduction = reduce(filters)
        included = ~(filters[:, None, :] & ~filters[None, :, :]).any(axis=2)  # i covers j
        for row in range(len(filters)):
            others = np.flatnonzero(included[:, row])
            strictly = [i for i in others if not included[row, i] or i < row]
            assert (row in reduction.kept) == (not strictly)
            assert included[reduction.covered_by[row], row]
            assert reduction.covered_by[row] in reduction.kept


def test_reducing_many_filters_is_not_quadratic() -> None:
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 192, (100_000, 24))
    filters = np.zeros((100_000, 3), np.uint64)
    for column in range(24):
        set_bits = np.uint64(1) << (bits[:, column] & 63).astype(np.uint64)
        filters[np.arange(100_000), bits[:, column] >> 6] |= np.where(column < 8 + bits[:, 0] % 16, set_bits, 0)
    began = time.perf_counter()
    reduction = reduce(filters)
    assert time.perf_counter() - began < 60  # all pairs would be 10**10 comparisons
    assert len(reduction.kept) > 50_000
