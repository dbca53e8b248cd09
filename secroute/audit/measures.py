"""Every leakage measure by name: its number in docs/privacy.md, what it says in plain words, and who can do it.

TRUSTED side, pure. Reports name measures by these words, and a policy may only limit what is listed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

VARIANTS = ("none", "pad", "noise", "drop", "all", "as configured")
"""The hardenings that are measured beside each other, in the order in which people compare them."""
ROUTER, MEMBER, KEY = "router alone", "router and a member", "insider with the key"


@dataclass(frozen=True)
class Measure:
    """One measure, for readers."""

    number: int
    words: str
    attacker: str = ROUTER
    in_summary: bool = True
    """Whether it stands in the table of hardenings; the others say the same in another unit."""


MEASURES = {
    "distinct_share": Measure(1, "messages that look like no other", in_summary=False),
    "largest_class": Measure(1, "largest group of messages that look equal", in_summary=False),
    "min_entropy": Measure(1, "min-entropy of a message's bits", in_summary=False),
    "equal_pairs": Measure(1, "equal messages recognised"),
    "popcount_information": Measure(2, "number of attributes read from the number of bits"),
    "bit_skew_gini": Measure(3, "unevenness of bits"),
    "always_on_bits": Measure(3, "bits that are always on"),
    "dependent_bit_pairs": Measure(4, "pairs of bits that depend on each other"),
    "bits_in_frequent_sets": Measure(4, "bits in sets that occur together"),
    "rank_naive": Measure(5, "subscriptions named by volume"),
    "rank_corrected": Measure(5, "subscriptions named by corrected volume"),
    "pattern_mining": Measure(6, "tokens rebuilt from bits and named"),
    "bayes_vulnerability": Measure(7, "values guessed, one guess a message"),
    "multiplicative_leakage": Measure(7, "times as often right as a blind guess", in_summary=False),
    "bayes_with_member": Measure(7, "values guessed, with a member's help", MEMBER),
    "multiplicative_with_member": Measure(7, "times as often right as a blind guess", MEMBER, in_summary=False),
    "covering_edges_true": Measure(8, "which subscription is wider than which"),
    "covering_edges_accidental": Measure(8, "accidental covering (bits only)"),
    "volume_correlation": Measure(9, "how busy a subscription is"),
    "volume_unique": Measure(9, "subscriptions told apart by volume", in_summary=False),
    "dictionary_with_key": Measure(10, "values read by trying a dictionary", KEY),
    "linked_across_epochs": Measure(11, "subscriptions recognised after rotation"),
}


def mean_advantages(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """(measure, variant) to the mean over attributes of how far from chance towards plain text an attacker gets."""
    sums: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if MEASURES[row["measure"]].in_summary:
            found = sums.setdefault((row["measure"], row["variant"]), [])
            # Where plain text shows no more than chance there is nothing to compare with.
            found += [row["advantage"]] if abs(row["ceiling"] - row["chance"]) > 1e-12 else []
    return {key: sum(values) / len(values) for key, values in sums.items() if values}
