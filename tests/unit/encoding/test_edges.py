"""Edges that once went wrong: odd values in the cache, too many alternatives, wide covers, schemas made in code."""

from __future__ import annotations

import enum
import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from secroute import limits
from secroute.content import Message, parse
from secroute.encoding import hardening
from secroute.encoding.encoder import CoarsenedPredicateWarning, Encoder
from secroute.encoding.explain import explain
from secroute.encoding.infer import infer
from secroute.encoding.profile import Profile, expected_fill, schema_tokens
from secroute.encoding.schema import NumberIndex, TextIndex
from secroute.encoding.tdag import Tdag
from secroute.errors import HardeningError, InputError, ProfileError, SchemaError
from secroute.keyring.tokens import throwaway_token_keys


class Level(int, enum.Enum):
    HIGH = 3


def encoder(**table: Any) -> Encoder:
    profile = Profile.from_dict(table)
    return Encoder(profile, throwaway_token_keys(profile))


def passes(encode: Encoder, selector: str, message: Any) -> bool:
    filters = encode.encode_predicate(parse(selector)).bits
    bits = encode.encode_messages([message], os.urandom(32))[0]
    return bool((filters & ~bits == 0).all(axis=1).any())


@pytest.mark.parametrize("value", [Level.HIGH, np.float64(3.0), 3.0])
def test_odd_values_are_encoded_as_plain_ones_and_do_not_poison_the_cache(value: Any) -> None:
    for first in ({"p": value}, Message({"p": value})):
        encode = encoder()
        assert passes(encode, "p = 3", first)
        assert passes(encode, "p = 3", {"p": 3})
        assert not passes(encode, "p = 3", {"p": True})


@pytest.mark.parametrize("value", [np.int64(3), None, b"x", [1], "\ud800"])
def test_plain_mappings_are_checked_too(value: Any) -> None:
    with pytest.raises(InputError):
        encoder().encode_messages([{"p": value}])


def test_the_cache_is_bounded_after_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENCODER_CACHE_BYTES", 64 * 256)
    encode = encoder(bits=2048)
    messages = [{"a": i} for i in range(500)]
    expected = encoder_like(encode).encode_messages(messages)
    for _ in range(3):
        assert (encode.encode_messages(messages) == expected).all()
        assert len(encode._known.masks) <= 256


def encoder_like(other: Encoder) -> Encoder:
    return Encoder(other.profile, other._keys)


@pytest.mark.filterwarnings("ignore::secroute.encoding.encoder.CoarsenedPredicateWarning")
def test_coarsening_keeps_what_alternatives_share() -> None:
    encode = encoder()
    for count in (1023, 1100, 4000):
        selector = f"a IN ({','.join(map(str, range(count)))}) OR b = 1 OR c = 1"
        rows = encode.encode_predicate(parse(selector)).bits
        assert len(rows) <= limits.SUBSCRIPTION_FILTERS_MAX
        for message in ({"a": 0}, {"a": count - 1}, {"b": 1}, {"c": 1}):
            assert passes(encode, selector, message)
        assert not passes(encode, selector, {"d": 1})


def test_explain_tells_of_coarsening() -> None:
    profile = Profile.default()
    text = "\n".join(
        explain(parse(f"a IN ({','.join(map(str, range(1100)))})"), profile, throwaway_token_keys(profile))
    )
    assert "coarsened to at most" in text
    assert "coarsening lets more through" in text
    assert "1068 more alternatives" in text


def test_explain_works_for_every_profile_and_says_when_nothing_can_match() -> None:
    profile = Profile.from_dict({"bits": 64, "hashes": 16})
    keys = throwaway_token_keys(profile)
    assert any("1.00e+00" in line for line in explain(parse("a = 1"), profile, keys, [100_000]))
    assert list(explain(parse("a = 1 AND a = 2"), profile, keys))[-1] == "no message can match"
    with pytest.raises(InputError, match="tokens"):
        list(explain(parse("a = 1"), profile, keys, [-5]))


def test_covers_are_cheap_whatever_the_step() -> None:
    for levels, step in ((32, 32), (24, 7), (20, 3), (16, 1)):
        tdag = Tdag(levels, step)
        low, high = (1 << levels) // 100, (1 << levels) - (1 << levels) // 90
        for most in (1, 2, 8, 64):
            spans = tdag.cover(low, high, most)
            assert len(spans) <= most
            covered = sorted((span.low, span.high) for span in spans)
            assert covered[0][0] <= low
            assert covered[-1][1] >= high
            assert all(second[0] <= first[1] + 1 for first, second in pairwise(covered))


@pytest.mark.parametrize(
    "make",
    [
        lambda: NumberIndex(2, 1, 4),
        lambda: NumberIndex(0, float("inf"), 4),
        lambda: NumberIndex(0, 1, 40),
        lambda: TextIndex(prefixes=(3, 1)),
        lambda: TextIndex(qgram=99),
    ],
)
def test_indexes_made_in_code_are_checked(make: Any) -> None:
    with pytest.raises(SchemaError):
        make()


def test_profiles_made_in_code_are_canonical() -> None:
    from secroute.encoding.schema import Schema

    profile = Profile(schema=Schema({"a": NumberIndex(0.0, 100.0, 10), "b": TextIndex(prefixes=[1, 2])}))  # type: ignore[arg-type]
    assert Profile.from_bytes(profile.to_bytes()) == profile


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[attributes.a]\ntype = "number"\nlow = "0.5"\nhigh = 1', SchemaError),
        ("version = true", ProfileError),
        ("version = 1.0", ProfileError),
        ('[[hardening]]\nname = "pad"\npopcount = 5\ncls = 1', HardeningError),
        ("bits = " + "9" * 5000, SchemaError),
        ("bits = " + "[" * 5000, SchemaError),
    ],
)
def test_schema_files_fail_with_errors_of_their_own(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        Profile.from_toml(text)


def test_hashes_without_bits_keep_the_fill() -> None:
    table = {f"n{i}": {"type": "number", "low": 0, "high": 1000} for i in range(5)}
    for hashes in (1, 4, 8, 16):
        profile = Profile.from_dict({"hashes": hashes, "attributes": table})
        assert expected_fill(profile, schema_tokens(profile.schema)) <= 0.5


def test_a_hardening_changes_one_side() -> None:
    with pytest.raises(HardeningError, match="'message' or 'filter'"):
        hardening.register(hardening.Transform("spread", "both", {}, lambda bits, _p, _s: bits, ""))
    with pytest.raises(HardeningError, match="exactly"):
        hardening.Hardening("pad", ())


def test_padding_is_exact_and_only_adds() -> None:
    encode, plain = encoder(bits=256, hardening=[{"name": "pad", "popcount": 100}]), encoder(bits=256)
    plain = Encoder(Profile.from_dict({"bits": 256}), throwaway_token_keys(Profile.from_dict({"bits": 256})))
    messages = [{f"n{i}": i for i in range(count % 9)} for count in range(1500)]
    bits = encode.encode_messages(messages, b"s" * 32)
    assert set(np.bitwise_count(bits).sum(axis=1).tolist()) == {100}
    assert len({row.tobytes() for row in bits}) == len(bits)
    assert plain.encode_messages(messages).shape == bits.shape


@pytest.mark.parametrize(
    "messages",
    [
        [{"a": 2**63 - 1}, {"a": -(2**63)}],
        [{"a": 1.7e308}, {"a": -1.7e308}],
        [{"\U0001f600": 1}, {"\U0001f600": 2}],
        [{"a\nbits = 64 #": 1}, {"a\nbits = 64 #": "x"}],
        [{'q"uote\\\x7f\x00': 1}, {'q"uote\\\x7f\x00': 2}],
        [{f"n{i}": j for i in range(200 * part, 200 * part + 200)} for part in range(7) for j in range(2)],
    ],
)
def test_inferred_schemas_can_be_read(messages: list[dict[str, Any]]) -> None:
    profile = Profile.from_toml(infer([Message(message) for message in messages]))
    assert profile.bits != 64


def test_coarsening_warns() -> None:
    with pytest.warns(CoarsenedPredicateWarning, match="coarsened to at most 1024"):
        encoder().encode_predicate(parse(f"a IN ({','.join(map(str, range(1100)))})"))
