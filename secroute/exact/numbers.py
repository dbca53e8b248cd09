"""Exact order of numbers: ints and floats on one line, compared without rounding.

TRUSTED, pure. A number is the pair (whole part as int64, rest as float), compared part by part; the rest of a float is
exact because its bits are a subset of the float's. A float outside int64 is (INT_MIN or INT_MAX, itself). So 2**53 + 1
and 2.0**53 stay apart, and engines compare only *ranks* among the sorted constants of a table.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.errors import InputError

_TOP = 2.0**63


def split_floats(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """The pairs of finite floats; an integral float within int64 becomes the pair of that int."""
    if not np.isfinite(values).all():
        raise InputError("a number must be finite, not NaN or infinite")
    inside = (values >= -_TOP) & (values < _TOP)
    trunc = np.trunc(np.where(inside, values, 0.0))
    whole = np.where(inside, trunc.astype(np.int64), np.where(values < 0, limits.INT_MIN, limits.INT_MAX))
    rest = np.where(inside, values - trunc, values)
    return whole, rest + 0.0  # -0.0 becomes 0.0


def join_number(whole: int, rest: float) -> int | float:
    """The number of a pair, in canonical form."""
    return whole if rest == 0.0 else rest if abs(rest) >= 1.0 else whole + rest


def sort_numbers(
    whole: npt.NDArray[np.int64], rest: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Distinct pairs in ascending order, and the place of each given pair among them."""
    order = np.lexsort((rest, whole))
    sorted_whole, sorted_rest = whole[order], rest[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (sorted_whole[1:] != sorted_whole[:-1]) | (sorted_rest[1:] != sorted_rest[:-1])
    place = np.empty(len(order), np.int32)
    place[order] = np.cumsum(new) - 1
    return sorted_whole[new], sorted_rest[new], place


@nb.njit(nogil=True, cache=True)
def rank_numbers(constant_whole: Any, constant_rest: Any, whole: Any, rest: Any) -> Any:
    """Rank of each number: ``2 i + 1`` if it equals constant i, ``2 i`` if it lies just below it."""
    ranks = np.empty(len(whole), np.int32)
    for j in range(len(whole)):
        w, r = whole[j], rest[j]
        low, high = 0, len(constant_whole)
        while low < high:
            middle = (low + high) >> 1
            cw = constant_whole[middle]
            if cw < w or (cw == w and constant_rest[middle] < r):
                low = middle + 1
            else:
                high = middle
        equal = low < len(constant_whole) and constant_whole[low] == w and constant_rest[low] == r
        ranks[j] = 2 * low + 1 if equal else 2 * low
    return ranks
