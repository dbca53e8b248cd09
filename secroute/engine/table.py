"""The forwarding table: an immutable snapshot of interfaces and their encoded filters, CBF(m, B, T).

UNTRUSTED side, pure. It checks what comes from outside, stores identical filters of an interface once, applies the
determinants, and leaves the matching to a strategy; the answer is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.engine.dedupe import expand, store_once
from secroute.engine.determinants import SelectivityTable, determinants, selectivity
from secroute.engine.strategies import check_engine, check_rounds, choose_engine, choose_rounds, make_matcher
from secroute.engine.types import (
    ALL_LIVE,
    NO_LIMIT,
    Allowed,
    Counts,
    Csr,
    Gate,
    Ints,
    Matcher,
    check_filters,
    check_interfaces,
    check_width,
    resolve_allowed,
)
from secroute.errors import EngineError, LimitError
from secroute.opaque import Words

_THREADS_MAX = 64


class ForwardingTable:
    """Interfaces with their filters, as they are now. Build a new one to change it, or use :class:`LiveTable`."""

    def __init__(
        self, words: int, engine: str, matcher: Matcher, interfaces: Ints, table: SelectivityTable, copies: Csr | None,
        rows: int,
    ) -> None:  # fmt: skip
        """For :meth:`build` only."""
        self.words = words
        self.engine = engine
        self.interfaces = interfaces
        """Every interface id, ascending."""
        self.rounds = len(table.bits)
        """Selectivity rounds that are applied: as many as asked for and useful."""
        self.matcher = matcher
        """The strategy; measurements ask it directly."""
        self._selectivity = table
        self._copies = copies
        self._rows = rows

    @classmethod
    def build(
        cls, filters: Words, interfaces: npt.ArrayLike, *, engine: str = "auto", rounds: int | None = None,
        match_all: bool = False, messages: Words | None = None, distinct: bool = False,
    ) -> ForwardingTable:  # fmt: skip
        """Build from ``uint64[N, W]`` filters and the interface id of each.

        ``rounds``: selectivity rounds before matching (``None``: the strategy's choice). ``match_all`` allows filters
        without bits. ``messages``: recent ones, from whose bit frequencies the grouping may learn.
        ``distinct``: the caller knows that no interface has a filter twice.
        """
        check_engine(engine)
        check_rounds(rounds)
        filters = check_filters(filters, match_all=match_all)
        if messages is not None:
            messages = check_width(messages, filters.shape[1], "sample messages")
        if len(filters) > limits.TABLE_FILTERS_MAX:
            raise LimitError(f"{len(filters)} filters, at most {limits.TABLE_FILTERS_MAX} in one table")
        ids, dense = np.unique(check_interfaces(interfaces, len(filters)), return_inverse=True)
        owners = dense.reshape(-1).astype(np.int32)
        copies = None
        if not distinct:
            keep, copies = store_once(filters, owners)
            if copies is not None:
                filters, owners = np.ascontiguousarray(filters[keep]), owners[keep]
        if engine == "auto":
            engine = choose_engine(len(filters))
        if rounds is None:
            rounds = choose_rounds(len(ids))
        masks = determinants(filters, owners, len(ids)) if rounds else np.zeros((0, filters.shape[1]), np.uint64)
        matcher = make_matcher(engine, filters, owners, len(ids), messages)
        return cls(filters.shape[1], engine, matcher, ids, selectivity(masks, rounds), copies, len(filters))

    def __len__(self) -> int:
        """How many filters are stored (identical ones of an interface count once)."""
        return self._rows

    def __repr__(self) -> str:
        return f"ForwardingTable({self._rows} filters, {len(self.interfaces)} interfaces, {self.engine})"

    @property
    def nbytes(self) -> int:
        """Bytes that the table holds."""
        copies = 0 if self._copies is None else sum(array.nbytes for array in self._copies)
        return self.matcher.nbytes + self._selectivity.nbytes + self.interfaces.nbytes + copies

    @property
    def bytes_per_filter(self) -> float:
        """Bytes held, shared out over the stored filters."""
        return self.nbytes / max(1, self._rows)

    def forward(self, bits: Words, allowed: Allowed = None, *, threads: int = 1, live: Counts = ALL_LIVE) -> Csr:
        """The interfaces that each message of ``uint64[n, W]`` must be sent to, within those ``allowed``.

        ``live`` switches off filters without a rebuild: filter row i counts only while ``live[i] > 0`` (tombstones;
        only for tables built without duplicates).
        """
        bits = check_width(bits, self.words, "messages")
        self._check_live(live)
        gate = self.gate(len(bits), allowed)
        matcher = self.matcher
        found = _in_threads(lambda a, b: matcher.interfaces(bits[a:b], live, gate.part(a, b)), len(bits), threads)
        return Csr(found.offsets, self.interfaces[found.values])

    def gate(self, count: int, allowed: Allowed = None) -> Gate:
        """What is settled about interfaces before ``count`` messages are matched: for strategies asked directly."""
        return Gate(*resolve_allowed(allowed, self.interfaces, count), *self._selectivity)

    def match_filters(self, bits: Words, *, threads: int = 1, limit: int = NO_LIMIT, live: Counts = ALL_LIVE) -> Csr:
        """The filter rows (as given to :meth:`build`, duplicates included) that match each message, no short cuts.

        With a ``limit``, at most that many *stored* filters a message, whichever are found first.
        """
        bits = check_width(bits, self.words, "messages")
        self._check_live(live)
        if limit < 1:
            raise EngineError(f"limit must be at least 1, not {limit}")
        matcher = self.matcher
        found = _in_threads(lambda a, b: matcher.filters(bits[a:b], live, limit), len(bits), threads)
        return found if self._copies is None else expand(found, self._copies)

    def _check_live(self, live: Counts) -> None:
        if live.size == 0 and self._rows:
            return
        if live.dtype != np.int32 or live.shape != (self._rows,) or self._copies is not None:
            raise EngineError(f"live must be int32[{self._rows}] over a table without duplicates")


def _in_threads(run: Callable[[int, int], Csr], count: int, threads: int) -> Csr:
    """``run(begin, end)`` over a batch of ``count`` messages, split over ``threads`` (kernels hold no lock)."""
    if not isinstance(threads, int) or not 1 <= threads <= _THREADS_MAX:
        raise EngineError(f"threads must be 1..{_THREADS_MAX}, not {threads!r}")
    threads = min(threads, count)
    if threads <= 1:
        return run(0, count)
    bounds = [count * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        return Csr.stacked(list(pool.map(run, bounds[:-1], bounds[1:])))
