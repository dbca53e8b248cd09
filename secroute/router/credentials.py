"""Transport identity: mutual TLS from files, read again whenever they change. UNTRUSTED side.

gRPC's own TLS stack checks the client's certificate chain and dates in the handshake; ``tls13.py`` sees to the version.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import grpc

from secroute.errors import ConfigError
from secroute.router.config import Tls
from secroute.router.logs import Log


class ReloadingIdentity:
    """The router's certificate, key and client CA; every handshake uses the files as they are then."""

    def __init__(self, tls: Tls, log: Log) -> None:
        self._tls = tls
        self._log = log
        self._lock = threading.Lock()
        self._stamp: tuple[tuple[int, int, int], ...] = ()
        self._current = self._read()

    def use(self, tls: Tls) -> None:
        """Other files from now on."""
        self._tls = tls

    def credentials(self) -> grpc.ServerCredentials:
        """For the server; clients without a certificate are refused."""
        # gRPC's own rule, which its type stubs do not know: a fetcher that returns nothing keeps what there is.
        fetch = cast(Callable[[], grpc.ServerCertificateConfiguration], self._fetch)
        return grpc.dynamic_ssl_server_credentials(self._current, fetch, require_client_authentication=True)

    def _read(self) -> grpc.ServerCertificateConfiguration:
        tls = self._tls
        self._stamp = self._stamps()
        try:
            pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
            return grpc.ssl_server_certificate_configuration([pair], tls.client_ca.read_bytes())
        except OSError as error:
            raise ConfigError(f"tls: {error.filename}: {error.strerror}") from None

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        files = (self._tls.certificate, self._tls.key, self._tls.client_ca)
        try:
            return tuple((s.st_mtime_ns, s.st_ino, s.st_size) for s in (file.stat() for file in files))
        except OSError as error:
            raise ConfigError(f"tls: {error.filename}: {error.strerror}") from None

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Asked by gRPC at every handshake; nothing means: as before."""
        with self._lock:
            try:
                if self._stamps() == self._stamp:
                    return None
                self._current = self._read()
            except ConfigError as error:
                self._log.error("certificates-unreadable", reason=str(error))
                return None
            self._log.info("certificates-reloaded")
            return self._current
