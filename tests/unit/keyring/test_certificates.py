"""Development certificates: the chain holds, names and roles are where a router looks, and TLS takes them."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secroute.errors import KeyringError
from secroute.keyring.certificates import CertificateAuthority, IssuedCertificate, issue, make_ca

NOW = time.time()
CA = make_ca(now=NOW)


def parsed(issued: IssuedCertificate) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.certificate)


def alternative(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_names_hosts_and_roles() -> None:
    router = parsed(issue(CA, "r1.example", "router", now=NOW, hosts=["10.0.0.7", "r1.internal"]))
    names = alternative(router)
    assert names.get_values_for_type(x509.DNSName) == ["r1.example", "r1.internal"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["secroute:role:router"]
    assert router.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "r1.example"
    client = parsed(issue(CA, "desk-7", "client", now=NOW))
    assert alternative(client).get_values_for_type(x509.DNSName) == ["desk-7"]
    assert client.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)[0].value == "client"
    usage = client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    loopback = alternative(parsed(issue(CA, "r1", "router", now=NOW)))
    assert "localhost" in loopback.get_values_for_type(x509.DNSName)


def context(tmp_path: Path, issued: IssuedCertificate, purpose: ssl.Purpose) -> ssl.SSLContext:
    certificate, key = tmp_path / f"{issued.name}.crt", tmp_path / f"{issued.name}.key"
    certificate.write_bytes(issued.certificate)
    key.write_bytes(issued.key)
    context = ssl.create_default_context(purpose, cadata=issued.ca.decode())
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> str:
    """A whole mutual handshake in memory; the client's name as the server saw it."""
    a_in, a_out, b_in, b_out = (ssl.MemoryBIO() for _ in range(4))
    caller = client.wrap_bio(a_in, a_out, server_hostname=host)
    answer = server.wrap_bio(b_in, b_out, server_side=True)
    pending: list[ssl.SSLObject] = [caller, answer]
    for _ in range(10):
        for side in list(pending):
            try:
                side.do_handshake()
                pending.remove(side)
            except ssl.SSLWantReadError:
                pass
            b_in.write(a_out.read())
            a_in.write(b_out.read())
    assert not pending
    peer = answer.getpeercert()
    assert peer is not None
    return str(dict(pair[0] for pair in peer["subject"])["commonName"])  # type: ignore[misc,index]


def test_a_mutual_handshake(tmp_path: Path) -> None:
    server = context(tmp_path, issue(CA, "r1", "router", now=NOW), ssl.Purpose.CLIENT_AUTH)
    client = context(tmp_path, issue(CA, "desk", "client", now=NOW), ssl.Purpose.SERVER_AUTH)
    assert shake(server, client, "localhost") == "desk"
    assert shake(server, client, "127.0.0.1") == "desk"
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server, client, "elsewhere.example")


def test_another_ca_or_a_clients_certificate_does_not_serve(tmp_path: Path) -> None:
    stranger = context(tmp_path, issue(make_ca(now=NOW), "r1", "router", now=NOW), ssl.Purpose.CLIENT_AUTH)
    client = context(tmp_path, issue(CA, "desk", "client", now=NOW), ssl.Purpose.SERVER_AUTH)
    with pytest.raises(ssl.SSLError):
        shake(stranger, client, "localhost")
    pretender = context(tmp_path, issue(CA, "localhost", "client", now=NOW), ssl.Purpose.CLIENT_AUTH)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(pretender, client, "localhost")


def test_a_leaf_never_outlives_its_ca() -> None:
    short = make_ca(now=NOW, days=2)
    ends = [x509.load_pem_x509_certificate(pem).not_valid_after_utc for pem in (short.certificate,)]
    assert parsed(issue(short, "x", "client", now=NOW, days=90)).not_valid_after_utc == ends[0]
    with pytest.raises(KeyringError, match="has expired"):
        issue(short, "x", "client", now=NOW + 3 * 86_400)


def test_wrong_arguments_are_refused() -> None:
    for name in ("", "a b", "-x", "x" * 65, "a..b", "ü", "../x"):
        with pytest.raises(KeyringError, match="cannot name a certificate"):
            issue(CA, name, "client", now=NOW)
    with pytest.raises(KeyringError, match="no role 'root'"):
        issue(CA, "x", "root", now=NOW)  # type: ignore[arg-type]
    with pytest.raises(KeyringError, match="only a router's certificate names hosts"):
        issue(CA, "x", "client", now=NOW, hosts=["localhost"])
    with pytest.raises(KeyringError, match="neither a host name nor an IP address"):
        issue(CA, "x", "router", now=NOW, hosts=["not a host"])
    with pytest.raises(KeyringError, match="lives"):
        make_ca(now=NOW, days=0)
    with pytest.raises(KeyringError, match="does not belong"):
        issue(CertificateAuthority(CA.certificate, make_ca(now=NOW).key), "x", "client", now=NOW)
    with pytest.raises(KeyringError, match="damaged"):
        issue(CertificateAuthority(b"", b""), "x", "client", now=NOW)


def test_private_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(CA)
    assert "PRIVATE" not in repr(issue(CA, "x", "client", now=NOW))
