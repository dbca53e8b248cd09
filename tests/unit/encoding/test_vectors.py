"""The published vectors of tokens and bits hold, also for an encoder written from their description alone."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest

from secroute.content.selector import parse
from secroute.encoding import tokens
from secroute.encoding.encoder import Encoder
from secroute.encoding.profile import Profile
from secroute.encoding.schema import Schema
from secroute.errors import SecrouteError
from secroute.keyring import EpochKeys
from tests.vectors import make_encoding_vectors as made

TOKENS = json.loads((made.HERE / "tokens.json").read_text("utf-8"))
BITS = json.loads((made.HERE / "bits.json").read_text("utf-8"))


def keys() -> EpochKeys:
    secret, durable = bytes.fromhex(BITS["secret"]), bytes.fromhex(BITS["durable_secret"])
    profile = Profile.from_dict(BITS["profile"])
    return EpochKeys(bytes.fromhex(BITS["space"]), BITS["epoch"], profile, secret=secret, durable_secret=durable)


def plain_bits(said: list[tuple[str, bytes]]) -> str:
    """Bits of some tokens, straight from the description in the file."""
    size, row, epoch = BITS["profile"]["bits"], 0, keys()
    for name, token in said:
        digest = hashlib.blake2b(token, key=epoch.token_key(name), person=b"secroute-token-1").digest()
        for word in struct.unpack("<16I", digest)[: BITS["profile"]["hashes"]]:
            row |= 1 << (word * size >> 32)
    return row.to_bytes(size // 8, "little").hex()


def test_files_are_what_their_script_makes() -> None:
    assert made.token_vectors() == TOKENS
    assert made.bit_vectors() == BITS


@pytest.mark.parametrize("case", TOKENS["values"], ids=lambda case: f"{case['name']}={case['value']!r}")
def test_values_say_these_tokens(case: dict[str, Any]) -> None:
    said = tokens.value_tokens(Schema.from_dict(TOKENS["attributes"]), case["name"], case["value"])
    assert [token.hex() for token in said] == case["tokens"]


@pytest.mark.parametrize("case", TOKENS["predicates"], ids=lambda case: case["predicate"][:40])
def test_predicates_ask_for_these_tokens(case: dict[str, Any]) -> None:
    encoder = Encoder(keys().profile, keys())
    if case["expect"] != "ok":
        with pytest.raises(SecrouteError) as caught:
            parse(case["predicate"])
        assert caught.value.code == case["expect"]
        return
    asks = [asked for plan in encoder.plans(parse(case["predicate"])) for asked in plan.asks]
    assert [[[name, token.hex()] for name, token in sorted(asked)] for asked in asks] == case["asks"]


@pytest.mark.parametrize("case", BITS["messages"], ids=lambda case: str(case["attributes"])[:40])
def test_bits_of_messages(case: dict[str, Any]) -> None:
    epoch = keys()
    bits = Encoder(epoch.profile, epoch).encode_messages([case["attributes"]])
    assert np.asarray(bits[0], "<u8").tobytes().hex() == case["bits"]
    said = [
        (name, token)
        for name, value in case["attributes"].items()
        for token in tokens.value_tokens(epoch.profile.schema, name, value)
    ]
    assert plain_bits(said) == case["bits"]


@pytest.mark.parametrize("case", BITS["predicates"], ids=lambda case: case["predicate"][:40])
def test_bits_of_predicates(case: dict[str, Any]) -> None:
    epoch = keys()
    encoder = Encoder(epoch.profile, epoch)
    if case["expect"] != "ok":
        with pytest.raises(SecrouteError) as caught:
            encoder.encode_predicate(parse(case["predicate"]))
        assert caught.value.code == case["expect"]
        return
    rows = encoder.encode_predicate(parse(case["predicate"])).bits
    assert [np.asarray(row, "<u8").tobytes().hex() for row in rows] == case["bits"]
    asked = next(one["asks"] for one in TOKENS["predicates"] if one["predicate"] == case["predicate"])
    plain = [plain_bits([(name, bytes.fromhex(token)) for name, token in alternative]) for alternative in asked]
    assert set(case["bits"]) <= set(plain)


@pytest.mark.parametrize("case", BITS["profiles"], ids=lambda case: case["name"])
def test_profiles_that_are_refused(case: dict[str, Any]) -> None:
    with pytest.raises(SecrouteError) as caught:
        Profile.from_dict(case["profile"])
    assert caught.value.code == case["expect"]
