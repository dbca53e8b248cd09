"""How many random cases a test runs: few in ``make test``, the full number in ``make soak``."""

from __future__ import annotations

import os

SOAK = os.environ.get("SECROUTE_SOAK") == "1"


def cases(quick: int, full: int) -> int:
    """``quick`` normally, ``full`` when SECROUTE_SOAK=1."""
    return full if SOAK else quick
