"""Planes of bits find what the reference engine finds."""

from __future__ import annotations

import numpy as np
import pytest

from secroute.audit import vertical
from secroute.audit.vertical import VerticalTable
from secroute.engine.table import ForwardingTable
from tests.cases import cases


def random_bits(draw: np.random.Generator, rows: int, words: int, fill: float) -> np.ndarray:
    flags = draw.random((rows, words * 64)) < fill
    return np.packbits(flags, axis=1, bitorder="little").view("<u8")


def pairs(found) -> list[tuple[int, int]]:
    messages = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
    return sorted(zip(messages.tolist(), found.values.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(cases(8, 200)))
def test_the_same_as_the_reference(seed, monkeypatch):
    draw = np.random.default_rng(seed)
    words = int(draw.integers(1, 5))
    filters = random_bits(draw, int(draw.integers(1, 300)), words, float(draw.choice((0.01, 0.03, 0.1))))
    filters = np.concatenate([filters, filters[: len(filters) // 3], np.zeros((1, words), np.uint64)])
    messages = random_bits(draw, int(draw.integers(1, 200)), words, float(draw.choice((0.2, 0.5, 0.9))))
    # Whatever the sizes of blocks and chunks, nothing falls between them.
    monkeypatch.setattr(vertical, "BLOCK_MESSAGES_MIN", int(draw.choice((1, 63, 64, 100, 4096))))
    monkeypatch.setattr(vertical, "_CHUNK_ROWS", int(draw.choice((1, 7, 16_384))))
    reference = ForwardingTable.build(
        filters, np.zeros(len(filters), np.int64), engine="reference", rounds=0, match_all=True
    )
    assert pairs(VerticalTable(filters).match_filters(messages)) == pairs(reference.match_filters(messages))


def test_nothing_on_either_side():
    some, none = np.ones((3, 2), np.uint64), np.zeros((0, 2), np.uint64)
    assert pairs(VerticalTable(none).match_filters(some)) == []
    assert pairs(VerticalTable(some).match_filters(none)) == []
