"""A TDAG over buckets 0 .. 2**levels - 1: dyadic intervals plus the same intervals shifted by half their size.

TRUSTED, pure. A message names every node that contains its bucket; a range is answered by the smallest node that
covers it, which thanks to the shifted nodes is never much larger than the range. Only every ``step``-th level exists
(and always the lowest and the highest), which trades tokens for precision.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from secroute import limits

_FEW_PIECES_STEP = limits.COVER_PIECES_MAX.bit_length() - 1


class Span(NamedTuple):
    """A node of the TDAG: ``2**level`` buckets from ``position * 2**level``, plus half of that if shifted."""

    level: int
    shifted: bool
    position: int

    @property
    def low(self) -> int:
        """First bucket of the node."""
        return (self.position << self.level) + (((1 << self.level) >> 1) if self.shifted else 0)

    @property
    def high(self) -> int:
        """Last bucket of the node."""
        return self.low + (1 << self.level) - 1


class Tdag:
    """The nodes over ``2**levels`` buckets."""

    def __init__(self, levels: int, step: int = 1) -> None:
        self.levels = levels
        self.used = tuple(sorted({*range(0, levels + 1, step), levels}))

    def containing(self, bucket: int) -> list[Span]:
        """Every node that contains a bucket: what a message says."""
        return self.covering(bucket, bucket)

    def covering(self, low: int, high: int) -> list[Span]:
        """Every node that covers all of low..high, smallest first."""
        found = []
        for level in self.used:
            if low >> level == high >> level:
                found.append(Span(level, False, low >> level))
            half = (1 << level) >> 1
            # The root has no shifted twin: nothing lies beyond either end of the domain.
            if 0 < level < self.levels and low >= half and high < (1 << self.levels) - half:
                position = (low - half) >> level
                if position == (high - half) >> level:
                    found.append(Span(level, True, position))
        return found

    def smallest(self, low: int, high: int) -> Span:
        """The smallest node that covers low..high."""
        return self.covering(low, high)[0]

    def cover(self, low: int, high: int, most: int) -> list[Span]:
        """At most ``most`` nodes whose union covers low..high with as little excess as a greedy merge finds."""
        if most <= 1:
            return [self.smallest(low, high)]
        # With every step-th level only, a cover may need 2**step nodes of one level: widen until it does not.
        for finer, level in pairwise(self.used):
            if high - low < limits.COVER_PIECES_MAX << finer or level - finer < _FEW_PIECES_STEP:
                break
            low, high = (low >> level) << level, high | ((1 << level) - 1)
        pieces = self._exact(low, high)
        while len(pieces) > most:
            joints = [self.smallest(left.low, right.high) for left, right in pairwise(pieces)]
            joint = min(joints, key=lambda span: span.level)
            inside = [joint.low <= piece.low and piece.high <= joint.high for piece in pieces]
            first = inside.index(True)
            pieces = [piece for piece, within in zip(pieces, inside, strict=True) if not within]
            pieces.insert(first, joint)
        return pieces

    def _exact(self, low: int, high: int) -> list[Span]:
        """Dyadic nodes of the used levels whose union is exactly low..high, left to right."""
        pieces = []
        at = low
        while at <= high:
            level = max(level for level in self.used if at % (1 << level) == 0 and at + (1 << level) - 1 <= high)
            pieces.append(Span(level, False, at >> level))
            at += 1 << level
        return pieces
