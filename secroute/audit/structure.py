"""What encoded filters and messages show by their structure alone: equal rows, covering edges, match volumes.

TRUSTED side, pure. Measures (1), (8) and (9); each beside what plain text would show.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from secroute.audit.attacks import included
from secroute.audit.figures import Figure
from secroute.audit.intervals import spearman, wilson
from secroute.opaque import Words


def _classes(rows: Sequence[Hashable]) -> tuple[int, int, float]:
    """Number of classes, size of the largest, and share of equal pairs."""
    sizes = np.array(list(Counter(rows).values()), np.float64)
    n = sizes.sum()
    return len(sizes), int(sizes.max()), float((sizes * (sizes - 1)).sum() / max(1.0, n * (n - 1)))


def equality(bits: Words, plain: Sequence[str]) -> list[Figure]:
    """(1) Equal messages look equal: distinct share, largest class, min-entropy, and equal pairs that are visible."""
    return equality_figures(len(bits), _classes([row.tobytes() for row in bits]), _classes(plain))


def equality_figures(n: int, shown: tuple[int, int, float], plain: tuple[int, int, float]) -> list[Figure]:
    """The same from (number of classes, size of the largest, share of equal pairs), as bits and as plain text."""
    distinct, largest, pairs = shown
    plain_distinct, plain_largest, plain_pairs = plain
    low, high = wilson(distinct, n)
    share = largest / n
    span = wilson(largest, n)
    return [
        Figure("distinct_share", distinct / n, low, high, 1.0, plain_distinct / n, samples=n),
        Figure("largest_class", share, *span, 1 / n, plain_largest / n, samples=n),
        Figure(
            "min_entropy",
            -math.log2(share),
            -math.log2(span[1]),
            -math.log2(max(span[0], 1e-12)),
            math.log2(n),
            -math.log2(plain_largest / n),
            unit="bits",
            samples=n,
        ),
        Figure("equal_pairs", pairs, *wilson(pairs * n * (n - 1) / 2, n * (n - 1) / 2), 0.0, plain_pairs, samples=n),
    ]


def covering(filters: Words, wide: Words) -> list[Figure]:
    """(8) Covering edges a router sees between filters: those that tokens imply, and those that only bits suggest.

    ``wide`` are the same filters in so many bits that inclusion of bits is inclusion of tokens.
    """
    shown = included(filters, filters)
    true = included(wide, wide)
    np.fill_diagonal(shown, False)
    np.fill_diagonal(true, False)
    pairs = len(filters) * (len(filters) - 1)
    real, accidental = int((shown & true).sum()), int((shown & ~true).sum())
    ceiling = int(true.sum()) / max(1, pairs)
    return [
        Figure("covering_edges_true", real / max(1, pairs), *wilson(real, pairs), 0.0, ceiling, samples=pairs),
        Figure(
            "covering_edges_accidental", accidental / max(1, pairs), *wilson(accidental, pairs), 0.0, 1.0, samples=pairs
        ),
    ]


def volumes(filters: Words, bits: Words, exact: npt.NDArray[np.int64]) -> list[Figure]:
    """(9) How well a subscription's match volume shows its true one, and how many are alone with theirs."""
    seen = included(filters, bits).sum(axis=1)
    count = len(seen)
    rank = spearman(seen.tolist(), exact.tolist())
    spread = 1.96 / math.sqrt(max(4, count - 3))
    alone = sum(1 for size in Counter(seen.tolist()).values() if size == 1)
    plain = sum(1 for size in Counter(exact.tolist()).values() if size == 1)
    return [
        Figure("volume_correlation", rank, max(-1.0, rank - spread), min(1.0, rank + spread), 0.0, 1.0, samples=count),
        Figure("volume_unique", alone / count, *wilson(alone, count), 0.0, max(plain, alone) / count, samples=count),
    ]
