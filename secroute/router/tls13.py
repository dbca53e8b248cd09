"""TLS 1.3 and nothing older, for gRPC in this process. UNTRUSTED side.

gRPC's Python API cannot set a lowest version, and its C library reads its settings once, when it is loaded. So: leave
TLS 1.2 a single cipher suite that needs a pre-shared key. Nobody has one, and every TLS 1.2 handshake fails; the suites
of TLS 1.3 are not in that list and stay.
"""

from __future__ import annotations

import os
import sys

from secroute.errors import ConfigError

_NO_TLS12 = "ECDHE-PSK-AES128-CBC-SHA"


def require_tls13() -> None:
    """Call before gRPC is imported; raises if that is too late."""
    if "grpc" in sys.modules and os.environ.get("GRPC_SSL_CIPHER_SUITES") != _NO_TLS12:
        raise ConfigError("tls: gRPC was loaded before it could be restricted to TLS 1.3")
    os.environ["GRPC_SSL_CIPHER_SUITES"] = _NO_TLS12
