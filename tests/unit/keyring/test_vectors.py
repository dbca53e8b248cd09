"""The published vectors hold: they open or fail as declared, and a plain reading of the text gives the same keys."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secroute.encoding.profile import Profile
from secroute.encoding.seal import Opener
from secroute.errors import SecrouteError
from secroute.keyring import EpochKeys, Identity
from secroute.keyring.grants import open_grant
from secroute.keyring.records import Record
from secroute.opaque import Scope
from tests.vectors import make_keyring_vectors

VECTORS = Path(__file__).parents[2] / "vectors"
Case = dict[str, Any]


def load(name: str) -> Case:
    content: Case = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def cases(name: str) -> list[Any]:
    content = load(name)
    common = {key: value for key, value in content.items() if key not in {"cases", "about"}}
    return [pytest.param(common | case, id=str(case.get("name", i))) for i, case in enumerate(content["cases"])]


def check(case: Case, run: Any) -> None:
    """Run, and hold the outcome against the declared one."""
    if case["expect"] == "ok":
        run()
        return
    with pytest.raises(SecrouteError) as error:
        run()
    assert error.value.code == case["expect"]


@pytest.mark.parametrize("case", cases("derivation"))
def test_derivation(case: Case) -> None:
    def run() -> None:
        keys = EpochKeys(
            bytes.fromhex(case["space"]),
            case["epoch"],
            Profile.default(),
            secret=bytes.fromhex(case["secret"]),
            durable_secret=bytes.fromhex(case["durable_secret"]),
        )
        assert keys.token_only().export_token_root().hex() == case["token_root"]
        assert {name: keys.token_key(name).hex() for name in case["token_keys"]} == case["token_keys"]
        assert keys.hardening_key().hex() == case["hardening_key"]
        assert keys.payload_key().hex() == case["payload_key"]
        assert {name: keys.durable_name(name).hex() for name in case["durable_names"]} == case["durable_names"]

    check(case, run)


def plain_hkdf(secret: bytes, length: int, *parts: bytes) -> str:
    """RFC 5869 from its text, one block, with our framing of the info."""
    info = b"".join(len(part).to_bytes(4, "big") + part for part in (b"secroute/v1", *parts))
    extracted = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)[:length].hex()


def test_derivation_by_another_hand() -> None:
    for case in load("derivation")["cases"]:
        if case["expect"] != "ok":
            continue
        secret, durable = bytes.fromhex(case["secret"]), bytes.fromhex(case["durable_secret"])
        space, epoch = bytes.fromhex(case["space"]), case["epoch"].to_bytes(4, "big")
        root = plain_hkdf(secret, 32, b"token-root", space, epoch)
        assert root == case["token_root"]
        assert plain_hkdf(secret, 32, b"payload", space, epoch) == case["payload_key"]
        assert plain_hkdf(bytes.fromhex(root), 32, b"hardening", space, epoch) == case["hardening_key"]
        for name, key in case["token_keys"].items():
            assert plain_hkdf(bytes.fromhex(root), 32, b"token", space, epoch, name.encode()) == key
        for name, key in case["durable_names"].items():
            assert plain_hkdf(durable, 16, b"durable-name", space, name.encode()) == key


@pytest.mark.parametrize("case", cases("sealed"))
def test_sealed(case: Case) -> None:
    def run() -> None:
        scope = Scope(bytes.fromhex(case["space"]), case["epoch"], bytes.fromhex(case["profile"]))
        row = np.frombuffer(bytes.fromhex(case["bits"]), "<u8")
        opener = Opener({scope: bytes.fromhex(case["payload_key"])})
        opened = opener.open(scope, bytes.fromhex(case["id"]), row, bytes.fromhex(case["sealed"]))
        assert opened.body.hex() == case["body"]
        assert opened.publisher.hex() == case["publisher"]
        assert opened.session.hex() == case["salt"]
        assert (opened.sequence, opened.signed) == (case["sequence"], case["signed"])

    check(case, run)


@pytest.mark.parametrize("case", cases("grants"))
def test_grants(case: Case) -> None:
    def run() -> None:
        identity = Identity.from_record(Record(case["identity"], "vector"))
        pinned = None if case["pinned_owner"] is None else bytes.fromhex(case["pinned_owner"])
        opened = open_grant(
            case["grant"].encode(),
            identity,
            now=case["now"],
            pinned_owner=pinned,
            last_sequence=case["last_sequence"],
        )
        assert opened.header.space.hex() == case["space"]
        assert opened.header.owner.hex() == case["owner"]
        assert {str(epoch.number): epoch.payload_key().hex() for epoch in opened.epochs} == case["epochs"]

    check(case, run)


def test_the_vectors_are_what_their_maker_makes() -> None:
    for name, make in (("derivation", make_keyring_vectors.derivation), ("sealed", make_keyring_vectors.sealed)):
        assert json.loads(json.dumps(make())) == load(name)
    fresh, published = make_keyring_vectors.grants(), load("grants")
    assert [(case["name"], case["expect"]) for case in fresh["cases"]] == [
        (case["name"], case["expect"]) for case in published["cases"]
    ]


def test_the_vectors_declare_failures() -> None:
    for name in ("derivation", "sealed", "grants"):
        outcomes = {case["expect"] for case in load(name)["cases"]}
        assert "ok" in outcomes
        assert len(outcomes) >= 3
