"""The engine's vocabulary: CSR results, the small interface behind which every strategy stands, input checks.

UNTRUSTED side, pure. Nothing here compiles anything, so that ``--engine reference`` works where Numba does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from secroute.errors import EmptyFilterError, EngineError
from secroute.opaque import Words, check_words

Ints = npt.NDArray[np.int64]
Dense = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int32]

NO_LIMIT = np.iinfo(np.int64).max


class Csr(NamedTuple):
    """Rows of different lengths: row i is ``values[offsets[i]:offsets[i + 1]]``, ascending."""

    offsets: Ints
    values: Ints

    def row(self, index: int) -> Ints:
        """The values of one row."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def rows_of_values(self) -> Ints:
        """For every value, the row it belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int64), np.diff(self.offsets))

    @classmethod
    def of_pairs(cls, rows: Ints, values: Ints, count: int, *, unique: bool = False) -> Csr:
        """Group (row, value) pairs; ``unique`` drops repeated pairs."""
        order = np.lexsort((values, rows))
        rows, values = rows[order], values[order]
        if unique and len(rows):
            fresh = np.ones(len(rows), bool)
            fresh[1:] = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
            rows, values = rows[fresh], values[fresh]
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
        return cls(offsets, values)

    @classmethod
    def empty(cls, count: int) -> Csr:
        """``count`` rows with nothing in them."""
        return cls(np.zeros(count + 1, np.int64), np.zeros(0, np.int64))

    @classmethod
    def stacked(cls, parts: Sequence[Csr]) -> Csr:
        """The rows of several results one after another (the parts of a batch)."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [np.zeros(1, np.int64), *(part.offsets[1:] + ends[i] for i, part in enumerate(parts))]
        return cls(np.concatenate(offsets), np.concatenate([part.values for part in parts]))


class Matcher(Protocol):
    """One strategy over one immutable set of filters. Rows and interfaces are dense numbers from 0."""

    @property
    def nbytes(self) -> int:
        """Bytes held by the strategy's own arrays."""

    def filters(self, bits: Words, live: Counts, limit: int) -> Csr:
        """Matching rows of every message, at most ``limit`` of them; rows whose ``live`` count is 0 never match."""

    def interfaces(self, bits: Words, live: Counts, gate: Gate) -> Csr:
        """Dense interfaces with at least one matching row that ``gate`` lets through."""


class Gate(NamedTuple):
    """What is settled about interfaces before matching: the broadcast layer's answer and the selectivity rounds.

    ``mode`` 0: every interface is open; 1: ``ids`` are open for the whole batch; 2: ``ids[starts[i]:starts[i + 1]]``
    are open for message i. ``det_*`` is the selectivity table: if a message lacks bit ``det_bits[j]``, the interfaces
    ``det_ids[det_starts[j]:det_starts[j + 1]]`` are excluded; only the first ``rounds`` entries are kept.
    """

    mode: int
    starts: Ints
    ids: Dense
    det_bits: Ints
    det_starts: Ints
    det_ids: Dense

    def part(self, begin: int, end: int) -> Gate:
        """The gate of messages ``begin:end`` of the batch."""
        return self._replace(starts=self.starts[begin : end + 1]) if self.mode == 2 else self


ALL_LIVE: Counts = np.zeros(0, np.int32)
"""The ``live`` argument of a table without tombstones."""


def check_filters(filters: object, *, match_all: bool, what: str = "filters") -> Words:
    """``filters`` if usable: right layout, and no row without bits unless ``match_all`` was asked for."""
    words = check_words(filters, what)
    if not match_all and len(words):
        empty = np.flatnonzero(~words.any(axis=1))
        if len(empty):
            raise EmptyFilterError(f"{what}: row {empty[0]} has no bits and would match everything; ask for match_all")
    return words


def check_width(bits: object, words: int, what: str) -> Words:
    """``bits`` if it has the layout of opaque bits and ``words`` words a row."""
    checked = check_words(bits, what)
    if checked.shape[1] != words:
        raise EngineError(f"{what} are {checked.shape[1]} words wide, the table has {words}")
    return checked


def check_interfaces(interfaces: object, count: int | None = None) -> Ints:
    """Interface ids as ``int64[count]``: integers from 0."""
    ids = np.asarray(interfaces)
    if ids.ndim != 1 or not (np.issubdtype(ids.dtype, np.integer) or ids.size == 0):
        raise EngineError(f"interfaces must be one dimension of integers, not {ids.dtype}{list(ids.shape)}")
    if count is not None and len(ids) != count:
        raise EngineError(f"{len(ids)} interfaces for {count} filters; every filter needs one")
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) > np.iinfo(np.int64).max):
        raise EngineError(f"interface {ids.min()} .. {ids.max()}: ids are integers from 0 to 2**63 - 1")
    return np.ascontiguousarray(ids, dtype=np.int64)


Allowed = None | Sequence[int] | npt.NDArray[np.bool_] | Ints | Csr
"""Which interfaces the broadcast layer allows: ``None`` all; a sequence of interface ids, or a bool mask over ids
(``mask[id]``; ids beyond its length are not allowed), for the whole batch; a ``Csr`` of ids, or ``bool[n, ids]``, per
message. Ids that the table does not have are ignored: they have no filters, so nothing can match on them."""


def resolve_allowed(allowed: Allowed, interfaces: Ints, count: int) -> tuple[int, Ints, Dense]:
    """``allowed`` as (mode, starts, dense ids) of a :class:`Gate`; ``interfaces`` are the table's ids, ascending."""
    none = np.zeros(0, np.int64)
    if allowed is None:
        return 0, none, np.zeros(0, np.int32)
    if isinstance(allowed, Csr):
        return _resolve_rows(allowed, interfaces, count)
    if isinstance(allowed, np.ndarray) and allowed.dtype == np.bool_:
        if allowed.ndim == 2:
            if len(allowed) != count:
                raise EngineError(f"allowed has {len(allowed)} rows for {count} messages")
            rows, ids = np.nonzero(allowed)
            return _resolve_rows(Csr.of_pairs(rows.astype(np.int64), ids.astype(np.int64), count), interfaces, count)
        if allowed.ndim != 1:
            raise EngineError(f"a mask of allowed interfaces has one or two dimensions, not {allowed.ndim}")
        allowed = np.flatnonzero(allowed)
    wanted = check_interfaces(allowed)
    return 1, none, _dense(np.unique(wanted), interfaces)[0]


def _resolve_rows(allowed: Csr, interfaces: Ints, count: int) -> tuple[int, Ints, Dense]:
    ids = check_interfaces(allowed.values)
    offsets = np.asarray(allowed.offsets)
    if offsets.shape != (count + 1,) or not np.issubdtype(offsets.dtype, np.integer):
        raise EngineError(f"allowed must have {count + 1} integer offsets for {count} messages, not {offsets.shape}")
    if offsets[0] != 0 or offsets[-1] != len(ids) or (np.diff(offsets) < 0).any():
        raise EngineError("offsets of allowed must rise from 0 to the number of ids")
    dense, known = _dense(ids, interfaces)
    starts = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(known, out=starts[1:])
    return 2, starts[offsets], dense


def _dense(ids: Ints, interfaces: Ints) -> tuple[Dense, npt.NDArray[np.bool_]]:
    """Positions of the known ``ids`` in ``interfaces`` (ascending), and which ids are known."""
    if not len(interfaces):
        return np.zeros(0, np.int32), np.zeros(len(ids), bool)
    at = np.minimum(np.searchsorted(interfaces, ids), len(interfaces) - 1)
    known = interfaces[at] == ids
    return at[known].astype(np.int32), known


def restrict(found: Csr, allowed: Allowed) -> Csr:
    """``found`` without the interfaces that are not ``allowed``."""
    if allowed is None:
        return found
    count = len(found.offsets) - 1
    rows = found.rows_of_values()
    known = np.unique(found.values)
    mode, starts, dense = resolve_allowed(allowed, known, count)
    if mode == 1:
        keep = np.isin(found.values, known[dense])
    else:
        width = max(1, len(known))
        wanted = Csr(starts, dense.astype(np.int64)).rows_of_values() * width + dense
        keep = np.isin(rows * width + np.searchsorted(known, found.values), wanted)
    return Csr.of_pairs(rows[keep], found.values[keep], count)
