"""Write tokens.json and bits.json: ``python -m tests.vectors.make_encoding_vectors [directory]``.

Both are deterministic, so a second run gives the same bytes (a test checks that). Every case has ``expect``: ``ok``,
or the ``code`` of the error that must be raised.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from secroute.content.selector import parse
from secroute.encoding import tokens
from secroute.encoding.encoder import Encoder
from secroute.encoding.profile import Profile
from secroute.errors import SecrouteError
from secroute.keyring import EpochKeys
from tests.vectors.make_keyring_vectors import seeded

HERE = Path(__file__).parent
Case = dict[str, Any]

SCHEMA: dict[str, Any] = {
    "price": {"type": "number", "low": 0, "high": 4096, "levels": 12},
    "delay": {"type": "number", "low": -64.5, "high": 63.5, "levels": 7, "equality": False},
    "dest": {"type": "string", "prefixes": [1, 2], "suffixes": [1], "qgram": 2},
    "title": {"type": "string", "order_bytes": 2},
}
VALUES: list[tuple[str, Any]] = [
    ("unlisted", 0),
    ("unlisted", -1),
    ("unlisted", 2**53 + 1),
    ("unlisted", 2**63 - 1),
    ("unlisted", 0.5),
    ("unlisted", True),
    ("unlisted", False),
    ("unlisted", ""),
    ("unlisted", "größe"),
    ("price", 0),
    ("price", 100.25),
    ("price", 4096),
    ("price", -7),
    ("price", "cheap"),
    ("delay", 0),
    ("delay", -64.5),
    ("dest", "ATL"),
    ("dest", "A"),
    ("dest", ""),
    ("dest", "東京"),
    ("dest", 7),
    ("title", "zz"),
    ("title", "zebra"),
]
PREDICATES: list[str] = [
    "dest = 'ATL'",
    "dest <> 'ATL'",
    "price = 100",
    "price < 128",
    "price <= 128",
    "price > 4000",
    "price >= 4000",
    "price BETWEEN 100 AND 180",
    "price > 1e9",
    "delay = 3",
    "delay < 0",
    "unlisted < 3",
    "title < 'm'",
    "title >= 'm' AND title < 'n'",
    "dest LIKE 'AT%'",
    "dest LIKE 'ATL%'",
    "dest LIKE '%L'",
    "dest LIKE '%TL%'",
    "dest LIKE 'A%T%L'",
    "dest NOT LIKE 'AT%'",
    "dest NOT LIKE '%L'",
    "dest NOT LIKE '%TL%'",
    "dest NOT LIKE 'A%T%L'",
    "dest IS NOT NULL",
    "dest IS NULL AND price = 1",
    "dest IS NULL",
    "dest IN ('ATL', 'JFK')",
    "flag = TRUE",
    "NOT (price = 1 OR dest = 'ATL')",
    "price = 1 AND price = 2",
]
MESSAGES: list[dict[str, Any]] = [
    {},
    {"dest": "ATL"},
    {"price": 150, "dest": "ATL", "delay": -3.5, "title": "zebra", "flag": True},
    {"price": 2**53 + 1, "unlisted": 0.1},
]
REFUSED_PREDICATES = ["dest = ", "dest = 'ATL", "price = 1e999", "x" * 256 + " = 1", "dest LIKE 7", ""]
REFUSED_PROFILES: list[tuple[str, dict[str, Any]]] = [
    ("bits not a multiple of 64", {"bits": 100}),
    ("more bits than a router takes", {"bits": 1 << 20}),
    ("no hashes", {"hashes": 0}),
    ("a key nobody knows", {"bitts": 64}),
    ("a domain the wrong way round", {"attributes": {"a": {"type": "number", "low": 2, "high": 1, "levels": 4}}}),
    ("a type nobody knows", {"attributes": {"a": {"type": "date"}}}),
    ("a hardening that breaks the law", {"hardening": [{"name": "blip", "rate": 1}]}),
]


def outcome(action: Callable[[], Any]) -> str:
    """``ok`` or the code of the project error an action raises."""
    try:
        action()
    except SecrouteError as error:
        return error.code
    return "ok"


def encoder() -> tuple[Case, Encoder]:
    """An encoder with published keys."""
    draw = seeded("bits")
    space, secret, durable = draw(16), draw(32), draw(32)
    profile = Profile.from_dict({"bits": 512, "hashes": 4, "attributes": SCHEMA})
    keys = EpochKeys(space, 3, profile, secret=secret, durable_secret=durable)
    common = {
        "space": space.hex(),
        "epoch": 3,
        "secret": secret.hex(),
        "durable_secret": durable.hex(),
        "profile": profile.to_dict(),
        "profile_digest": profile.digest.hex(),
    }
    return common, Encoder(profile, keys)


def token_vectors() -> dict[str, Any]:
    """What every kind of value says, and what every operator asks for."""
    _, encode = encoder()
    schema = encode.profile.schema
    values = [
        {"name": name, "value": value, "tokens": [token.hex() for token in tokens.value_tokens(schema, name, value)]}
        for name, value in VALUES
    ]
    predicates = [
        {
            "predicate": text,
            "asks": [
                [[name, token.hex()] for name, token in sorted(asked)]
                for plan in encode.plans(parse(text))
                for asked in plan.asks
            ],
            "expect": "ok",
        }
        for text in PREDICATES
    ]
    refused = [
        {"predicate": text, "asks": [], "expect": outcome(lambda t=text: parse(t))} for text in REFUSED_PREDICATES
    ]  # type: ignore[misc]
    return {
        "about": "values: the tokens a message says by having the value; predicates: for each alternative, the "
        "(attribute, token) pairs a message must say, all of them; no alternative: no message can match",
        "attributes": SCHEMA,
        "values": values,
        "predicates": predicates + refused,
    }


def bit_vectors() -> dict[str, Any]:
    """Bits of messages and predicates under published keys, and profiles that must be refused."""
    common, encode = encoder()
    messages = [
        {"attributes": message, "bits": row.astype("<u8").tobytes().hex()}
        for message, row in zip(MESSAGES, encode.encode_messages(MESSAGES), strict=True)
    ]
    predicates: list[Case] = []
    for text in PREDICATES:
        node = parse(text)
        expect = outcome(lambda node=node: encode.encode_predicate(node))  # type: ignore[misc]
        rows = encode.encode_predicate(node).bits if expect == "ok" else []
        predicates.append(
            {"predicate": text, "bits": [row.astype("<u8").tobytes().hex() for row in rows], "expect": expect}
        )
    profiles = [
        {"name": name, "profile": table, "expect": outcome(lambda table=table: Profile.from_dict(table))}  # type: ignore[misc]
        for name, table in REFUSED_PROFILES
    ]
    return common | {
        "about": "BLAKE2b-512 of a token, keyed with its attribute's token key, personalisation secroute-token-1; "
        "position i is (32-bit little-endian word i of the digest * bits) >> 32; rows are little-endian 64-bit words, "
        "bit b in word b // 64; predicates: one row an alternative",
        "messages": messages,
        "predicates": predicates,
        "profiles": profiles,
    }


def main() -> None:
    """Write both files."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, made in (("tokens", token_vectors()), ("bits", bit_vectors())):
        (directory / f"{name}.json").write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
