"""The client's transport identity: certificate, private key and the CA to trust. It has nothing to do with content."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from secroute import limits
from secroute.errors import InputError, KeyringError


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """Who we are to routers, PEM."""

    ca: bytes
    certificate: bytes
    key: bytes = field(repr=False)

    @classmethod
    def load(
        cls,
        *,
        ca: str | os.PathLike[str],
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
    ) -> TlsIdentity:
        """From files, as ``secroute keys issue`` makes them."""
        return cls(_read(ca), _read(certificate), _read(key))

    @classmethod
    def named(cls, directory: str | os.PathLike[str], name: str) -> TlsIdentity:
        """``NAME.crt``, ``NAME.key`` and ``ca.crt`` of one directory."""
        where = Path(directory)
        return cls.load(ca=where / "ca.crt", certificate=where / f"{name}.crt", key=where / f"{name}.key")

    def credentials(self) -> grpc.ChannelCredentials:
        """For a gRPC channel."""
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)


def _read(path: str | os.PathLike[str]) -> bytes:
    where = Path(path)
    try:
        with where.open("rb") as stream:
            data = stream.read(limits.KEY_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise KeyringError(f"{where}: {error.strerror}") from None
    if len(data) > limits.KEY_FILE_BYTES_MAX or b"-----BEGIN" not in data:
        raise KeyringError(f"{where}: not a PEM file")
    return data


def parse_targets(target: str | list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """One or more ``host:port``; a string may hold several, separated by commas."""
    parts = target.split(",") if isinstance(target, str) else list(target)
    targets = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not targets:
        raise InputError("no router address; give host:port, or several")
    for one in targets:
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65_536:
            raise InputError(f"{one!r} is not host:port")
    return targets


def require_loopback(targets: tuple[str, ...]) -> None:
    """Raise unless every address is this machine: without an identity the connection is not encrypted."""
    for target in targets:
        host = target.rpartition(":")[0].strip("[]")
        try:
            local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            local = host == "localhost"
        if not local:
            raise InputError(f"{target}: needs an identity (certificate and key); without one only loopback is allowed")
