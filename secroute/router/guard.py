"""The duplicate guard: has this message (id and AEAD tag) been committed before? UNTRUSTED side.

A memory-mapped Bloom filter answers "surely not" for nearly every new message; only what it says "maybe" to is looked
up in the exact table, so its false positives never drop a message. The exact table is the store's ``seen`` segments,
found through sorted 8-byte fingerprints in memory. Two generations: the older one is dropped whole, at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pybloomfilter import BloomFilter

from secroute.opaque import EncodedBatch

KEY_BYTES = 32
TAG_BYTES = 16
_ERROR_RATE = 0.001

Keys = npt.NDArray[np.uint8]
Prints = npt.NDArray[np.uint64]


def keys_of(batch: EncodedBatch) -> Keys:
    """``uint8[n, 32]``: id and last 16 payload bytes of every message (shorter payloads are padded with zeros)."""
    tags = np.zeros((len(batch), TAG_BYTES), np.uint8)
    ends = batch.offsets[1:]
    where = ends[:, None] - TAG_BYTES + np.arange(TAG_BYTES)
    inside = where >= batch.offsets[:-1][:, None]
    if inside.all():
        tags = batch.payloads[where]
    elif len(batch.payloads):
        tags = np.where(inside, batch.payloads[np.clip(where, 0, None)], 0).astype(np.uint8)
    return np.ascontiguousarray(np.concatenate((batch.ids, tags), axis=1))


def _prints(keys: Keys) -> Prints:
    """A fingerprint per key; ids are random, and a clash only costs one exact comparison."""
    words = keys.view("<u8")
    return np.asarray(words[:, 0] ^ (words[:, 2] << np.uint64(1)))


@dataclass(slots=True)
class _Generation:
    """Keys of one stretch of time: a Bloom filter and sorted runs of (fingerprint, segment)."""

    bloom: BloomFilter
    path: Path | None
    """Of the mapped file; None: the filter is in memory."""
    first_segment: int
    started_ms: int
    count: int = 0
    runs: list[tuple[Prints, npt.NDArray[np.int64]]] = field(default_factory=list)

    def add(self, segment: int, keys: Keys, names: list[bytes]) -> None:
        self.bloom.update(names)
        prints = np.sort(_prints(keys))
        self.count += len(prints)
        self.runs.append((prints, np.full(len(prints), segment, np.int64)))
        # Merge runs of like size, as a binary counter does, so that a lookup searches few of them.
        while len(self.runs) > 1 and len(self.runs[-2][0]) <= 2 * len(self.runs[-1][0]):
            (a, x), (b, y) = self.runs.pop(), self.runs.pop()
            merged, owners = np.concatenate((b, a)), np.concatenate((y, x))
            order = np.argsort(merged, kind="stable")
            self.runs.append((merged[order], owners[order]))

    def segments_of(self, print_: np.uint64) -> Iterable[int]:
        for prints, segments in self.runs:
            low, high = np.searchsorted(prints, print_, "left"), np.searchsorted(prints, print_, "right")
            yield from segments[low:high].tolist()


class DuplicateGuard:
    """Remembers at-least-once messages for at least ``window_s`` (or until ``keys_max`` of them came sooner)."""

    def __init__(self, folder: Path, *, window_s: float, keys_max: int, load: Callable[[int], bytes]) -> None:
        """``load`` reads the keys of a committed segment from the exact table."""
        self._folder = folder
        self._window_ms = int(window_s * 1000)
        self._keys_max = keys_max
        self._load = load
        self._made = 0
        self._generations: list[_Generation] = []
        self._pending: dict[int, tuple[Keys, set[bytes]]] = {}
        self.next_segment = 1
        self.bloom_positives = 0
        self.exact_lookups = 0

    def rebuild(self, segments: Iterable[tuple[int, int, bytes]]) -> int:
        """Read every committed segment; returns how many keys there are. Old Bloom files are never trusted."""
        for path in self._folder.glob("guard-*.bloom"):
            path.unlink()
        for segment, at_ms, data in segments:
            self._add(segment, at_ms, np.frombuffer(data, np.uint8).reshape(-1, KEY_BYTES))
            self.next_segment = segment + 1
        return sum(generation.count for generation in self._generations)

    def check(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], list[bytes]]:
        """Which rows are duplicates: committed before, pending in this unit, or repeated within ``keys``."""
        names: list[bytes] = keys.view(f"V{KEY_BYTES}").reshape(-1).tolist()
        maybe = np.zeros(len(names), bool)
        for generation in self._generations:
            maybe |= np.fromiter(map(generation.bloom.__contains__, names), bool, len(names))
        duplicate = np.zeros(len(names), bool)
        if maybe.any():
            self._look_up(keys, names, np.flatnonzero(maybe), duplicate)
        for _, taken in self._pending.values():
            duplicate |= np.fromiter(map(taken.__contains__, names), bool, len(names))
        if len(set(names)) != len(names):
            _, first = np.unique(keys.view(f"V{KEY_BYTES}").reshape(-1), return_index=True)
            again = np.ones(len(names), bool)
            again[first] = False
            duplicate |= again
        return duplicate, names

    def _look_up(
        self, keys: Keys, names: list[bytes], rows: npt.NDArray[np.int64], duplicate: npt.NDArray[np.bool_]
    ) -> None:
        """Set ``duplicate`` for those rows whose keys are in the exact table; every segment is read once."""
        self.bloom_positives += len(rows)
        candidates: dict[int, list[int]] = {}
        for row, print_ in zip(rows.tolist(), _prints(keys[rows]), strict=True):
            for generation in self._generations:
                for segment in generation.segments_of(print_):
                    candidates.setdefault(segment, []).append(row)
        for segment, asked in candidates.items():
            self.exact_lookups += 1
            stored = set(np.frombuffer(self._load(segment), f"V{KEY_BYTES}").tolist())
            for row in asked:
                duplicate[row] |= names[row] in stored

    def take(self, keys: Keys, names: list[bytes]) -> tuple[int, bytes]:
        """Note new keys as part of the unit under way: (segment, blob to store)."""
        segment = self.next_segment
        self.next_segment += 1
        self._pending[segment] = (keys, set(names))
        return segment, keys.tobytes()

    def committed(self, at_ms: int) -> int:
        """The unit is on disk. Returns the first segment still needed (0: nothing to forget)."""
        before = self._generations[0].first_segment if self._generations else 0
        for segment, (keys, _) in self._pending.items():
            self._add(segment, at_ms, keys)
        self._pending.clear()
        after = self._generations[0].first_segment if self._generations else 0
        return after if after != before else 0

    def failed(self) -> None:
        """The unit was rolled back: its keys were never seen."""
        self._pending.clear()

    def _add(self, segment: int, at_ms: int, keys: Keys) -> None:
        current = self._generations[-1] if self._generations else None
        if current is None or current.count >= self._keys_max or at_ms - current.started_ms > self._window_ms:
            current = self._new_generation(segment, at_ms)
        current.add(segment, keys, keys.view(f"V{KEY_BYTES}").reshape(-1).tolist())

    def _new_generation(self, segment: int, at_ms: int) -> _Generation:
        self._made += 1
        bloom, path = self._new_bloom(self._folder / f"guard-{self._made}.bloom")
        self._generations.append(_Generation(bloom, path, segment, at_ms))
        if len(self._generations) > 2:
            self._drop(self._generations.pop(0))
        return self._generations[-1]

    def _new_bloom(self, path: Path) -> tuple[BloomFilter, Path | None]:
        """Mapped from a file whose blocks are all there, else in memory.

        A page of a mapping that the disk has no block for kills the process when it is touched.
        """
        capacity = self._keys_max + 65_536
        try:
            path.unlink(missing_ok=True)
            bloom = BloomFilter(capacity, _ERROR_RATE, str(path), perm=0o600)
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            return BloomFilter(capacity, _ERROR_RATE), None
        return bloom, path

    @staticmethod
    def _drop(generation: _Generation) -> None:
        if generation.path is not None:
            generation.bloom.close()
            generation.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the Bloom files: the next start makes new ones anyway."""
        while self._generations:
            self._drop(self._generations.pop())
