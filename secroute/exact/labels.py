"""Interface labels and their dense numbers. TRUSTED, pure.

Two sorted arrays instead of a dictionary: a table may have a million interfaces, and a dictionary of them would weigh
more than the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from secroute.errors import InputError
from secroute.exact.columns import Int32s, Int64s


class Labels:
    """Labels in the order they were first seen; that order is their number."""

    def __init__(self) -> None:
        self.values: Int64s = np.empty(0, np.int64)
        self.plain = True
        """Whether every label is its own number, so that nothing needs to be looked up."""
        self._sorted: Int64s = np.empty(0, np.int64)
        self._number: Int32s = np.empty(0, np.int32)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.values.nbytes + self._sorted.nbytes + self._number.nbytes

    def take(self, labels: Sequence[int]) -> Int32s:
        """The number of each label; new labels get the next numbers."""
        try:
            wanted = np.fromiter(labels, np.int64, len(labels))
        except (OverflowError, TypeError, ValueError):
            raise InputError("an interface is an integer of 64 bits") from None
        distinct, first = np.unique(wanted, return_index=True)
        place = np.searchsorted(self._sorted, distinct)
        new = np.ones(len(distinct), np.bool_)
        inside = place < len(self._sorted)
        new[inside] = self._sorted[place[inside]] != distinct[inside]
        if new.any():
            order = np.argsort(first[new], kind="stable")
            number = np.empty(len(order), np.int32)
            number[order] = np.arange(len(self.values), len(self.values) + len(order), dtype=np.int32)
            added = distinct[new][order]
            self.plain = self.plain and np.array_equal(added, np.arange(len(self), len(self) + len(added)))
            self.values = np.concatenate([self.values, added])
            self._sorted = np.insert(self._sorted, place[new], distinct[new])
            self._number = np.insert(self._number, place[new], number)
        return self._number[np.searchsorted(self._sorted, wanted)]
