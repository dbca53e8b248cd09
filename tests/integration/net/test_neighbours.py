"""Neighbours that lie, strangers, mixed schemes: refused or isolated with a clear word, and the rest goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute.bench.net_lab import Network
from secroute.cli.main import main
from secroute.client import Options, connect
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring
from secroute.opaque import Scope
from secroute.overlay.adverts import Page, sign_page
from secroute.overlay.linkstate import router_id, sign
from secroute.wire._generated import overlay_pb2_grpc
from secroute.wire.link_frames import (
    LinkFrame,
    LinkGoodbye,
    LinkHello,
    LinkProof,
    LinkStateFrame,
    LinkSynced,
    PageFrame,
    decode_link_frame,
    encode_link_frame,
)
from tests.integration.net.conftest import MakeNetwork

QUICK = Options(backoff_first_s=0.02, backoff_max_s=0.1, attempt_timeout_s=1.0)
LIAR = Ed25519PrivateKey.from_private_bytes(b"l" * 32)
SCOPE = Scope(b"s" * 16, 1, b"p" * 32)


class Stream:
    """A link to a router, spoken by hand with the certificate of a neighbour (or of somebody else)."""

    def __init__(self, net: Network, to: str, certificate: str, name: str) -> None:
        folder = net.folder / certificate
        files = [folder / "ca.crt", folder / "router.key", folder / "router.crt"]
        if not folder.exists():
            files = [net.folder / f for f in ("ca.crt", f"{certificate}.key", f"{certificate}.crt")]
        self._credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        self._target, self.name, self.key, self.theirs = net.target(to), name, LIAR, b""

    async def __aenter__(self) -> Stream:
        self._channel = grpc.aio.secure_channel(self._target, self._credentials)
        self._call = overlay_pb2_grpc.OverlayStub(self._channel).Link()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def write(self, frame: LinkFrame) -> None:
        with contextlib.suppress(grpc.aio.AioRpcError):  # it may have hung up already; goodbye() says why
            await self._call.write(encode_link_frame(frame))

    async def read(self) -> LinkFrame | None:
        message = await self._call.read()
        return None if message is grpc.aio.EOF else decode_link_frame(message)

    async def shake_hands(self, scheme: str = "pif", public: bytes | None = None) -> None:
        own = self.key.public_key().public_bytes_raw()
        claimed = public or own
        await self.write(LinkHello(self.name, claimed, b"n" * 32, scheme))
        hello = await self.read()
        if isinstance(hello, LinkHello):
            self.theirs = hello.public_key
            body = b"secroute/link/1" + hello.nonce + b"n" * 32 + claimed + hello.public_key
            await self.write(LinkProof(self.key.sign(body)))
        else:
            self.refusal = hello

    async def goodbye(self) -> str:
        """The reason with which the router ends the link."""
        if isinstance(getattr(self, "refusal", None), LinkGoodbye):
            return self.refusal.problem.message  # type: ignore[no-any-return,union-attr]
        async with asyncio.timeout(10):
            while True:
                frame = await self.read()
                if isinstance(frame, LinkGoodbye):
                    assert frame.problem is not None
                    return frame.problem.message
                assert frame is not None, "the stream ended without a word"


def reason(net: Network, behave: Callable[[Stream], Awaitable[Any]], certificate: str = "r2", name: str = "r2") -> str:
    """What router r1 says to somebody who behaves like this."""

    async def work() -> str:
        async with Stream(net, "r1", certificate, name) as stream:
            await behave(stream)
            return await stream.goodbye()

    end = time.monotonic() + 20
    while True:
        said = asyncio.run(work())
        if "a moment ago" not in said or time.monotonic() > end:
            return said
        time.sleep(0.5)  # it was isolated for its last lie; it may come back to tell the next one


def delivers(net: Network) -> bool:
    """Whether r0 and r1 still carry messages."""

    async def work() -> bool:
        keyring = OwnerKeyring.new("f", Profile(bits=512), now=time.time() - 10)
        arguments = {"keyring": keyring, "identity": net.identity(), "options": QUICK}
        async with (
            connect(net.target("r0"), **arguments) as publisher,
            connect(net.target("r1"), **arguments) as receiver,
            receiver.subscribe("a = 1") as messages,
        ):
            for _ in range(20):  # until r0 has heard what is asked for at r1
                await publisher.publish({"a": 1})
                if await messages.next(0.5) is not None:
                    return True
            return False

    return asyncio.run(work())


def test_liars_are_isolated_and_the_rest_goes_on(make_network: MakeNetwork) -> None:
    net = make_network("line:3", start=False)
    net.start("r0", "r1")
    net.wait_whole()
    public = LIAR.public_key().public_bytes_raw()
    stranger = Ed25519PrivateKey.from_private_bytes(b"x" * 32).public_key().public_bytes_raw()
    good = sign_page(LIAR, Page(public, 1, 0, SCOPE, False, np.ones((1, 2), np.uint64)))

    def page(**changes: Any) -> PageFrame:
        fields = {name: getattr(good, name) for name in PageFrame.__slots__}
        return PageFrame(**{**fields, **changes})

    async def another_identity(stream: Stream) -> None:
        await stream.shake_hands(public=stranger)

    async def flipped_bit(stream: Stream) -> None:
        await stream.shake_hands()
        await stream.write(page(bits=np.full((1, 2), 3, np.uint64)))

    async def forged_link_state(stream: Stream) -> None:
        await stream.shake_hands()
        state = sign(LIAR, 5, {router_id(stream.theirs): 1})
        await stream.write(LinkStateFrame(stranger, 7, 7, state.links, state.signature))

    async def speaks_for_the_router_itself(stream: Stream) -> None:
        await stream.shake_hands()
        await stream.write(page(public_key=stream.theirs, sequence=10**9))

    assert "has not proved the key" in reason(net, another_identity)
    assert "is not signed by it" in reason(net, flipped_bit)
    assert "is not signed by it" in reason(net, forged_link_state)
    assert "is not signed by it" in reason(net, speaks_for_the_router_itself)
    assert delivers(net)


def test_old_words_and_wanting_everything_do_no_harm(make_network: MakeNetwork) -> None:
    """A neighbour may ask for everything: that is its right as a receiver; it gets what it asks for, others theirs."""
    net = make_network("line:3", start=False)
    net.start("r0", "r1")
    net.wait_whole()
    public = LIAR.public_key().public_bytes_raw()

    async def work() -> None:
        async with Stream(net, "r1", "r2", "r2") as stream:
            await stream.shake_hands()
            everything = sign_page(LIAR, Page(public, 9, 0, SCOPE, False, np.zeros((1, 2), np.uint64)))
            wide = sign_page(LIAR, Page(public, 10, 1, SCOPE, False, np.ones((3, 100), np.uint64)))
            for each in (everything, wide):
                fields = {name: getattr(each, name) for name in PageFrame.__slots__}
                await stream.write(PageFrame(**fields))
            state = sign(LIAR, 5, {router_id(stream.theirs): 1})
            fields = {name: getattr(state, name) for name in LinkStateFrame.__slots__}
            for _ in range(2000):  # a flood of old words
                await stream.write(LinkStateFrame(**fields))
            await stream.write(LinkSynced(b"s" * 16))
            assert await asyncio.to_thread(delivers, net)

    asyncio.run(work())
    assert delivers(net)


def test_strangers_and_other_names_are_refused(make_network: MakeNetwork) -> None:
    net = make_network("line:3", start=False)
    net.start("r1")

    async def polite(stream: Stream) -> None:
        await stream.shake_hands()

    assert "cannot speak for router" in reason(net, polite, certificate="client", name="r2")
    assert "cannot speak for router" in reason(net, polite, certificate="r2", name="r0")
    assert "no [[neighbour]]" in reason(net, polite, certificate="client", name="client")


def test_a_network_with_mixed_schemes_is_refused(make_network: MakeNetwork) -> None:
    net = make_network("line:2", start=False)
    config = net.folder / "r1" / "router.toml"
    config.write_text(config.read_text().replace('scheme = "pif"', 'scheme = "drp"'))
    net.start()
    end = time.monotonic() + 10
    while time.monotonic() < end:
        said = [json.loads(line) for line in net.log("r1").read_text().splitlines() if "link-refused" in line]
        if said:
            break
        time.sleep(0.05)
    assert "a network uses one routing scheme; drp here, pif at router 'r0'" in said[0]["reason"]
    answer = net.ask("r0")
    assert answer is not None
    assert not answer[0].links[0].up


def test_net_up_status_down(tmp_path: Any, capfd: Any) -> None:
    folder = tmp_path / "net"
    file = tmp_path / "triangle.toml"
    file.write_text("".join(f'[[link]]\na = "{a}"\nb = "{b}"\n' for a, b in ("xy", "yz", "xz")))
    assert main(["net", "up", "--topology", str(file), "--folder", str(folder)]) == 0
    try:
        assert main(["net", "up", "--folder", str(folder)]) == 2
        assert (
            main(["net", "status", "--folder", str(folder), "--seconds", "0.1", "--dot", str(tmp_path / "n.dot")]) == 0
        )
        out, err = capfd.readouterr()
        seen = json.loads(out.splitlines()[-1])
        assert seen["whole"]
        assert all(router["sees"] == 3 for router in seen["routers"].values())
        assert "-- y  0 filters behind it" in err
        assert '"x" -- "y"' in (tmp_path / "n.dot").read_text()
    finally:
        assert main(["net", "down", "--folder", str(folder)]) == 0
    assert not folder.exists()
    assert main(["net", "status", "--folder", str(folder)]) == 2


def test_two_routers_that_both_dial_settle_on_one_link(make_network: MakeNetwork) -> None:
    """The one that comes back may dial or be dialled; either way there is one link soon, and it stays."""
    net = make_network("line:2", start=False)
    config = net.folder / "r1" / "router.toml"
    config.write_text(config.read_text().replace('name = "r0"', f'name = "r0"\naddress = "{net.target("r0")}"', 1))
    net.start()
    net.wait_whole()
    for name in ("r0", "r1", "r0"):
        net.kill(name)
        net.start(name)
        net.wait_whole()
    time.sleep(2.5)  # longer than the longest pause between two dials

    def links_made() -> int:
        return sum((net.folder / name / "router.log").read_text().count('"link-up"') for name in net.names)

    settled = links_made()
    time.sleep(2.5)
    assert links_made() == settled
    assert delivers(net)
