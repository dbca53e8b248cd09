"""The strategies by name, and how ``auto`` chooses. Compiled ones are imported only when one is asked for.

UNTRUSTED side, pure.
"""

from __future__ import annotations

import numpy as np

from secroute.engine.types import Dense, Matcher
from secroute.errors import EngineError
from secroute.opaque import Words

ENGINES = ("auto", "reference", "scan", "scan-rows", "counting", "tree")
ROUNDS_DEFAULT = 10  # the paper's choice
_ROUNDS_INTERFACES = 1_024
_WIDE_WORDS = 8  # wider and sparse: the tree keeps positions instead of words
_SPARSE_BITS = 96  # set bits of a filter
_SHAPE_ROWS = 1_024
_SMALL_TABLE = 2_000  # below this a scan is over before a tree has been descended


def check_engine(engine: str) -> str:
    """``engine`` if it is a known name."""
    if engine not in ENGINES:
        raise EngineError(f"no engine {engine!r}; there are {', '.join(ENGINES)}")
    return engine


def check_rounds(rounds: int | None) -> int | None:
    """``rounds`` if it is a number of selectivity rounds from 0, or ``None`` for the strategy's own choice."""
    if rounds is not None and (not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 0):
        raise EngineError(f"rounds must be an integer from 0, not {rounds!r}")
    return rounds


def choose_engine(rows: int) -> str:
    """What ``auto`` means for a table of this size."""
    return "scan" if rows < _SMALL_TABLE else "tree"


def choose_rounds(interface_count: int) -> int:
    """Rounds when none were asked for. Excluding very many interfaces one by one costs more than it saves."""
    return ROUNDS_DEFAULT if interface_count <= _ROUNDS_INTERFACES else 0


def make_matcher(engine: str, filters: Words, interfaces: Dense, count: int, messages: Words | None) -> Matcher:
    """The strategy ``engine`` over these rows; ``messages`` are recent ones, from which it may learn frequencies."""
    if engine == "reference":
        from secroute.engine.reference import ReferenceMatcher

        return ReferenceMatcher(filters, interfaces, count)
    require_compiler()
    if engine == "counting":
        from secroute.engine.counting import CountingMatcher

        return CountingMatcher(filters, interfaces, count)
    if engine == "tree":
        from secroute.engine.sparse import SparseTreeMatcher
        from secroute.engine.tree import TreeMatcher

        if filters.shape[1] > _WIDE_WORDS and len(filters) and _mean_bits(filters) < _SPARSE_BITS:
            return SparseTreeMatcher(filters, interfaces, count, messages)
        return TreeMatcher(filters, interfaces, count, messages)
    from secroute.engine.scan import ScanMatcher

    return ScanMatcher(filters, interfaces, count, layout="rows" if engine == "scan-rows" else "columns")


def _mean_bits(filters: Words) -> float:
    """Set bits of a filter, on a sample."""
    some = filters[:: max(1, len(filters) // _SHAPE_ROWS)]
    return float(np.unpackbits(np.ascontiguousarray(some).view(np.uint8)).sum()) / len(some)


def require_compiler() -> None:
    """Raise unless kernels can be compiled here: a slow table that nobody asked for would be a silent failure."""
    try:
        import secroute.engine.scan  # noqa: F401
    except Exception as error:
        raise EngineError(
            f"kernels cannot be compiled here ({type(error).__name__}: {error}); "
            "repair the Numba installation, or accept a slow table with --engine reference"
        ) from error
