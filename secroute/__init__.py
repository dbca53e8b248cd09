"""secroute: content routing over routers that nobody has to trust.

This root stays empty of imports on purpose: importing any untrusted package (engine, overlay, wire, router, sim)
must not load a trusted one (content, exact, keyring, encoding, client, audit).
"""

__version__ = "0.1.0"
