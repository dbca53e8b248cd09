"""Mutual TLS for real: certificates as ``secroute keys ca|issue`` makes them, and every way to be refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from secroute.wire import frames
from tests.integration.router.conftest import MakeRouter
from tests.integration.router.raw import SPACE, Authority, RawClient, Router, filters_for, message_batch, wait_for

RULES = f"""
[[client]]
name = "desk-*"
may = ["subscribe"]
[[client]]
name = "feed"
may = ["publish"]
spaces = ["{SPACE.hex()}"]
[[client]]
name = "stranger-feed"
may = ["publish"]
spaces = ["{"ff" * 16}"]
"""


def command(*words: str, cwd: Path) -> None:
    subprocess.run([sys.executable, "-m", "secroute.cli.main", *words], cwd=cwd, check=True, capture_output=True)


def credentials(folder: Path, name: str | None) -> grpc.ChannelCredentials:
    if name is None:
        return grpc.ssl_channel_credentials((folder / "ca.crt").read_bytes())
    parts = [(folder / part).read_bytes() for part in ("ca.crt", f"{name}.key", f"{name}.crt")]
    return grpc.ssl_channel_credentials(*parts)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates as the command line makes them."""
    folder = tmp_path_factory.mktemp("pki")
    command("keys", "ca", "--out", ".", cwd=folder)
    command("keys", "issue", "--ca", ".", "--name", "router", "--role", "router", cwd=folder)
    for name in ("desk-1", "feed", "stranger-feed", "nobody"):
        command("keys", "issue", "--ca", ".", "--name", name, "--role", "client", cwd=folder)
    return folder


@pytest.fixture
def router(make_router: MakeRouter, pki: Path) -> Router:
    """A router with its copy of them."""
    made = make_router(RULES, tls=True)
    shutil.copytree(pki, made.folder, dirs_exist_ok=True)
    return made.start()


async def refused(target: str, given: grpc.ChannelCredentials) -> None:
    """The handshake fails: no frame ever arrives."""
    async with RawClient(target, given) as client:
        with pytest.raises((grpc.aio.AioRpcError, asyncio.TimeoutError, asyncio.CancelledError)):
            await asyncio.wait_for(client.hello(), 15)


async def goodbye_of(target: str, given: grpc.ChannelCredentials) -> frames.Problem:
    async with RawClient(target, given) as client:
        await client.send(frames.Hello())
        problem = (await client.expect(frames.Goodbye)).problem
        assert problem is not None
        return problem


def test_rights_follow_the_certificate(router: Router) -> None:
    async def scenario() -> None:
        folder, target = router.folder, router.target
        async with (
            RawClient(target, credentials(folder, "desk-1")) as desk,
            RawClient(target, credentials(folder, "feed")) as feed,
            RawClient(target, credentials(folder, "stranger-feed")) as stranger,
        ):
            for client in (desk, feed, stranger):
                await client.hello()
            assert (await desk.subscribe(1, filters_for([1]))).problem is None
            assert (await feed.publish(message_batch([1]))).problem is None
            assert await desk.values(1) == [1]
            for problem in (
                (await feed.subscribe(1, filters_for([1]))).problem,
                (await desk.publish(message_batch([1]))).problem,
                (await stranger.publish(message_batch([1]))).problem,
            ):
                assert problem is not None
                assert problem.code == "forbidden"
            # Nobody else is disturbed, and the refused sessions go on.
            assert (await feed.publish(message_batch([1]))).problem is None
            assert await desk.values(1) == [1]
        assert (await goodbye_of(target, credentials(folder, "nobody"))).code == "forbidden"

    asyncio.run(scenario())
    (entry,) = router.events("refused")
    assert (entry["owner"], entry["code"]) == ("nobody", "forbidden")


def test_wrong_certificates_never_get_in(router: Router, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stranger = Authority(other).issue("desk-1")
    command("keys", "issue", "--ca", ".", "--name", "desk-2", "--role", "client", "--days", "1", cwd=router.folder)
    ca = (router.folder / "ca.crt").read_bytes()
    expired = expired_certificate(router.folder, "desk-3")

    async def scenario() -> None:
        await refused(router.target, credentials(router.folder, None))
        await refused(router.target, grpc.ssl_channel_credentials(ca, stranger.key, stranger.certificate))
        await refused(router.target, grpc.ssl_channel_credentials(ca, *expired))
        async with RawClient(router.target, credentials(router.folder, "desk-2")) as client:
            await client.hello()

    asyncio.run(scenario())
    assert len(router.events("session")) == 1
    log = router.log_path.read_text()
    assert "certificate has expired" in log or "CERTIFICATE_VERIFY_FAILED" in log


def expired_certificate(folder: Path, name: str) -> tuple[bytes, bytes]:
    """Key and certificate that were good until yesterday."""
    from secroute.keyring import certificates

    authority = certificates.CertificateAuthority((folder / "ca.crt").read_bytes(), (folder / "ca.key").read_bytes())
    made = certificates.issue(authority, name, "client", now=time.time() - 2 * 86_400, days=1)
    return made.key, made.certificate


def test_a_certificate_without_a_name_is_nobody(router: Router) -> None:
    """It must not become the owner that plaintext connections have, whatever the rules say."""
    text = (router.folder / "router.toml").read_text()
    (router.folder / "router.toml").write_text(text.replace('name = "desk-*"', 'name = "*"'))
    router.signal(signal.SIGHUP)
    wait_for(lambda: router.events("reload"), "the reload")
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate((router.folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((router.folder / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .sign(signer, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    given = grpc.ssl_channel_credentials(
        (router.folder / "ca.crt").read_bytes(), pem, certificate.public_bytes(serialization.Encoding.PEM)
    )

    async def scenario() -> None:
        async with RawClient(router.target, given) as client:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await client.hello()
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(scenario())
    assert not router.events("session")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nothing_older_than_tls_1_3(router: Router, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(router.folder / "ca.crt"))
    context.load_cert_chain(router.folder / "desk-1.crt", router.folder / "desk-1.key")
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    host, port = router.target.rsplit(":", 1)

    def handshake() -> str | None:
        with (
            socket.create_connection((host, int(port)), 10) as plain,
            context.wrap_socket(plain, server_hostname=host) as tls,
        ):
            return tls.version()

    if version is ssl.TLSVersion.TLSv1_2:
        with pytest.raises(OSError, match=r"."):
            handshake()
    else:
        assert handshake() == "TLSv1.3"


def test_plaintext_only_where_nobody_else_listens(make_router: MakeRouter) -> None:
    router = make_router()
    text = (router.folder / "router.toml").read_text()
    (router.folder / "router.toml").write_text(text.replace('listen = "127.0.0.1:0"', 'listen = "0.0.0.0:0"', 1))
    router.spawn()
    assert router.process is not None
    assert router.process.wait(60) == 2
    assert "loopback" in router.events("refused-to-start")[-1]["reason"]
    router.insecure = False  # loopback, but neither [tls] nor --insecure
    router.spawn()
    assert router.process.wait(60) == 2
    assert "--insecure" in router.events("refused-to-start")[-1]["reason"]


def test_certificates_are_read_again_when_they_change(router: Router) -> None:
    """A new CA and new certificates, without a restart: old clients are refused, new ones come in."""
    old = credentials(router.folder, "desk-1")
    for name in ("ca", "router", "desk-1"):
        os.unlink(router.folder / f"{name}.crt")
        os.unlink(router.folder / f"{name}.key")
    command("keys", "ca", "--out", ".", cwd=router.folder)
    command("keys", "issue", "--ca", ".", "--name", "router", "--role", "router", cwd=router.folder)
    command("keys", "issue", "--ca", ".", "--name", "desk-1", "--role", "client", cwd=router.folder)

    async def scenario() -> None:
        async with RawClient(router.target, credentials(router.folder, "desk-1")) as client:
            await client.hello()
        await refused(router.target, old)

    asyncio.run(scenario())
    assert router.events("certificates-reloaded")
