"""TRUSTED, pure: fast plaintext matching. The counting forwarder, the pivot engine, the shared BDD, and covering.

``BddTable`` needs the package ``dd`` with CUDD and is imported only when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from secroute.exact.batch import MessageBatch
from secroute.exact.columns import Columns
from secroute.exact.csr import Csr
from secroute.exact.reduction import covers, reduce
from secroute.exact.table import CountingTable, ExactTable, PivotTable

if TYPE_CHECKING:
    from secroute.exact.bdd import BddTable

__all__ = [
    "BddTable",
    "Columns",
    "CountingTable",
    "Csr",
    "ExactTable",
    "MessageBatch",
    "PivotTable",
    "covers",
    "reduce",
]


def __getattr__(name: str) -> Any:
    if name == "BddTable":
        from secroute.exact.bdd import BddTable

        return BddTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
