"""Profiles, schemas, TDAG, hardenings and the encoder's edges."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

from secroute import limits
from secroute.content import parse
from secroute.encoding.encoder import CoarsenedPredicateWarning, Encoder
from secroute.encoding.hardening import REFUSED, Hardening, Transform, register, transforms
from secroute.encoding.infer import infer
from secroute.encoding.profile import Profile
from secroute.encoding.schema import NumberIndex, TextIndex
from secroute.encoding.tdag import Tdag
from secroute.errors import EmptyFilterError, HardeningError, ProfileError, SchemaError, SecrouteError
from secroute.keyring.tokens import throwaway_token_keys

PRICE = '[attributes.price]\ntype = "number"\nlow = 0\nhigh = 1000\nlevels = 10\n'


def encoder(toml: str = PRICE) -> Encoder:
    profile = Profile.from_toml(toml)
    return Encoder(profile, throwaway_token_keys(profile))


def test_profile_bytes_are_canonical_and_have_one_digest() -> None:
    profile = Profile.from_toml(PRICE + '[[hardening]]\nname = "pad"\npopcount = 60\n')
    again = Profile.from_bytes(profile.to_bytes())
    assert again == profile
    assert again.digest == profile.digest
    with pytest.raises(ProfileError, match="canonical"):
        Profile.from_bytes(profile.to_bytes().replace(b",", b", "))
    assert Profile.default().digest != profile.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bits = 100", "multiple of 64"),
        ("hashes = 17", "1 to 16"),
        ("colour = 1", "unknown key 'colour'"),
        ("implied = 'all'", "implied is one of"),
        ("version = 2", "token version"),
        ("[attributes.a]\ntype = 'date'", "needs type"),
        ("[attributes.a]\ntype = 'number'\nlow = 5\nhigh = 5", "below high"),
        ("[attributes.a]\ntype = 'number'\nlow = nan\nhigh = 5", "finite"),
        ("[attributes.a]\ntype = 'number'\nlow = 0\nhigh = 5\nprefixes = [1]", "unknown key 'prefixes'"),
        ("[attributes.a]\ntype = 'string'\nprefixes = [3, 1]", "rising list"),
        ("[[hardening]]\nname = 'blip'", "breaks the law"),
        ("[[hardening]]\nname = 'pad'", "takes exactly popcount"),
        ("bits = 64\n[[hardening]]\nname = 'pad'\npopcount = 65", "more than the 64 bits"),
        ("bits =", "not TOML"),
    ],
)
def test_bad_profiles_say_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(SecrouteError, match=words):
        Profile.from_toml(text)


def test_buckets_are_monotone_exact_and_clamped() -> None:
    rng = random.Random(2)
    index = NumberIndex(low=-0.1, high=2**60 + 1, levels=16)
    values = sorted(
        [rng.uniform(-1e19, 1e19) for _ in range(300)] + [rng.randint(-(2**63), 2**63 - 1) for _ in range(300)]
    )
    buckets = [index.bucket(v) for v in values]
    assert buckets == sorted(buckets)
    assert (index.bucket(-1e300), index.bucket(1e300)) == (0, 65535)
    text = TextIndex(order_bytes=2)
    words = sorted(["", "a", "ab", "abc", "b", "é", "\U0001f600", "zz"], key=str.encode)
    assert [text.bucket(w) for w in words] == sorted(text.bucket(w) for w in words)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_tdag_covers(step: int) -> None:
    tdag = Tdag(6, step)
    for low in range(64):
        for high in range(low, 64):
            span = tdag.smallest(low, high)
            assert span.low <= low <= high <= span.high
            for bucket in (low, (low + high) // 2, high):
                assert span in tdag.containing(bucket)
            for most in (2, 3, 8):
                cover = tdag.cover(low, high, most)
                assert len(cover) <= most
                covered = {b for s in cover for b in range(s.low, s.high + 1)}
                assert set(range(low, high + 1)) <= covered
            if step == 1:
                assert span.high - span.low + 1 <= 4 * (high - low + 1)


@pytest.mark.parametrize(
    "text",
    ["price > 5 AND price < 3", "a = 1 AND a = 2", "a IS NULL AND a = 1", "a > 'x' AND a < 5", "a = 5 AND a > 5"],
)
def test_impossible_alternatives_are_dropped(text: str) -> None:
    assert len(encoder().encode_predicate(parse(text))) == 0
    assert len(encoder().encode_predicate(parse(f"({text}) OR b = 1"))) == 1


def test_a_filter_without_bits_needs_match_all() -> None:
    with pytest.raises(EmptyFilterError, match="match_all"):
        encoder().encode_predicate(parse("a IS NULL"))
    assert not encoder().encode_predicate(parse("a IS NULL"), match_all=True).bits.any()


def test_too_many_alternatives_are_coarsened_with_a_warning_and_lose_nothing() -> None:
    values = range(2_000)
    e = encoder()
    with pytest.warns(CoarsenedPredicateWarning):
        filters = e.encode_predicate(parse(f"price IN ({', '.join(map(str, values))})"))
    assert len(filters) <= limits.SUBSCRIPTION_FILTERS_MAX
    bits = e.encode_messages([{"price": v} for v in values])
    for row in bits:
        assert (~(filters.bits & ~row).any(axis=1)).any()


def test_wider_disjuncts_absorb_narrower_ones() -> None:
    profile = Profile.from_toml('implied = "coarser"\n' + PRICE)
    e = Encoder(profile, throwaway_token_keys(profile))
    assert len(e.encode_predicate(parse("price < 500 OR price = 100 OR price BETWEEN 10 AND 20"))) == 1


def test_randomised_hardening_needs_fresh_randomness() -> None:
    e = encoder('bits = 512\n[[hardening]]\nname = "noise"\nper_mille = 100\n')
    with pytest.raises(HardeningError, match="random bytes"):
        e.encode_messages([{"a": 1}])
    first, second = e.encode_messages([{"a": 1}], bytes(32)), e.encode_messages([{"a": 1}], bytes([1] * 32))
    assert (first != second).any()


def test_padding_reaches_its_popcount_and_dropping_keeps_its_minimum() -> None:
    e = encoder('bits = 512\n[[hardening]]\nname = "pad"\npopcount = 200\n')
    counts = np.bitwise_count(e.encode_messages([{}, {"a": 1}, {"a": 1, "b": "x"}], bytes(32))).sum(axis=1)
    assert (counts == 200).all()
    e = encoder('hashes = 8\nbits = 512\n[[hardening]]\nname = "drop"\nper_mille = 900\nminimum = 3\n')
    filters = [e.encode_predicate(parse(f"a = {i}")).bits for i in range(40)]
    assert all(np.bitwise_count(f).sum() >= 3 for f in filters)
    assert sum(int(np.bitwise_count(f).sum()) for f in filters) < 40 * 6
    assert (e.encode_predicate(parse("a = 1")).bits == filters[1]).all()  # the same filter always loses the same bits


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_lawless_transforms_are_refused_by_name(name: str) -> None:
    with pytest.raises(HardeningError, match="law"):
        Hardening.of(name)


def test_a_transform_that_breaks_the_law_cannot_be_registered() -> None:
    def rotate(bits: np.ndarray, parameters: object, seed: bytes) -> np.ndarray:
        return bits << np.uint64(1)

    def clear(bits: np.ndarray, parameters: object, seed: bytes) -> np.ndarray:
        return np.zeros_like(bits)

    before = set(transforms())
    with pytest.raises(HardeningError, match="law"):
        register(Transform("rotate", "message", {}, rotate, ""))  # type: ignore[arg-type]
    with pytest.raises(HardeningError, match="empties"):
        register(Transform("clear", "filter", {}, clear, ""))  # type: ignore[arg-type]
    assert set(transforms()) == before


def test_inferred_schema_is_valid_and_fits_the_sample() -> None:
    from secroute.content import Message

    rng = random.Random(0)
    sample = [
        Message({"price": rng.randint(50, 900), "dest": rng.choice(["ATL", "JFK"]), "t": rng.random(), "ok": True})
        for _ in range(500)
    ]
    sample += [Message({"m": 1}), Message({"m": "x"})]
    profile = Profile.from_toml(infer(sample))
    price = profile.schema.number("price")
    assert price is not None
    assert price.low <= 50 < 900 <= price.high
    assert profile.schema.text("dest").prefixes == (1, 2, 3)
    assert profile.schema.number("t") is not None
    assert not profile.schema.number("t").equality  # type: ignore[union-attr]
    assert "m" not in profile.schema.attributes


def test_expected_fill_of_a_sized_profile_is_at_most_half() -> None:
    with warnings.catch_warnings():
        e = encoder(PRICE)
        bits = e.encode_messages([{"price": i, **{f"a{j}": i + j for j in range(9)}} for i in range(500)])
    assert np.bitwise_count(bits).sum() / (500 * e.profile.bits) <= 0.5


def test_schema_errors_name_the_attribute() -> None:
    with pytest.raises(SchemaError, match=r"attributes\.load"):
        Profile.from_toml("[attributes.load]\ntype = 'number'\nlow = 0")
