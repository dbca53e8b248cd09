"""Random tables with many matches: filters are unions of few tokens, messages are unions of filters and more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from secroute.engine import Csr
from secroute.engine.types import Allowed, Ints
from secroute.opaque import Words


@dataclass(frozen=True)
class Case:
    """One random table and a batch for it."""

    filters: Words
    interfaces: Ints
    messages: Words
    allowed: Allowed
    rounds: int | None
    threads: int


def random_case(seed: int, rows_max: int = 400) -> Case:
    rng = np.random.default_rng(seed)
    words = int(rng.choice([1, 1, 2, 3, 3, 4, 8, 9, 32, 128]))
    tokens = _tokens(rng, words)
    rows = int(rng.integers(0, rows_max))
    filters = _unions(rng, tokens, rows, 1, 4)
    if rows and rng.random() < 0.3:  # duplicates, on one interface and on several
        filters = filters[rng.integers(0, rows, rows)]
    if rows and rng.random() < 0.2:
        filters[rng.integers(0, rows, 2)] = 0
    interfaces = rng.choice(rng.integers(0, 2**40, 64), rows) if rng.random() < 0.7 else np.arange(rows)
    count = int(rng.integers(0, 24))
    messages = _unions(rng, tokens, count, 0, 12)
    if rows and count:
        messages |= filters[rng.integers(0, rows, count)] * (rng.random((count, 1)) < 0.8).astype(np.uint64)
    rounds = [None, 0, 1, 5, 70][int(rng.integers(0, 5))]
    allowed = _allowed(rng, interfaces, count)
    return Case(filters, interfaces.astype(np.int64), messages, allowed, rounds, int(rng.integers(1, 4)))


def _tokens(rng: np.random.Generator, words: int) -> Words:
    count = int(rng.integers(3, 60))
    tokens = np.zeros((count, words), np.uint64)
    for _ in range(int(rng.integers(1, 6))):
        bit = rng.integers(0, words * 64, count)
        tokens[np.arange(count), bit >> 6] |= np.uint64(1) << (bit & 63).astype(np.uint64)
    return tokens


def _unions(rng: np.random.Generator, tokens: Words, rows: int, least: int, most: int) -> Words:
    out = np.zeros((rows, tokens.shape[1]), np.uint64)
    sizes = rng.integers(least, most + 1, rows)
    for step in range(most):
        picked = tokens[np.minimum(rng.geometric(0.08, rows) - 1, len(tokens) - 1)]
        out |= picked * (step < sizes)[:, None].astype(np.uint64)
    return out


def _allowed(rng: np.random.Generator, interfaces: Ints, count: int) -> Allowed:
    known = np.unique(np.append(interfaces, [5, 6]))
    kind = int(rng.integers(0, 5))
    if kind == 0:
        return None
    if kind == 1:
        return rng.choice(known, int(rng.integers(0, len(known) + 1)), replace=False).tolist()
    if kind == 2 and known.max() < 1_000:
        return rng.random(int(known.max()) + 1) < 0.5
    if kind == 3 and known.max() < 1_000:
        return rng.random((count, int(known.max()) + 1)) < 0.5
    sizes = rng.integers(0, 6, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Csr(offsets, rng.choice(known, int(offsets[-1])).astype(np.int64))
