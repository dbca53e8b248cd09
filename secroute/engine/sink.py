"""What every compiled strategy shares: which rows still count for a message, and where the answers go.

UNTRUSTED side, pure. Both modes of matching are one: *filters* (no interface array; stop after ``limit`` rows) and
*interfaces* (a row counts only while its interface is open; stop when none is open), so every kernel is written once.

The state of interface i is ``stamp[i]`` against the message's number ``now`` (even, rising): open while
``low <= stamp[i] <= now``, closed for this message by ``now + 1``. Nothing is cleared between messages, so a table
with a million interfaces costs no more a message than one with ten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from secroute.engine.types import Counts, Dense, Gate, Ints

_FEW_ANSWERS = 48
NO_INTERFACES: Dense = np.zeros(0, np.int32)
NO_TICKS: Ints = np.zeros(0, np.int64)
OPEN_GATE = Gate(0, NO_TICKS, NO_INTERFACES, NO_TICKS, NO_TICKS, NO_INTERFACES)
Stamps = npt.NDArray[np.int64]


@njit(nogil=True, cache=True)
def begin_batch(stamp: Stamps, gate: Gate) -> None:
    """Open the interfaces that are allowed for the whole batch."""
    if gate.mode == 1:
        for interface in gate.ids:
            stamp[interface] = 1


@njit(nogil=True, cache=True)
def begin_message(message: Any, number: int, stamp: Stamps, gate: Gate, limit: int) -> tuple[int, int, int]:
    """Apply the gate to one message: (low, now, how many answers can come at most)."""
    now = 2 * (number + 1)
    if stamp.size == 0:
        return 0, now, limit
    low = gate.mode
    remaining = stamp.size
    if gate.mode == 1:
        remaining = gate.ids.size
    elif gate.mode == 2:
        low = now
        remaining = 0
        for at in range(gate.starts[number], gate.starts[number + 1]):
            if stamp[gate.ids[at]] != now:
                stamp[gate.ids[at]] = now
                remaining += 1
    for entry in range(gate.det_bits.size):
        if remaining == 0:
            break
        bit = gate.det_bits[entry]
        if (message[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
            continue
        for at in range(gate.det_starts[entry], gate.det_starts[entry + 1]):
            interface = gate.det_ids[at]
            if low <= stamp[interface] <= now:
                stamp[interface] = now + 1
                remaining -= 1
    return low, now, remaining


@njit(nogil=True, cache=True)
def admit(row: int, live: Counts, interfaces: Dense, stamp: Stamps, low: int, now: int) -> int:
    """The answer that a matching row gives (itself, or its interface, which is closed by it), or -1."""
    if live.size and live[row] <= 0:
        return -1
    if interfaces.size == 0:
        return row
    interface = interfaces[row]
    if stamp[interface] < low or stamp[interface] > now:
        return -1
    stamp[interface] = now + 1
    return np.int64(interface)  # type: ignore[return-value]  # compiled: an integer is an integer


@njit(nogil=True, cache=True)
def put(out: Ints, used: int, value: int) -> Ints:
    """``out`` with ``value`` at ``used``, twice as long if it was full."""
    if used == out.size:
        longer = np.empty(2 * out.size + 16, np.int64)
        longer[:used] = out
        out = longer
    out[used] = value
    return out


@njit(nogil=True, cache=True)
def sort_answers(out: Ints, begin: int, end: int) -> None:
    """Put the answers of one message in order; few ones by insertion, which needs no memory."""
    if end - begin > _FEW_ANSWERS:
        out[begin:end].sort()
        return
    for at in range(begin + 1, end):
        value = out[at]
        place = at
        while place > begin and out[place - 1] > value:
            out[place] = out[place - 1]
            place -= 1
        out[place] = value
