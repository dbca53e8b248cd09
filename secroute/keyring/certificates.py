"""A development CA and mTLS certificates: the transport's identity, which has nothing to do with content keys.

TRUSTED side for convenience; routers get certificates from here but never import it. P-256 keys, because gRPC's TLS
does not take Ed25519. A router authorises a peer by the certificate's name (common name and first DNS SAN); the role
stands in the subject's organisational unit and in the SAN URI ``secroute:role:<role>``.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from secroute.encoding.derivation import KeyHandle
from secroute.errors import KeyringError

Role = Literal["router", "client", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
DEFAULT_CA_DAYS = 3_650
DEFAULT_LEAF_DAYS = 90
_BACKDATE = datetime.timedelta(minutes=5)  # clocks differ
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class CertificateAuthority(KeyHandle):
    """A CA's certificate and private key, PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class IssuedCertificate(KeyHandle):
    """A certificate, its private key and the CA certificate to trust, PEM."""

    name: str
    role: Role
    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes


def make_ca(name: str = "secroute development CA", *, now: float, days: int = DEFAULT_CA_DAYS) -> CertificateAuthority:
    """A fresh CA that can sign leaf certificates and nothing below them."""
    if not 0 < len(name) <= 64:
        raise KeyringError("a CA's name has 1..64 characters")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(subject, subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return CertificateAuthority(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def issue(
    ca: CertificateAuthority,
    name: str,
    role: Role,
    *,
    now: float,
    hosts: Sequence[str] | None = None,
    days: int = DEFAULT_LEAF_DAYS,
) -> IssuedCertificate:
    """A certificate for one router or client; a router's also names its hosts (loopback if none are given)."""
    if role not in ROLES:
        raise KeyringError(f"no role {role!r}; one of {', '.join(ROLES)}")
    if not _is_dns_name(name):
        raise KeyringError(f"{name!r} cannot name a certificate: letters, digits, dots and hyphens, at most 64")
    if hosts and role != "router":
        raise KeyringError(f"only a router's certificate names hosts, not that of a {role}")
    issuer, issuer_key = _load_ca(ca)
    names = [name, *(LOOPBACK_HOSTS if hosts is None and role == "router" else hosts or ())]
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, name),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, role),
        ]
    )
    # Routers also call one another, so theirs serve on both ends of a connection.
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if role == "router" else [])]
    role_uri = x509.UniformResourceIdentifier(f"secroute:role:{role}")
    alternative = [*(_general_name(host) for host in dict.fromkeys(names)), role_uri]
    certificate = (
        _builder(subject, issuer.subject, key.public_key(), now, days, not_after_limit=issuer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternative), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    return IssuedCertificate(name, role, pem, _key_pem(key), ca.certificate)


def _load_ca(ca: CertificateAuthority) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate(ca.certificate)
        key = serialization.load_pem_private_key(ca.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyringError("the CA's certificate or key is damaged: not PEM, or sealed") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise KeyringError("the CA's key does not belong to its certificate")
    return certificate, key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: float,
    days: int,
    not_after_limit: datetime.datetime | None = None,
) -> x509.CertificateBuilder:
    if not 1 <= days <= 36_500:
        raise KeyringError("a certificate lives 1..36500 days")
    start = datetime.datetime.fromtimestamp(int(now), datetime.UTC)
    end = start + datetime.timedelta(days=days)
    if not_after_limit is not None:
        if not_after_limit <= start:
            raise KeyringError("the CA's certificate has expired; make a new CA")
        end = min(end, not_after_limit)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATE)
        .not_valid_after(end)
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _is_dns_name(host):
            raise KeyringError(f"{host!r} is neither a host name nor an IP address") from None
        return x509.DNSName(host)


def _is_dns_name(name: str) -> bool:
    return 0 < len(name) <= 64 and all(_LABEL.fullmatch(label) for label in name.split("."))


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
