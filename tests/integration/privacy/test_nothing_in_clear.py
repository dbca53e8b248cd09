"""A router, its disk, its words and everybody on the way learn no name, no value, no predicate and no key.

Everything that the router receives and writes is searched for planted secrets, in clear, UTF-16, hexadecimal, base64.
Over plaintext as well as over TLS: what protects content is its encoding, not the transport.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from secroute.bench.router_lab import Lab, RouterProcess
from secroute.client import Client, Options, connect
from secroute.encoding.profile import Profile
from secroute.encoding.schema import Schema
from secroute.errors import RefusedError
from secroute.keyring import OwnerKeyring
from tests.integration.privacy.haystack import found_in
from tests.integration.privacy.tap import Tap

NAMES = ("destination-airport", "ticketprice", "PassengerRemark")
VALUES = ("Llanfairpwllgwyngyll", "Tegucigalpa-Toncontin", "remarkable-blue-suitcase")
NUMBER, DURABLE, SPACE_NAME = 918_273_645_546, "night-desk-of-mrs-dalloway", "voyages-to-laputa"
PAYLOAD = b"the parcel is under the third willow"
PREDICATES = (
    f"\"{NAMES[0]}\" = '{VALUES[0]}' AND {NAMES[1]} < 1000000000000",
    f"{NAMES[2]} LIKE 'remarkable-%' OR \"{NAMES[0]}\" = '{VALUES[1]}'",
)
SCHEMA = Schema.from_dict(
    {
        NAMES[1]: {"type": "number", "low": 0, "high": 2**40, "levels": 8},
        NAMES[2]: {"type": "string", "prefixes": [4, 8]},
    }
)


def planted(keyring: OwnerKeyring) -> list[bytes]:
    """Every secret: words of the application, and all keys."""
    words = [*NAMES, *VALUES, *PREDICATES, DURABLE, SPACE_NAME, "remarkable-", str(NUMBER)]
    keys: list[bytes] = []
    for epoch in keyring.subscribing(time.time()):
        record = epoch.to_record()
        keys += [base64.urlsafe_b64decode(record["secret"] + "=="), epoch.payload_key(), epoch.hardening_key()]
        keys += [epoch.token_key(name) for name in NAMES]
        keys.append(epoch.token_only().export_token_root())
    return [*(word.encode() for word in words), PAYLOAD, NUMBER.to_bytes(8, "little"), NUMBER.to_bytes(8, "big"), *keys]


async def traffic(lab: Lab, target: str, keyring: OwnerKeyring) -> None:
    """Everything a client can do, errors and a durable subscription that stays behind included."""
    options = Options(backoff_first_s=0.02)

    def client(name: str) -> Client:
        return connect(target, keyring=keyring, identity=lab.identity(name), options=options)

    async with client("desk-clear") as desk, client("feed") as feed:
        async with desk.subscribe(PREDICATES[0], durable=DURABLE) as kept, desk.subscribe(PREDICATES[1]) as ordinary:
            message = {NAMES[0]: VALUES[0], NAMES[1]: NUMBER, NAMES[2]: VALUES[2]}
            await feed.publish(message, PAYLOAD)
            await feed.publish({NAMES[0]: VALUES[1]}, PAYLOAD, best_effort=True)
            got = await kept.next(10)
            assert got is not None
            assert got.attributes[NAMES[0]] == VALUES[0]
            assert got.payload == PAYLOAD
            await got.retry()  # and dead letters, and redelivery
            again = await kept.next(10)
            assert again is not None
            await again.reject()
            for _ in range(2):
                assert await ordinary.next(10) is not None
        await feed.publish(message, PAYLOAD)  # waits on disk
        assert (await desk.durables())[0].queued >= 1
        with pytest.raises(RefusedError):
            await desk.delete_durable(VALUES[2])


def written_by(router: RouterProcess) -> dict[str, bytes]:
    """Store files, logs, configuration, metrics and admin answers."""
    found = {str(path.name): path.read_bytes() for path in router.directory.rglob("*") if path.is_file()}
    assert {"store.db", "router.log"} <= found.keys()
    with urllib.request.urlopen(f"http://127.0.0.1:{router.metrics_port}/metrics", timeout=10) as answer:
        found["metrics"] = answer.read()
    return found


def admin_answers(lab: Lab, router: RouterProcess, where: Path) -> bytes:
    words = ["--insecure"] if lab.insecure else ["--identity", str(where / "admin")]
    if not lab.insecure:
        lab.save_identity("admin", where)
    out = b""
    for command in (["status"], ["epochs"], ["durable"], ["top", "--count", "1"]):
        line = [sys.executable, "-m", "secroute.cli.main", "router", *command, "--router", router.target, *words]
        out += subprocess.run(line, capture_output=True, check=True, timeout=60).stdout
    return out


def memory_of(pid: int) -> bytes:
    """What is in the process's memory, as far as it may be read."""
    pieces = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            if not rights.startswith("rw"):
                continue
            low, high = (int(end, 16) for end in span.split("-"))
            try:
                memory.seek(low)
                pieces.append(memory.read(high - low))
            except OSError:
                continue
    return b"".join(pieces)


@pytest.mark.parametrize("insecure", [True, False], ids=["plaintext", "tls"])
def test_nothing_is_in_clear(insecure: bool, tmp_path: Path) -> None:
    profile = Profile.for_schema(SCHEMA, attributes=3)
    keyring = OwnerKeyring.new(SPACE_NAME, profile, now=time.time() - 10)
    with Lab(insecure=insecure) as lab:
        router = lab.router()

        async def scenario() -> Tap:
            async with Tap(router.target) as tap:
                await traffic(lab, tap.target, keyring)
                return tap

        tap = asyncio.run(scenario())
        places = {"received": bytes(tap.up), "answered": bytes(tap.down), **written_by(router)}
        places["admin answers"] = admin_answers(lab, router, tmp_path)
        memory = b""
        if insecure:
            with contextlib.suppress(PermissionError):  # a machine that forbids it
                memory = memory_of(router.pid)
        space = keyring.publishing(time.time()).scope.space
    secrets = planted(keyring)
    for place, content in places.items():
        assert found_in(content, secrets) == [], place
    assert [secret for secret in secrets if secret in memory] == []
    assert not memory or space in memory
    # The search finds what is there: the space's visible id, and the certificate's name.
    assert found_in(places["store.db"] + places.get("store.db-wal", b""), [space]) == [space]
    assert found_in(places["admin answers"], [space]) == [space]
    if not insecure:
        assert found_in(places["router.log"], [b"desk-clear"]) == [b"desk-clear"]
    visible = found_in(places["received"], [space])
    assert visible == ([space] if insecure else [])


def test_the_search_finds_every_spelling() -> None:
    secret = b"Tegucigalpa-Toncontin"
    for skip in range(3):
        around = b"x" * skip + secret + b"yz"
        for text in (around, base64.b64encode(around), base64.urlsafe_b64encode(around), around.hex().encode()):
            assert found_in(b"??" + text + b"??", [secret]) == [secret], text
    assert found_in("…Tegucigalpa-Toncontin…".encode("utf-16-le"), [secret]) == [secret]
    assert found_in(b"Tegucigalpa", [secret]) == []
