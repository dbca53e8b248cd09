"""Confidence intervals and small statistics, without a statistics package. TRUSTED side, pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Z95 = 1.959963984540054


def wilson(hits: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a proportion; (0, 1) without trials."""
    if trials <= 0:
        return 0.0, 1.0
    share = hits / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(max(0.0, share * (1 - share) / trials + z * z / (4 * trials * trials)))
    scale = 1 + z * z / trials
    low = 0.0 if hits <= 0 else max(0.0, (centre - spread) / scale)
    return low, 1.0 if hits >= trials else min(1.0, (centre + spread) / scale)


def ratio_interval(count: int, total: float, squares: float, per_unit: float, z: float = Z95) -> tuple[float, float]:
    """Interval of ``total / (count * per_unit)`` where ``count`` units (messages) are independent, pairs are not.

    ``squares`` is the sum of each unit's squared contribution: pairs of one message rise and fall together, and an
    interval that took them for independent would be far too narrow.
    """
    if count < 2 or per_unit <= 0:
        return 0.0, 1.0
    mean = total / count
    deviation = math.sqrt(max(0.0, (squares - count * mean * mean) / (count - 1)) / count)
    # The Wilson floor keeps a sane upper end when nothing was seen.
    upper = max(mean + z * deviation, wilson(total, count * per_unit, z)[1] * per_unit)
    return max(0.0, mean - z * deviation) / per_unit, min(1.0, upper / per_unit)


def crossed_interval(
    per_message: npt.NDArray[np.float64], per_predicate: npt.NDArray[np.float64], trials: float, z: float = Z95
) -> tuple[float, float]:
    """Interval of a share of pairs where messages *and* predicates are samples: both spreads count.

    The arguments are the hits of each message and of each predicate; ``trials`` is how many pairs could be hits.
    """
    total = float(per_message.sum())
    if trials <= 0 or len(per_message) < 2 or len(per_predicate) < 2:
        return 0.0, 1.0
    spread = z * math.sqrt(sum(float(hits.var(ddof=1)) * len(hits) for hits in (per_message, per_predicate))) / trials
    low, high = wilson(total, trials, z)
    return max(0.0, min(low, total / trials - spread)), min(1.0, max(high, total / trials + spread))


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Rank correlation with ties averaged; 0 where either side is constant."""

    def ranks(values: Sequence[float]) -> np.ndarray:
        _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        return np.asarray((ends - (counts - 1) / 2.0)[inverse])

    a, b = ranks(left), ranks(right)
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
