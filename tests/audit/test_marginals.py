"""Predictions from single attributes: right where attributes are independent, and silent where they are not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from secroute.audit import flights, marginals
from secroute.audit.marginals import Shares
from secroute.content import disjuncts, matches, parse
from secroute.encoding.encoder import Encoder
from secroute.encoding.hardening import Hardening
from secroute.encoding.profile import Profile
from secroute.keyring import throwaway_token_keys
from tests.cases import cases

N = cases(120_000, 500_000)
VALUES = 6


def columns(dependent: bool) -> np.ndarray:
    draw = np.random.default_rng(4)
    drawn = draw.integers(0, VALUES, (3, N))
    if dependent:
        drawn[1] = (drawn[0] + (draw.random(N) < 0.1)) % VALUES
    return drawn


def counted(dependent: bool) -> tuple[Shares, list[list[int]], np.ndarray]:
    """Shares of every part and pair on the first half; false positives of every conjunction on the second.

    Noise makes the accidental bits independent of what messages say, so only the attributes' own dependence is left.
    """
    profile = Profile(bits=256, hashes=2, hardening=(Hardening.of("noise", per_mille=300),))
    here = Encoder(profile, throwaway_token_keys(profile, random_bytes=np.random.default_rng(9).bytes))
    drawn = columns(dependent)
    texts = [f"{name} = {value}" for name in "abc" for value in range(VALUES)]
    bits = here.encode_messages([{"a": int(a), "b": int(b), "c": int(c)} for a, b, c in drawn.T], bytes(range(32)))
    filters, _ = here.encode_predicates([parse(text) for text in texts])
    shown = np.array([((f & ~bits) == 0).all(axis=1) for f in filters])
    exact = np.array([drawn[part // VALUES] == part % VALUES for part in range(len(texts))])
    half = N // 2
    uses = [list(parts) for r in (2, 3) for parts in itertools.combinations(range(len(texts)), r)]
    uses = [u for u in uses if len({part // VALUES for part in u}) == len(u)]
    pairs = [(a, b) for a in range(len(texts)) for b in range(a + 1, len(texts))]

    def shares(table: np.ndarray) -> dict[tuple[int, int], float]:
        first = table[:, :half]
        return {(a, -1): row.mean() for a, row in enumerate(first)} | {
            (a, b): (first[a] & first[b]).mean() for a, b in pairs
        }

    false = np.array([shown[u][:, half:].all(axis=0).mean() - exact[u][:, half:].all(axis=0).mean() for u in uses])
    return Shares(half, shares(exact), shares(shown)), uses, false


def test_independent_attributes_are_predicted_within_their_interval():
    measured, uses, false = counted(dependent=False)
    rows = [marginals.expect(measured, [use], N // 2) for use in uses]
    holds = [(row, seen) for row, seen in zip(rows, false, strict=True) if row["holds"]]
    assert len(holds) > len(uses) // 20, "hardly any conjunction was found independent"
    inside = [row["expected_low"] <= seen <= row["expected_high"] for row, seen in holds]
    assert np.mean(inside) >= 0.95
    assert sum(r["expected"] for r, _ in holds) == pytest.approx(sum(seen for _, seen in holds), rel=0.05)


def test_dependent_attributes_are_not_said_to_be_independent():
    measured, uses, _ = counted(dependent=True)
    both = [use for use in uses if {part // VALUES for part in use} >= {0, 1}]
    assert not any(marginals.expect(measured, [use], N // 2)["holds"] for use in both)


def test_a_disjunction_matches_if_any_of_it_does():
    measured = Shares(1_000, {(0, -1): 0.1, (1, -1): 0.2}, {(0, -1): 0.3, (1, -1): 0.4})
    row = marginals.expect(measured, [[0], [1]], 1_000)
    assert row["expected"] == pytest.approx((1 - 0.7 * 0.6) - (1 - 0.9 * 0.8))
    assert not row["holds"]


def test_conditions_on_one_attribute_stay_together():
    (conjunction,) = disjuncts(parse("x > 1 AND y = 'a' AND x < 9"))
    assert [matches(parse(part), {"x": 5}) for part in marginals.cut(conjunction)].count(True) == 1
    assert len(marginals.cut(conjunction)) == 2


def test_ranges_that_share_their_alternatives_are_not_composed():
    profile = Profile.from_toml(flights.PROFILE_TOML)
    (one,) = disjuncts(parse("dep_delay > 33 AND carrier = 'UA'"))
    (two,) = disjuncts(parse("dep_delay > 33 AND distance >= 701"))
    assert all(marginals.is_composed(conjunction, profile) for conjunction in (one, two))
    finer = replace(profile, cover_disjuncts=4)
    assert marginals.is_composed(one, finer)
    assert not marginals.is_composed(two, finer)
