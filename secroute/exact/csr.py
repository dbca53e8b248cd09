"""What matching returns: for each message the numbers that match it, in compressed rows. TRUSTED, pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Csr:
    """Row i is ``values[offsets[i]:offsets[i + 1]]``; the order within a row is not promised unless ``sorted``."""

    offsets: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, i: int) -> npt.NDArray[np.int64]:
        """The values of one row."""
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def rows(self) -> npt.NDArray[np.int64]:
        """The row of each value."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def sorted(self) -> Csr:
        """The same rows with ascending values."""
        return Csr(self.offsets, self.values[np.lexsort((self.values, self.rows()))])

    def to_lists(self) -> list[list[int]]:
        """Plain lists, ascending."""
        ordered, ends = self.sorted().values.tolist(), self.offsets.tolist()
        return [ordered[ends[i] : ends[i + 1]] for i in range(len(self))]

    @classmethod
    def from_pairs(cls, rows: npt.NDArray[np.int64], values: npt.NDArray[np.int64], count: int) -> Csr:
        """Rows of distinct ascending values from pairs that may repeat."""
        order = np.lexsort((values, rows))
        rows, values = rows[order], values[order]
        new = np.ones(len(rows), np.bool_)
        new[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
        rows, values = rows[new], values[new]
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
        return cls(offsets, values)
