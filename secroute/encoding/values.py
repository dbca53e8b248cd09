"""The distinct values of recent messages and the bits each one sets: work is done once a value, not once a message.

TRUSTED, pure. Belongs to one encoder and lives no longer than it: what it holds follows from the keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.content.model import Message, Value, check_name, check_value
from secroute.opaque import Words

Attributes = Mapping[str, Value]
Rows = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Lists of row numbers: all of them one after another, and the offsets where each list starts."""


class ValueTable:
    """Distinct (name, value) pairs with the bits each one sets: bounded, and forgotten whole when full."""

    def __init__(self, words: int) -> None:
        self._most = limits.ENCODER_CACHE_BYTES // (8 * words)
        self._words = words
        self.forget()

    def forget(self) -> None:
        """Start anew."""
        self._rows: dict[tuple[str, Value], int] = {}
        self._boolean_rows: dict[tuple[str, Value], int] = {}
        self._count = 0
        self.masks: Words = np.zeros((256, self._words), np.uint64)

    def learn(self, masks: Words) -> None:
        """The bits of the values that ``collect`` called fresh, in that order."""
        needed = self._count + len(masks)
        if needed > len(self.masks):
            # By doubling: one new value must not cost a copy of all the others.
            grown = np.zeros((max(needed, 2 * len(self.masks)), self._words), np.uint64)
            grown[: self._count] = self.masks[: self._count]
            self.masks = grown
        self.masks[self._count : needed] = masks
        self._count = needed

    def trim(self) -> None:
        """Forget everything if it has become too much."""
        if self._count > self._most:
            self.forget()

    def collect(self, messages: Sequence[Message | Attributes]) -> tuple[Rows, list[tuple[str, Value]]]:
        """The row of every value of every message, and the values that were not known before."""
        rows, boolean_rows, first = self._rows, self._boolean_rows, self._count
        flat: list[int] = []
        counts: list[int] = []
        fresh: list[tuple[str, Value]] = []
        for message in messages:
            attributes = message.attributes if isinstance(message, Message) else message
            counts.append(len(attributes))
            for item in attributes.items():
                kind = item[1].__class__
                if kind is not str and kind is not int and kind is not bool:
                    # Plain mappings may say 3.0, or a member of an IntEnum, where a Message says 3.
                    item = (item[0], check_value(item[1]))
                    kind = item[1].__class__
                # True == 1 to a dict, so booleans have one of their own.
                known = rows if kind is not bool else boolean_rows
                found = known.get(item)
                if found is None:
                    item = (check_name(item[0]), check_value(item[1]))
                    found = known[item] = first + len(fresh)
                    fresh.append(item)
                flat.append(found)
        return as_rows(flat, counts), fresh


def as_rows(flat: Sequence[int], counts: Sequence[int]) -> Rows:
    """Lists of rows as one array with offsets."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return np.fromiter(flat, np.int64, len(flat)), offsets
