"""The encoded forwarding table: inclusion kernels, counting, selectivity, covering, live updates.

UNTRUSTED side, pure: bits come in, interface ids go out. Nothing here knows what a bit means.
"""

from secroute.engine.covering import Reduction, advertise, covers, reduce
from secroute.engine.live import LiveMatches, LiveStats, LiveTable
from secroute.engine.strategies import ENGINES, ROUNDS_DEFAULT, require_compiler
from secroute.engine.table import ForwardingTable
from secroute.engine.types import Allowed, Csr
from secroute.engine.warm import warm_up

__all__ = [
    "ENGINES",
    "ROUNDS_DEFAULT",
    "Allowed",
    "Csr",
    "ForwardingTable",
    "LiveMatches",
    "LiveStats",
    "LiveTable",
    "Reduction",
    "advertise",
    "covers",
    "reduce",
    "require_compiler",
    "warm_up",
]
