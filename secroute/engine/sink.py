"""What every compiled strategy shares: which rows still count for a message, and where the answers go.

UNTRUSTED side, pure. Both modes of matching are one: *filters* (no interface array; stop after ``limit`` rows) and
*interfaces* (a row counts only while its interface is open; stop when none is open), so every kernel is written once.

The state of interface i is ``stamp[i]`` against the message's number ``now`` (even, rising): open while
``low <= stamp[i] <= now``, closed for this message by ``now + 1``. Nothing is cleared between messages, so a table
with a million interfaces costs no more a message than one with ten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from secroute.engine.types import Counts, Csr, Dense, Gate, Ints
from secroute.opaque import Words

_njit: Any = njit  # typed so, it takes an option that is not in its signature
leaf: Any = _njit(nogil=True, cache=True, _nrt=False)
"""Compile what neither makes nor keeps arrays, without counting references to them. Those counters are atomic: kernels
that pass arrays to small functions spent half of their time on them."""

NO_INTERFACES: Dense = np.zeros(0, np.int32)
NO_TICKS: Ints = np.zeros(0, np.int64)
OPEN_GATE = Gate(0, NO_TICKS, NO_INTERFACES, NO_TICKS, NO_TICKS, NO_INTERFACES)
_ANSWERS_EXPECTED = 4  # a message; more than fit only make a batch go on with a longer array
Stamps = npt.NDArray[np.int64]


class Asked(NamedTuple):
    """What is asked about a batch: every row (no ``interfaces``), or the interfaces that ``gate`` lets through."""

    interfaces: Dense
    """The interface of every row, in the strategy's own order of rows."""
    live: Counts
    stamp: Stamps
    gate: Gate
    limit: int


def ask_filters(live: Counts, limit: int) -> Asked:
    """Every matching row, at most ``limit`` of them."""
    return Asked(NO_INTERFACES, live, np.zeros(0, np.int64), OPEN_GATE, limit)


def ask_interfaces(interfaces: Dense, count: int, live: Counts, gate: Gate) -> Asked:
    """Every one of ``count`` interfaces that has a matching row and that ``gate`` lets through."""
    return Asked(interfaces, live, np.zeros(count, np.int64), gate, count)


def run_batch(kernel: Callable[..., int], table: tuple[Any, ...], bits: Words, asked: Asked, ticks: Ints) -> Csr:
    """Match ``bits`` with ``kernel(*table, bits, first, asked, offsets, out, ticks)``.

    A kernel returns the number of the first message whose answers did not fit into ``out``.
    """
    offsets = np.zeros(len(bits) + 1, np.int64)
    out = np.empty(_ANSWERS_EXPECTED * len(bits) + 64, np.int64)
    done = kernel(*table, bits, 0, asked, offsets, out, ticks)
    while done < len(bits):
        more = np.empty(2 * len(out), np.int64)
        more[: offsets[done]] = out[: offsets[done]]
        out = more
        asked.stamp[:] = 0
        done = kernel(*table, bits, done, asked, offsets, out, ticks)
    return Csr(offsets, out[: offsets[-1]])


@leaf
def begin_batch(asked: Asked) -> None:
    """Open the interfaces that are allowed for the whole batch."""
    if asked.gate.mode == 1:
        for interface in asked.gate.ids:
            asked.stamp[interface] = 1


@leaf
def begin_message(message: Any, number: int, asked: Asked) -> tuple[int, int, int]:
    """Apply the gate to one message: (low, now, how many answers can come at most)."""
    stamp, gate = asked.stamp, asked.gate
    now = 2 * (number + 1)
    if stamp.size == 0:
        return 0, now, asked.limit
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


@leaf
def admit(row: int, at: int, asked: Asked, low: int, now: int) -> int:
    """The answer that a matching row gives (itself, or its interface, which is closed by it), or -1.

    ``at``: where the row lies in ``asked.interfaces``.
    """
    if asked.live.size and asked.live[row] <= 0:
        return -1
    if asked.interfaces.size == 0:
        return row
    interface = asked.interfaces[at]
    if asked.stamp[interface] < low or asked.stamp[interface] > now:
        return -1
    asked.stamp[interface] = now + 1
    return np.int64(interface)  # type: ignore[return-value]  # compiled: an integer is an integer


@leaf
def put(out: Ints, used: int, value: int) -> int:
    """Write an answer, if there is room; the number of answers, whether written or not."""
    if used < out.size:
        out[used] = value
    return used + 1


@leaf
def end_message(number: int, used: int, offsets: Ints, out: Ints) -> bool:
    """Put the answers ``offsets[number]:used`` in order, without memory; whether they all fitted."""
    if used > out.size:
        return False
    begin = offsets[number]
    gap = 1
    while 9 * gap < used - begin:
        gap = 3 * gap + 1
    while gap:
        for at in range(begin + gap, used):
            value = out[at]
            place = at
            while place >= begin + gap and out[place - gap] > value:
                out[place] = out[place - gap]
                place -= gap
            out[place] = value
        gap //= 3
    offsets[number + 1] = used
    return True
