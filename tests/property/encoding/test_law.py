"""The law: wherever the oracle matches, some encoded filter is included in the encoded message. No exceptions.

The test prints what it covered: the share of pairs that match, and the share of matches in which every operator,
boundary, hardening and profile option took part, and it fails if any of them was not exercised.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from secroute.content import Op, Value, check_value, disjuncts, matches, render
from secroute.content.predicate import Node, constraints
from secroute.encoding.encoder import Encoder
from secroute.encoding.hardening import Hardening, transforms
from secroute.encoding.profile import Profile
from secroute.encoding.schema import NumberIndex, Schema, TextIndex
from secroute.errors import LimitError, ProfileMismatchError
from secroute.keyring.tokens import throwaway_token_keys
from secroute.opaque import Words
from tests import generate
from tests.cases import cases

SCHEMA = Schema.from_dict(
    {
        "price": {"type": "number", "low": 0, "high": 1000, "levels": 6},
        "load": {"type": "number", "low": -1.5, "high": 1e15, "levels": 10, "step": 3, "equality": False},
        "dest": {"type": "string", "prefixes": [1, 2, 3], "suffixes": [1, 2], "order_bytes": 2},
        "note": {"type": "string", "qgram": 2, "order_bytes": 1, "equality": False},
        "code": {"type": "string", "prefixes": [3], "suffixes": [4], "qgram": 3},
        "é": {"type": "string", "prefixes": [2], "suffixes": [2], "qgram": 1, "order_bytes": 4, "step": 5},
    }
)
PROFILES = [
    Profile(bits=512, hashes=4),
    Profile(bits=2048, hashes=4, schema=SCHEMA),
    Profile(bits=1024, hashes=1, schema=SCHEMA, implied="existence", cover_disjuncts=8),
    Profile(bits=4096, hashes=7, schema=SCHEMA, implied="coarser", cover_disjuncts=3),
    Profile(bits=512, hashes=3, schema=SCHEMA, hardening=(Hardening.of("pad", popcount=400),)),
    Profile(bits=512, hashes=3, schema=SCHEMA, hardening=(Hardening.of("noise", per_mille=150),)),
    Profile(bits=1024, hashes=5, schema=SCHEMA, hardening=(Hardening.of("drop", per_mille=500, minimum=2),)),
    Profile(
        bits=1024,
        hashes=16,
        schema=SCHEMA,
        implied="coarser",
        hardening=(
            Hardening.of("noise", per_mille=20),
            Hardening.of("pad", popcount=700),
            Hardening.of("drop", per_mille=300, minimum=1),
        ),
    ),
]


def included(filters: Words, message: Words) -> bool:
    """Whether any filter's bits are all in the message: what a router computes."""
    return bool((~(filters & ~message[None, :]).any(axis=1)).any())


BOUNDARIES = (
    "value on the bound",
    "value beside the bound in its bucket",
    "value on the edge of its bucket",
    "value on an end of the domain",
    "value outside the domain",
    "value beyond 2**53",
    "empty string",
    "pattern is the whole value",
    "pattern shorter than the first step",
    "string as long as a step",
)


def boundaries(predicate: Node, message: dict[str, Value]) -> set[str]:
    """Which boundaries a predicate touches with the values of a message."""
    found = set()
    for constraint in constraints(predicate):
        value, bound = message.get(constraint.name), constraint.value
        if isinstance(value, bool) or isinstance(bound, bool) or value is None or bound is None:
            continue
        if isinstance(value, str):
            found |= _text_boundaries(SCHEMA.text(constraint.name), value, bound)
        elif isinstance(bound, int | float):
            found |= _number_boundaries(SCHEMA.number(constraint.name), value, bound)
    return {f"boundary: {name}" for name in found}


def _number_boundaries(index: NumberIndex | None, value: int | float, bound: int | float) -> set[str]:
    touched = {"value on the bound": value == bound, "value beyond 2**53": abs(value) > 2**53}
    if index is not None:
        mine = index.bucket(value)
        step = 1 if isinstance(value, int) else abs(value) * 1e-12
        touched |= {
            "value beside the bound in its bucket": value != bound and mine == index.bucket(bound),
            "value on the edge of its bucket": mine != index.bucket(value - step) or mine != index.bucket(value + step),
            "value on an end of the domain": value in (index.low, index.high),
            "value outside the domain": not index.low <= value <= index.high,
        }
    return {name for name, yes in touched.items() if yes}


def _text_boundaries(index: TextIndex, value: str, bound: Any) -> set[str]:
    touched = {"empty string": value == "" or bound == "", "string as long as a step": len(value) in index.prefixes}
    if isinstance(bound, str):
        touched["pattern is the whole value"] = bound == value
        touched["pattern shorter than the first step"] = bool(index.prefixes) and len(bound) < index.prefixes[0]
    return {name for name, yes in touched.items() if yes}


def seed_of(rng: random.Random) -> bytes:
    return hashlib.sha256(rng.randbytes(16)).digest()


def test_no_false_negative(capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(20080701)
    encoders = [Encoder(p, throwaway_token_keys(p, random_bytes=rng.randbytes)) for p in PROFILES]
    total = matching = matched = passed = batches = 0
    seen: Counter[str] = Counter()
    while total < cases(1_600, 20_000):
        encoder = encoders[batches % len(encoders)]
        batches += 1
        messages = [generate.message(rng) for _ in range(8)]
        predicates = [generate.predicate(rng, message) for message in messages]
        bits = encoder.encode_messages(messages, seed_of(rng))
        for grown_around, predicate in enumerate(predicates):
            try:
                disjuncts(predicate)
            except LimitError:
                continue
            filters = encoder.encode_predicate(predicate, match_all=True).bits
            about = grown_around if rng.random() < 0.5 else rng.randrange(8)
            total += 1
            passed += included(filters, bits[about])
            for row, message in enumerate(messages):
                if not matches(predicate, message):
                    continue
                assert included(filters, bits[row]), (render(predicate), message, encoder.profile)
                matching += row == about
                matched += 1
                seen.update(boundaries(predicate, message))
                seen.update({f"operator {c.op.value}" for c in constraints(predicate)})
                seen.update(f"hardening {h.name}" for h in encoder.profile.hardening)
                seen.update([f"implied {encoder.profile.implied}", f"cover {encoder.profile.cover_disjuncts}"])
    # The pair that counts is a predicate with the message it grew around or with a random one; all are checked.
    share = matching / total
    with capsys.disabled():
        print(f"\n{total} pairs, {share:.0%} match, {passed / total:.0%} pass the router; shares of {matched} matches:")
        for kind in ("operator", "boundary", "hardening", "implied", "cover"):
            shares = (f"{name} {n / matched:.1%}" for name, n in sorted(seen.items()) if name.startswith(kind))
            print("  " + ", ".join(shares))
    wanted = {f"operator {op.value}" for op in Op} | {f"hardening {name}" for name in transforms()}
    wanted |= {f"implied {p.implied}" for p in PROFILES} | {f"cover {p.cover_disjuncts}" for p in PROFILES}
    wanted |= {f"boundary: {name}" for name in BOUNDARIES}
    assert wanted - set(seen) == set()
    assert share >= 0.3


def test_batches_equal_single_messages_and_the_definition() -> None:
    """The vectorised batch path sets the same bits as hashing each token of each value by itself."""
    from secroute.encoding.bloom import as_digests, digest_tokens, positions
    from secroute.encoding.tokens import value_tokens

    rng = random.Random(3)
    profile = PROFILES[1]
    keys = throwaway_token_keys(profile, random_bytes=rng.randbytes)
    encoder = Encoder(profile, keys)
    messages = [generate.message(rng) for _ in range(cases(150, 3_000))]
    batch = encoder.encode_messages(messages)
    for row, message in enumerate(messages):
        expected = np.zeros(profile.bits, bool)
        for name, value in message.items():
            said = as_digests(
                digest_tokens(keys.token_key(name), value_tokens(profile.schema, name, check_value(value)))
            )
            expected[positions(said, profile.bits, profile.hashes).ravel()] = True
        packed = np.packbits(expected, bitorder="little").view("<u8")
        assert (batch[row] == packed).all()
        assert (encoder.encode_messages([message])[0] == packed).all()


def test_different_profiles_are_refused_not_silently_deaf() -> None:
    keys = throwaway_token_keys(PROFILES[1])
    with pytest.raises(ProfileMismatchError, match="profile digest differs"):
        Encoder(PROFILES[2], keys)
    publisher = Encoder(PROFILES[1], keys).scope
    subscriber = Encoder(PROFILES[2], throwaway_token_keys(PROFILES[2])).scope
    with pytest.raises(ProfileMismatchError):
        publisher.require(subscriber)
