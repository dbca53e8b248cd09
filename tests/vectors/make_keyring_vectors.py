"""Write derivation.json, sealed.json and grants.json: ``python -m tests.vectors.make_keyring_vectors [directory]``.

Derivation and sealing are deterministic, so a second run gives the same bytes (a test checks that). HPKE draws its
own ephemeral key, so every run gives other grants; what is published is that these open, or fail, as declared.
Every case has ``expect``: ``ok``, or the ``code`` of the error that must be raised.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute.encoding.profile import Profile
from secroute.encoding.seal import Sealer
from secroute.keyring import EpochKeys, MemberKeyring, OwnerKeyring
from secroute.opaque import Scope

HERE = Path(__file__).parent
NOW = 1_800_000_000
Case = dict[str, Any]


def seeded(seed: str) -> Callable[[int], bytes]:
    """Random bytes that are the same in every run."""
    counter = iter(range(1 << 30))
    return lambda size: hashlib.shake_256(f"secroute vectors/{seed}/{next(counter)}".encode()).digest(size)


def derivation() -> dict[str, Any]:
    """Every key of an epoch, from its secrets."""
    draw = seeded("derivation")
    profile = Profile(bits=512, hashes=4)
    cases: list[Case] = []
    for number in (0, 1, 2**32 - 1):
        space, secret, durable = draw(16), draw(32), draw(32)
        keys = EpochKeys(space, number, profile, secret=secret, durable_secret=durable)
        attributes = ["dest", "price", "device-type", "a.b", "größe", "x" * 255]
        cases.append(
            {
                "space": space.hex(),
                "epoch": number,
                "secret": secret.hex(),
                "durable_secret": durable.hex(),
                "token_root": keys.token_only().export_token_root().hex(),
                "token_keys": {name: keys.token_key(name).hex() for name in attributes},
                "hardening_key": keys.hardening_key().hex(),
                "payload_key": keys.payload_key().hex(),
                "durable_names": {name: keys.durable_name(name).hex() for name in ("desk-7", "größe")},
                "expect": "ok",
            }
        )
    for name in ("", "x" * 256, "ü" * 128):
        cases.append(cases[0] | {"token_keys": {name: ""}, "durable_names": {}, "expect": "limit"})
    cases.append(cases[0] | {"secret": "00" * 31, "expect": "keyring"})
    return {
        "about": "HKDF-SHA256, no salt; info = the parts, each behind its length in 4 bytes, big endian: "
        "'secroute/v1', purpose, context. token-root, payload: secret; (space, epoch in 4 bytes). token: token root; "
        "(space, epoch, name). hardening: token root; (space, epoch). durable-name: durable secret; (space, name), "
        "16 bytes",
        "cases": cases,
    }


def sealed() -> dict[str, Any]:
    """Sealed payloads that open, and altered ones that must not."""
    draw = seeded("sealed")
    payload_key, salt = draw(32), draw(16)
    signing = Ed25519PrivateKey.from_private_bytes(draw(32))
    publisher = signing.public_key().public_bytes_raw()
    scope = Scope(draw(16), 3, draw(32))
    bodies = [b"", b"hello", draw(300), b'{"dest":"ATL"}']
    ids = [draw(16) for _ in bodies]
    bits = np.frombuffer(draw(8 * 8 * len(bodies)), "<u8").reshape(len(bodies), 8)
    cases: list[Case] = []
    for signed in (False, True):
        sealer = Sealer(payload_key, scope, publisher=publisher, salt=salt, signer=signing.sign if signed else None)
        for i, data in enumerate(sealer.seal_batch(ids, bits, bodies)):
            cases.append(
                {
                    "name": f"{'signed' if signed else 'plain'} {i}",
                    "id": ids[i].hex(),
                    "bits": bits[i].tobytes().hex(),
                    "sealed": data.hex(),
                    "sequence": i,
                    "body": bodies[i].hex(),
                    "signed": signed,
                    "expect": "ok",
                }
            )
    common = {
        "payload_key": payload_key.hex(),
        "salt": salt.hex(),
        "signing_key": signing.private_bytes_raw().hex(),
        "publisher": publisher.hex(),
        "space": scope.space.hex(),
        "epoch": scope.epoch,
        "profile": scope.profile.hex(),
    }
    return common | {"cases": cases + _sealed_failures(cases[1], cases[2])}


def _sealed_failures(good: Case, other: Case) -> list[Case]:
    data = bytes.fromhex(good["sealed"])

    def flipped(position: int) -> str:
        return (data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]).hex()

    changes: list[tuple[str, Case, str]] = [
        ("one bit of the ciphertext flipped", {"sealed": flipped(60)}, "seal"),
        ("one bit of the tag flipped", {"sealed": flipped(len(data) - 1)}, "seal"),
        ("one bit of the counter flipped", {"sealed": flipped(24)}, "seal"),
        ("one bit of the masked salt flipped", {"sealed": flipped(1)}, "seal-header"),
        ("one bit of the header check flipped", {"sealed": flipped(30)}, "seal-header"),
        ("another version", {"sealed": flipped(0)}, "seal"),
        ("cut short by one byte", {"sealed": data[:-1].hex()}, "seal"),
        ("cut to its header", {"sealed": data[:41].hex()}, "seal"),
        ("nothing", {"sealed": ""}, "seal"),
        ("another message's id", {"id": other["id"]}, "seal-header"),
        ("another message's bits", {"bits": other["bits"]}, "seal-header"),
        ("another message's header", {"id": other["id"], "bits": other["bits"]}, "seal-header"),
        ("another epoch", {"epoch": 4}, "seal-header"),
        ("another profile", {"profile": "00" * 32}, "seal-header"),
        ("another space", {"space": "00" * 16}, "seal-header"),
        ("another payload key", {"payload_key": "00" * 32}, "seal-header"),
    ]
    return [good | {"name": name, "expect": code} | change for name, change, code in changes]


def grants() -> dict[str, Any]:
    """Grants that a member accepts, and ones it must refuse."""
    profile = Profile(bits=512, hashes=4)
    owner = OwnerKeyring.new("flights", profile, now=NOW, random_bytes=seeded("grants/owner"))
    stranger = OwnerKeyring.new("flights", profile, now=NOW, random_bytes=seeded("grants/stranger"))
    desk = MemberKeyring.new(random_bytes=seeded("grants/desk"))
    other = MemberKeyring.new(random_bytes=seeded("grants/other"))
    owner.rotate(now=NOW, activates_s=NOW + 3_600, random_bytes=seeded("grants/rotate"))
    grant = owner.grant("desk", desk.identity.public, now=NOW, valid_s=86_400)
    later = owner.grant("desk", now=NOW + 10, valid_s=86_400)
    good = {"now": NOW, "pinned_owner": owner.owner.hex(), "last_sequence": 0, "grant": grant.decode()}
    parts, newer = json.loads(grant), json.loads(later)

    def mixed(field: str) -> str:
        return json.dumps(parts | {field: newer[field]})

    changes: list[tuple[str, Case, str]] = [
        ("first accept, nobody pinned", {"pinned_owner": None}, "ok"),
        ("owner pinned", {}, "ok"),
        ("a newer one", {"grant": later.decode(), "now": NOW + 10, "last_sequence": NOW}, "ok"),
        ("the same again", {"last_sequence": NOW}, "grant-rollback"),
        ("expired", {"now": NOW + 86_400}, "grant-expired"),
        ("not yet valid", {"now": NOW - 301}, "grant-expired"),
        (
            "for somebody else",
            {"grant": owner.grant("other", other.identity.public, now=NOW).decode()},
            "grant-recipient",
        ),
        (
            "by another owner",
            {"grant": stranger.grant("desk", desk.identity.public, now=NOW).decode()},
            "grant-signature",
        ),
        ("with a newer grant's header", {"grant": mixed("header")}, "grant-signature"),
        ("with a newer grant's inside", {"grant": mixed("sealed")}, "grant-signature"),
        ("with a newer grant's signature", {"grant": mixed("signature")}, "grant-signature"),
        ("cut short", {"grant": grant.decode()[:-10]}, "keyring-damaged"),
        ("another version", {"grant": json.dumps(parts | {"version": 2})}, "grant"),
        ("an unknown field", {"grant": json.dumps(parts | {"x": 1})}, "keyring-damaged"),
    ]
    return {
        "identity": desk.identity.to_record(),
        "space": owner.space.hex(),
        "owner": owner.owner.hex(),
        "epochs": {epoch.number: epoch.payload_key().hex() for epoch in owner.timeline.epochs},
        "cases": [good | {"name": name, "expect": code} | change for name, change, code in changes],
    }


def main(directory: Path) -> None:
    """Write the three files."""
    for name, content in (("derivation", derivation()), ("sealed", sealed()), ("grants", grants())):
        text = json.dumps(content, indent=1, ensure_ascii=False)
        (directory / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
