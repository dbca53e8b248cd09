"""The obvious strategy, in NumPy alone: test every message against every filter. The others are tested against it.

UNTRUSTED side, pure. It needs no compiler, so it is also what ``--engine reference`` runs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from secroute.engine.types import ALL_LIVE, Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

_CELLS_AT_ONCE = 1 << 22  # bounds the memory of one comparison


class ReferenceMatcher:
    """Every filter tested, ``f & m == f``, on whole arrays."""

    def __init__(self, filters: Words, interfaces: Dense, interface_count: int) -> None:
        self._filters = filters
        self._interfaces = interfaces
        self._interface_count = interface_count

    @property
    def nbytes(self) -> int:
        return self._filters.nbytes + self._interfaces.nbytes

    def filters(self, bits: Words, live: Counts, limit: int) -> Csr:
        found = self._pairs(bits, live)
        csr = Csr.of_pairs(*found, len(bits))
        rank = np.arange(len(csr.values)) - np.repeat(csr.offsets[:-1], np.diff(csr.offsets))
        keep = rank < limit
        return Csr.of_pairs(csr.rows_of_values()[keep], csr.values[keep], len(bits))

    def interfaces(self, bits: Words, live: Counts, gate: Gate) -> Csr:
        is_open = self._open(bits, gate)
        messages, rows = self._pairs(bits, live)
        ids = self._interfaces[rows].astype(np.int64)
        keep = is_open[messages, ids] if len(ids) else np.zeros(0, bool)
        return Csr.of_pairs(messages[keep], ids[keep], len(bits), unique=True)

    def _pairs(self, bits: Words, live: Counts) -> tuple[Ints, Ints]:
        """All (message, row) with the row's bits included in the message's."""
        step = max(1, _CELLS_AT_ONCE // max(1, len(self._filters)))
        messages, rows = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for start in range(0, len(bits), step):
            part = bits[start : start + step]
            included = np.ones((len(part), len(self._filters)), bool)
            for word in range(bits.shape[1]):
                column = self._filters[:, word]
                included &= (column[None, :] & ~part[:, word, None]) == 0
            if live is not ALL_LIVE:
                included &= live > 0
            message, row = np.nonzero(included)
            messages.append(message + start)
            rows.append(row)
        return np.concatenate(messages), np.concatenate(rows)

    def _open(self, bits: Words, gate: Gate) -> npt.NDArray[np.bool_]:
        """Which interface is still to be decided, per message."""
        shape = (len(bits), self._interface_count)
        if gate.mode == 0:
            is_open = np.ones(shape, bool)
        else:
            is_open = np.zeros(shape, bool)
            if gate.mode == 1:
                is_open[:, gate.ids] = True
            else:
                for message in range(len(bits)):
                    is_open[message, gate.ids[gate.starts[message] : gate.starts[message + 1]]] = True
        for index, bit in enumerate(gate.det_bits):
            lacks = (bits[:, bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1) == 0
            excluded = gate.det_ids[gate.det_starts[index] : gate.det_starts[index + 1]]
            is_open[np.ix_(lacks, excluded)] = False
        return is_open
