"""The duplicate guard against a plain set: a Bloom filter's error never drops a message, nor lets one come twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from secroute.opaque import EncodedBatch, Scope
from secroute.router.guard import KEY_BYTES, DuplicateGuard, Keys, keys_of
from tests.cases import cases

SCOPE = Scope(bytes(16), 1, bytes(32))


class Exact:
    """The store's exact table."""

    def __init__(self) -> None:
        self.segments: dict[int, tuple[int, bytes]] = {}

    def load(self, segment: int) -> bytes:
        return self.segments.get(segment, (0, b""))[1]

    def all(self) -> list[tuple[int, int, bytes]]:
        return [(number, at_ms, data) for number, (at_ms, data) in sorted(self.segments.items())]


def keys(numbers: list[int]) -> Keys:
    rows = [number.to_bytes(16, "little") + (number * 7).to_bytes(16, "little") for number in numbers]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, KEY_BYTES)


def new(folder: Path, exact: Exact, keys_max: int = 1_000, window_s: float = 600.0) -> DuplicateGuard:
    return DuplicateGuard(folder, window_s=window_s, keys_max=keys_max, load=exact.load)


def commit(guard: DuplicateGuard, exact: Exact, numbers: list[int], at_ms: int = 0) -> list[bool]:
    """As the committer does it; which of the numbers were duplicates."""
    given = keys(numbers)
    duplicate, names = guard.check(given)
    fresh = np.flatnonzero(~duplicate)
    if len(fresh):
        segment, data = guard.take(given[fresh], [names[row] for row in fresh.tolist()])
        exact.segments[segment] = (at_ms, data)
    guard.committed(at_ms)
    return duplicate.tolist()


def test_agrees_with_a_set(tmp_path: Path) -> None:
    exact = Exact()
    guard, seen, chance = new(tmp_path, exact, keys_max=5_000), set[int](), np.random.default_rng(3)
    for _ in range(cases(60, 400)):
        numbers = chance.integers(0, 3_000, 50).tolist()
        wanted = []
        for number in numbers:
            wanted.append(number in seen)
            seen.add(number)
        assert commit(guard, exact, numbers) == wanted
    guard.close()
    assert not list(tmp_path.glob("*.bloom"))


def test_a_start_reads_the_exact_table_and_trusts_no_old_file(tmp_path: Path) -> None:
    exact = Exact()
    guard = new(tmp_path, exact)
    commit(guard, exact, [1, 2, 3])
    (file,) = tmp_path.glob("*.bloom")
    file.write_bytes(bytes(file.stat().st_size))  # an empty filter says "never seen"
    again = new(tmp_path, exact)
    assert again.rebuild(exact.all()) == 3
    assert commit(again, exact, [1, 4]) == [True, False]


def test_what_was_rolled_back_was_never_seen(tmp_path: Path) -> None:
    exact = Exact()
    guard = new(tmp_path, exact)
    given = keys([1])
    _, names = guard.check(given)
    guard.take(given, names)
    assert guard.check(given)[0].tolist() == [True]  # within the same unit
    guard.failed()
    assert guard.check(given)[0].tolist() == [False]


def test_generations_forget_only_what_is_old(tmp_path: Path) -> None:
    exact = Exact()
    guard = new(tmp_path, exact, window_s=10.0)
    commit(guard, exact, [1], at_ms=0)
    commit(guard, exact, [2], at_ms=11_000)
    assert commit(guard, exact, [1, 2], at_ms=12_000) == [True, True]
    commit(guard, exact, [3], at_ms=23_000)  # a third generation: the first one goes
    assert commit(guard, exact, [1, 2, 3], at_ms=24_000) == [False, True, True]


def test_without_room_for_its_file_it_works_in_memory(tmp_path: Path) -> None:
    exact, folder = Exact(), tmp_path / "gone"
    guard = new(folder, exact)  # a folder that is not there refuses every file
    assert commit(guard, exact, [1, 2]) == [False, False]
    assert commit(guard, exact, [2, 3]) == [True, False]
    guard.close()


@pytest.mark.parametrize("sizes", [[40, 40], [0, 40], [3, 16], [0, 0]])
def test_a_key_is_the_id_and_the_tag(sizes: list[int]) -> None:
    ids = [bytes([number]) * 16 for number in range(len(sizes))]
    payloads = [bytes(range(number + 1, number + 1 + size)) for number, size in enumerate(sizes)]
    batch = EncodedBatch.of(SCOPE, np.ones((len(sizes), 1), np.uint64), ids, payloads)
    for row, (name, payload) in enumerate(zip(ids, payloads, strict=True)):
        assert bytes(keys_of(batch)[row]) == name + payload[-16:].rjust(16, b"\0")
