"""Hardening: transforms of bits that make a router learn less, and that cannot break the law.

TRUSTED, pure. The law of no false negatives allows exactly this: messages may only gain bits, filters may only lose
bits, and a transform applied to both must be monotone. ``register`` checks a transform on actual bits before it lets
it in; well-known transforms that break the law are refused by name, with the reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from secroute import limits
from secroute.errors import HardeningError
from secroute.opaque import Words

Apply = Callable[[Words, Mapping[str, int], bytes], Words]
"""(bits[n, W], parameters, 32-byte seed or key) -> bits[n, W]."""

REFUSED = {
    "xor_fold": "folding halves by XOR can clear a message's bit that a filter keeps",
    "rule90": "a cell is the XOR of its neighbours, so more bits in can mean fewer bits out",
    "blip": "flipping bits at random clears bits of messages",
    "balance": "a balanced code stores the complement too, and the complement of a superset is a subset",
    "shuffle_per_message": "a different order for each message makes inclusion meaningless",
}


@dataclass(frozen=True)
class Transform:
    """A kind of hardening: which side it changes, its parameters with their ranges, and how it works."""

    name: str
    side: str
    """``message`` (may only add bits) or ``filter`` (may only drop bits)."""
    parameters: Mapping[str, tuple[int, int]]
    """Whole-number parameters with their inclusive ranges."""
    apply: Apply
    summary: str


_REGISTRY: dict[str, Transform] = {}


def register(transform: Transform) -> Transform:
    """Let a transform in, after it kept the law on actual bits; a transform that does not is refused."""
    if transform.name in REFUSED:
        raise HardeningError(f"{transform.name} breaks the law: {REFUSED[transform.name]}")
    if transform.name in _REGISTRY:
        raise HardeningError(f"a hardening named {transform.name!r} exists already")
    if transform.side not in ("message", "filter"):
        raise HardeningError(f"a hardening changes 'message' or 'filter', not {transform.side!r}")
    check_law(transform)
    _REGISTRY[transform.name] = transform
    return transform


def check_law(transform: Transform, rounds: int = 24, rows: int = 48) -> None:
    """Try a transform on random bits of many widths and fills, at the ends and middle of every parameter."""
    random = np.random.default_rng(20080701)
    for turn in range(rounds):
        words = (1, 2, 3, 8, 32)[turn % 5]
        parameters = {
            name: (low, high, (low + high) // 2, min(high, low + 3))[(turn + i) % 4]
            for i, (name, (low, high)) in enumerate(transform.parameters.items())
        }
        message = _random_bits(random, rows, words, random.uniform(0.05, 0.95))
        filters = message & _random_bits(random, rows, words, random.uniform(0.05, 0.95))
        after_message, after_filter, seed = message, filters, random.bytes(32)
        if transform.side == "message":
            after_message = transform.apply(message.copy(), parameters, seed)
        else:
            after_filter = transform.apply(filters.copy(), parameters, seed)
        if (after_filter & ~after_message).any():
            raise HardeningError(f"{transform.name} breaks the law of no false negatives on actual bits")
        if (filters.any(axis=1) & ~after_filter.any(axis=1)).any():
            raise HardeningError(f"{transform.name} empties a filter, which would then match everything")


def _random_bits(random: np.random.Generator, rows: int, words: int, fill: float) -> Words:
    bits = random.random((rows, words * 64)) < fill
    return np.packbits(bits, axis=1, bitorder="little").view("<u8")


def transforms() -> Mapping[str, Transform]:
    """Every registered transform by name."""
    return dict(_REGISTRY)


@dataclass(frozen=True)
class Hardening:
    """One declared hardening of a profile: a transform with its parameters."""

    name: str
    parameters: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, name: str, /, **parameters: int) -> Hardening:
        """Declare a hardening; unknown names, unknown parameters and values out of range raise."""
        return cls(name, tuple(sorted(parameters.items())))

    def __post_init__(self) -> None:
        name, parameters = self.name, dict(self.parameters)
        if name in REFUSED:
            raise HardeningError(f"{name} breaks the law of no false negatives: {REFUSED[name]}")
        transform = _REGISTRY.get(name)
        if transform is None:
            raise HardeningError(f"no hardening is named {name!r}; there are {', '.join(sorted(_REGISTRY))}")
        if set(parameters) != set(transform.parameters):
            raise HardeningError(f"{name} takes exactly {', '.join(transform.parameters)}")
        for key, value in parameters.items():
            low, high = transform.parameters[key]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise HardeningError(f"{name}: {key} is a whole number from {low} to {high}, not {value!r}")

    @classmethod
    def from_dict(cls, table: object) -> Hardening:
        """Read ``{name = "...", parameter = value}``."""
        if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
            raise HardeningError("a hardening is a table with a name and its parameters")
        return cls(table["name"], tuple(sorted((str(key), value) for key, value in table.items() if key != "name")))

    def to_dict(self) -> dict[str, Any]:
        """The canonical form."""
        return {"name": self.name, **dict(self.parameters)}

    @property
    def transform(self) -> Transform:
        """The kind of hardening."""
        return _REGISTRY[self.name]

    def check_width(self, bits: int) -> None:
        """Raise unless the parameters make sense for filters of this width."""
        for key, value in self.parameters:
            if key == "popcount" and value > bits:
                raise HardeningError(f"{self.name}: popcount {value} is more than the {bits} bits there are")


def apply_side(hardenings: tuple[Hardening, ...], side: str, bits: Words, seed: bytes) -> Words:
    """Apply every hardening of one side in order, each with a seed of its own."""
    for position, hardening in enumerate(hardenings):
        if hardening.transform.side == side:
            own = hashlib.blake2b(position.to_bytes(2, "big"), key=seed, digest_size=32).digest()
            bits = hardening.transform.apply(bits, dict(hardening.parameters), own)
    return bits


# --- the transforms ----------------------------------------------------------------------------------------------


def _stream(seed: bytes, count: int, dtype: str) -> npt.NDArray[Any]:
    """``count`` random numbers from a ChaCha20 key stream."""
    size = count * np.dtype(dtype).itemsize
    data = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update(bytes(size))
    return np.frombuffer(data, dtype)


def _unpack(bits: Words) -> npt.NDArray[np.bool_]:
    return np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little").astype(bool)


def _pack(flags: npt.NDArray[np.bool_]) -> Words:
    return np.ascontiguousarray(np.packbits(flags, axis=1, bitorder="little")).view("<u8")


def _pad(bits: Words, parameters: Mapping[str, int], seed: bytes) -> Words:
    """Set random clear bits until every message has at least ``popcount`` bits set."""
    flags = _unpack(bits)
    rows, width = flags.shape
    missing = np.minimum(parameters["popcount"], width) - flags.sum(axis=1)
    if not rows or (missing <= 0).all():
        return bits
    # A random order of the clear bits, unique because the position is part of the key; set bits come last.
    order = _stream(seed, rows * width, "<u4").reshape(rows, width).astype(np.uint64)
    order = (order << np.uint64(13)) | np.arange(width, dtype=np.uint64)
    order[flags] = np.uint64(1 << 63)
    last = np.take_along_axis(np.sort(order, axis=1), np.maximum(missing - 1, 0)[:, None], axis=1)
    flags |= (order <= last) & (missing > 0)[:, None]
    return _pack(flags)


def _noise(bits: Words, parameters: Mapping[str, int], seed: bytes) -> Words:
    """Set every clear bit with a probability of ``per_mille`` / 1000."""
    rows, words = bits.shape
    limit = round(parameters["per_mille"] * 65536 / 1000)
    added = (_stream(seed, rows * words * 64, "<u2") < limit).reshape(rows, words * 64)
    return bits | _pack(added)


def _drop(bits: Words, parameters: Mapping[str, int], seed: bytes) -> Words:
    """Drop each bit with a probability of ``per_mille`` / 1000, by a PRF of the filter, down to ``minimum`` bits."""
    out = bits.copy()
    limit = round(parameters["per_mille"] * 65536 / 1000)
    for row in range(len(bits)):
        positions = np.flatnonzero(_unpack(bits[row : row + 1])[0])
        own = hashlib.blake2b(bits[row].tobytes(), key=seed, digest_size=32).digest()
        order = _stream(own, len(positions), "<u2")
        # The bits with the lowest numbers go first, so that a minimum keeps the ones least likely to go.
        most = max(0, len(positions) - parameters["minimum"])
        gone = positions[np.argsort(order, kind="stable")[: min(most, int((order < limit).sum()))]]
        np.bitwise_and.at(out[row], gone // 64, ~(np.uint64(1) << (gone % 64).astype(np.uint64)))
    return out


register(
    Transform(
        "pad",
        "message",
        {"popcount": (1, limits.FILTER_BITS_MAX)},
        _pad,
        "random bits are added until a message has at least this many: hides how many attributes it has",
    )
)
register(
    Transform(
        "noise",
        "message",
        {"per_mille": (0, 900)},
        _noise,
        "every clear bit is set with this probability: two equal messages no longer look equal",
    )
)
register(
    Transform(
        "drop",
        "filter",
        {"per_mille": (0, 900), "minimum": (1, 256)},
        _drop,
        "filters lose bits by a keyed function of the filter: fewer bits to recognise a token by",
    )
)
