"""TRUSTED, pure: fast plaintext matching. The counting forwarder, the pivot engine, the shared BDD, and covering."""

from secroute.exact.batch import MessageBatch
from secroute.exact.columns import Columns
from secroute.exact.csr import Csr
from secroute.exact.table import CountingTable, ExactTable, PivotTable

__all__ = ["Columns", "CountingTable", "Csr", "ExactTable", "MessageBatch", "PivotTable"]
