"""Mergeable state of the bits of many messages: popcounts, frequencies, co-occurrence.

TRUSTED side, pure. A state of one batch is made, states are merged in any order, and figures are read from the merged
one: (2) popcount, (3) skew of frequencies, (4) co-occurrence; and the prediction of matches from them.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute.audit.figures import Figure
from secroute.audit.intervals import wilson
from secroute.opaque import Words

_Z = 5.0  # a pair of bits counts as dependent beyond five standard deviations
Flags = npt.NDArray[np.float32]


def unpack(bits: Words) -> npt.NDArray[np.uint8]:
    """``uint8[n, m]`` of 0 and 1."""
    return np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=1, bitorder="little")


def joint_counts(bits: Words, names: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``[names, popcount]``: how many messages have so many attributes and so many bits."""
    joint = np.zeros((257, bits.shape[1] * 64 + 1), np.int64)
    np.add.at(joint, (names, np.bitwise_count(bits).sum(axis=1).astype(np.int64)), 1)
    return joint


def popcount_information(joint: npt.NDArray[np.int64]) -> Figure:
    """(2) What the number of set bits says about the number of attributes, in bits of information."""
    n = int(joint.sum())
    p = joint / max(1, n)
    rows, columns = p.sum(axis=1, keepdims=True), p.sum(axis=0, keepdims=True)
    live = p > 0
    information = float((p[live] * np.log2(p[live] / (rows @ columns)[live])).sum())
    # Miller and Madow: the plain estimate is too high by about (cells - rows - columns + 1) / 2n.
    bias = (live.sum() - (rows > 0).sum() - (columns > 0).sum() + 1) / (2 * max(1, n) * math.log(2))
    entropy = float(-(rows[rows > 0] * np.log2(rows[rows > 0])).sum())
    spread = 1.96 * math.sqrt(max(entropy, 0.01) / max(1, n))
    value = max(0.0, information - bias)
    low, high = max(0.0, value - spread), value + spread
    return Figure("popcount_information", value, low, high, 0.0, entropy, unit="bits", samples=n)


@dataclass(frozen=True)
class BitState:
    """Sums over messages; adding two states gives the state of both."""

    joint: npt.NDArray[np.int64]
    """``[names, popcount]``: how many messages have so many attributes and so many bits."""
    counts: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.float64]
    """``[m, m]``: in how many messages both bits are set."""

    @classmethod
    def of(cls, bits: Words, names: npt.NDArray[np.int64]) -> BitState:
        """The state of one batch."""
        flags = unpack(bits).astype(np.float32)
        return cls(joint_counts(bits, names), flags.sum(axis=0).astype(np.int64), (flags.T @ flags).astype(np.float64))

    def merge(self, other: BitState) -> BitState:
        """The state of both."""
        return BitState(self.joint + other.joint, self.counts + other.counts, self.pairs + other.pairs)

    @property
    def n(self) -> int:
        """How many messages."""
        return int(self.joint.sum())

    def to_bytes(self) -> bytes:
        """For Parquet; plain arrays, no objects."""
        out = io.BytesIO()
        np.savez_compressed(out, joint=self.joint, counts=self.counts, pairs=self.pairs.astype(np.float32))
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> BitState:
        """Read back, refusing anything but plain arrays."""
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return cls(arrays["joint"], arrays["counts"], arrays["pairs"].astype(np.float64))

    # --- figures ---

    def popcount(self) -> Figure:
        """(2) What the number of set bits says about the number of attributes."""
        return popcount_information(self.joint)

    def skew(self) -> list[Figure]:
        """(3) How unevenly bits are used (Gini), and bits that are always on."""
        q = np.sort(self.counts / max(1, self.n))
        m, fill = len(q), float(q.mean())
        gini = float((2 * np.arange(1, m + 1) - m - 1) @ q / (m * q.sum())) if q.sum() else 0.0
        null = math.sqrt(fill * (1 - fill) / max(1, self.n) / math.pi) / max(fill, 1e-9)
        spread = 1.96 * math.sqrt(gini * (1 - gini) / m)
        always = int((q >= 0.999).sum())
        return [
            Figure("bit_skew_gini", gini, max(0.0, gini - spread), gini + spread, null, 1.0, samples=self.n),
            Figure("always_on_bits", always / m, *wilson(always, m), 0.0, 1.0, samples=self.n),
        ]

    def dependence(self) -> Figure:
        """(4) Share of bit pairs that occur together more or less often than independent bits would."""
        n, q = self.n, self.counts / max(1, self.n)
        live = np.flatnonzero((q > 0.001) & (q < 0.999))
        if len(live) < 2 or n < 50:
            return Figure("dependent_bit_pairs", 0.0, 0.0, 1.0, 0.0, 1.0, samples=n)
        a = q[live]
        expected = np.outer(a, a)
        deviation = np.sqrt(np.outer(a * (1 - a), a * (1 - a)) / n)
        z = (self.pairs[np.ix_(live, live)] / n - expected) / deviation
        share = float((np.abs(z[np.triu_indices(len(live), 1)]) > _Z).mean())
        cells = len(live) * (len(live) - 1) / 2
        spread = 1.96 * math.sqrt(share * (1 - share) / cells)
        return Figure("dependent_bit_pairs", share, max(0.0, share - spread), share + spread, 6e-7, 1.0, samples=n)

    # --- predictions ---

    def predict_independent(self, popcounts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The textbook: a filter of b bits is in a message of c bits with probability (c / m) ** b."""
        per_popcount = self.joint.sum(axis=0) / max(1, self.n)
        fill = np.arange(len(per_popcount)) / (len(per_popcount) - 1)
        live = per_popcount > 0
        return np.asarray((fill[live][None, :] ** popcounts[:, None]) @ per_popcount[live])

    def predict_measured(self, filters: Words) -> npt.NDArray[np.float64]:
        """Measured frequencies and co-occurrence: the strongest tree of dependences over each filter's bits."""
        n = max(1, self.n)
        q = np.clip(self.counts / n, 1e-9, 1.0)
        pairs = self.pairs / n
        return np.array([_tree_probability(np.flatnonzero(row), q, pairs) for row in unpack(filters)])


def _tree_probability(bits: npt.NDArray[np.int64], q: npt.NDArray[np.float64], pairs: npt.NDArray[np.float64]) -> float:
    """P(all bits) along a maximum spanning tree of lift: each bit is conditioned on the one it hangs on most."""
    if not len(bits):
        return 1.0
    a = q[bits]
    lift = pairs[np.ix_(bits, bits)] / np.outer(a, a)
    order = [int(np.argmin(a))]
    probability = float(a[order[0]])
    best = lift[order[0]].copy()
    parent = np.full(len(bits), order[0])
    left = np.ones(len(bits), bool)
    left[order[0]] = False
    while left.any():
        at = int(np.argmax(np.where(left, best, -1.0)))
        left[at] = False
        probability *= min(1.0, float(pairs[bits[at], bits[parent[at]]] / a[parent[at]]))
        better = lift[at] > best
        best, parent = np.where(better, lift[at], best), np.where(better, at, parent)
    return probability
