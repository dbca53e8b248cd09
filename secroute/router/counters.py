"""What a node counts: plain numbers, and a histogram of match times. UNTRUSTED side, no I/O; ids and counts only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

MATCH_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass(slots=True)
class Histogram:
    """Counts per bucket, the last one unbounded."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """One observation."""
        self.counts[int(np.searchsorted(self.bounds, value))] += 1
        self.total += value

    def quantile(self, share: float) -> float:
        """The upper bound of the bucket that holds this share of the observations."""
        seen, wanted = 0, share * sum(self.counts)
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return min(bound, self.bounds[-1])
        return 0.0


@dataclass(slots=True)
class NodeCounters:
    """Since the process started."""

    messages_in: int = 0
    messages_matched: int = 0
    messages_out: int = 0
    messages_duplicate: int = 0
    messages_expired: int = 0
    messages_dropped: int = 0
    messages_redelivered: int = 0
    messages_dead: int = 0
    batches_in: int = 0
    batches_refused: int = 0
    acks: int = 0
    gaps: int = 0
    commits: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    match_s: Histogram = field(default_factory=lambda: Histogram(MATCH_BUCKETS_S))
    commit_s: Histogram = field(default_factory=lambda: Histogram(MATCH_BUCKETS_S))
