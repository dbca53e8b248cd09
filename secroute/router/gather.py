"""One kernel: copy byte ranges of a buffer one after another. Compiled if Numba works here, else by numpy indexing.

UNTRUSTED side, pure. The reference exists for ``--engine reference``; both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Kernel = Callable[[Bytes, Ints, Ints, Bytes], None]

_kernel: list[Kernel] = []


def _copy_ranges(source: Bytes, starts: Ints, offsets: Ints, target: Bytes) -> None:
    for i in range(len(starts)):
        length = offsets[i + 1] - offsets[i]
        target[offsets[i] : offsets[i + 1]] = source[starts[i] : starts[i] + length]


def use_compiled() -> None:
    """Compile the kernel (or load it from the cache) and use it from now on; raises what Numba raises."""
    import numba

    compiled: Kernel = numba.njit(nogil=True, cache=True)(_copy_ranges)
    compiled(np.zeros(8, np.uint8), np.zeros(1, np.int64), np.array([0, 8]), np.empty(8, np.uint8))
    read_only = np.frombuffer(b"12345678", np.uint8)
    compiled(read_only, np.zeros(1, np.int64), np.array([0, 8]), np.empty(8, np.uint8))
    _kernel[:] = [compiled]


def gather_bytes(source: Bytes, starts: Ints, offsets: Ints) -> Bytes:
    """The ranges ``source[starts[i]:][:offsets[i + 1] - offsets[i]]`` one after another."""
    if _kernel:
        target = np.empty(int(offsets[-1]), np.uint8)
        _kernel[0](source, starts, offsets, target)
        return target
    return gather_reference(source, starts, offsets)


def gather_reference(source: Bytes, starts: Ints, offsets: Ints) -> Bytes:
    """The same by one index per byte."""
    shifts = np.repeat(starts - offsets[:-1], np.diff(offsets))
    gathered: Bytes = source[shifts + np.arange(offsets[-1])]
    return gathered
