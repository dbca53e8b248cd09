"""``secroute bench match``: matches written for given files equal a brute-force check, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from secroute.cli.main import main
from secroute.opaque import Words

FIELDS = {
    "engine", "messages_per_s", "us_per_message", "p99_us", "build_s", "bytes_per_filter", "matches_per_message",
    "scan_messages_per_s", "speedup_over_scan", "scan_layout",
}  # fmt: skip


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["bench", "match", *arguments]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return result


def workload(words: int, rows: int = 4_000) -> tuple[Words, Words, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(words)
    filters = np.zeros((rows, words), np.uint64)
    for _ in range(6):
        bit = np.minimum(rng.geometric(0.02, rows), words * 64 - 1)
        filters[np.arange(rows), bit >> 6] |= np.uint64(1) << (bit & 63).astype(np.uint64)
    picks = rng.integers(0, rows, (50, 5))
    messages = np.bitwise_or.reduce(filters[picks], axis=1)
    return filters, messages, rng.integers(0, 30, rows)


@pytest.mark.parametrize("words", [1, 3, 12])
@pytest.mark.parametrize("engine", ["auto", "tree", "counting"])
def test_matches_of_given_files_equal_brute_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: int, engine: str
) -> None:
    filters, messages, interfaces = workload(words)
    for name, array in (("f", filters), ("m", messages), ("i", interfaces)):
        np.save(tmp_path / f"{name}.npy", array)
    given = ["--filters", f"{tmp_path}/f.npy", "--messages", f"{tmp_path}/m.npy", "--interfaces", f"{tmp_path}/i.npy"]
    written = ["--out", f"{tmp_path}/matches.npz", "--filters-out", f"{tmp_path}/filters.npz"]
    result = bench(capsys, *given, *written, "--engine", engine, "--threads", "2", "--rounds", "3")
    assert result.keys() >= FIELDS
    assert result["mode"] == "filters"
    by_interface, by_filter = np.load(tmp_path / "matches.npz"), np.load(tmp_path / "filters.npz")
    total = 0
    for number, message in enumerate(messages):
        rows = np.flatnonzero((filters & message == filters).all(axis=1))
        total += len(rows)
        offsets = by_filter["offsets"]
        assert np.array_equal(by_filter["filters"][offsets[number] : offsets[number + 1]], rows)
        offsets = by_interface["offsets"]
        found = by_interface["interfaces"][offsets[number] : offsets[number + 1]]
        assert np.array_equal(found, np.unique(interfaces[rows]))
    assert total > 100
    assert result["matches_per_message"] == round(total / len(messages), 3)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--generate", "uniform", "--count", "3000", "--bits", "192"),
        ("--generate", "zipf", "--count", "3000", "--engine", "scan"),
        ("--generate", "paper", "--count", "3000", "--bits", "2048", "--fill", "0.4"),
        ("--generate", "paper", "--count", "2500", "--bits", "1024", "--one-filter-per-interface"),
    ],
)
def test_generated_workloads(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    result = bench(capsys, *arguments, "--message-count", "40")
    assert result.keys() >= FIELDS
    assert result["messages_per_s"] > 0
    assert result["p99_us"] > 0
    if "--one-filter-per-interface" in arguments:
        assert result["interfaces"] == 2_500
    if arguments[1] in ("uniform", "zipf"):
        assert result["interfaces"] == 64
        assert result["all_filters"]["matches_per_message"] >= 1  # a message has the tags of one filter


def test_a_live_table_is_measured_while_it_merges(capsys: pytest.CaptureFixture[str]) -> None:
    result = bench(capsys, "--generate", "zipf", "--count", "4000", "--message-count", "50", "--live")
    assert result["merges"] >= 2
    assert result["filters"] == 4_000
    assert result["p99_ratio"] > 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "give either --generate"),
        (("--filters", "f.npy"), "needs --messages"),
        (("--filters", "f.npy", "--messages", "wide.npy"), "words wide"),
        (("--filters", "ints.npy", "--messages", "f.npy"), "little-endian uint64"),
        (("--filters", "text", "--messages", "f.npy"), "not a .npy file"),
        (("--filters", "none.npy", "--messages", "f.npy"), "none.npy"),
        (("--filters", "empty.npy", "--messages", "f.npy"), "has no bits"),
        (("--filters", "f.npy", "--messages", "f.npy", "--interfaces", "short.npy"), "interfaces for"),
        (("--generate", "zipf", "--count", "0"), "--count"),
        (("--generate", "zipf", "--bits", "100", "--count", "10"), "multiple of 64"),
        (("--generate", "paper", "--fill", "1.5", "--count", "10"), "fill must lie"),
    ],
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], text: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    np.save("f.npy", np.ones((4, 2), np.uint64))
    np.save("wide.npy", np.ones((4, 3), np.uint64))
    np.save("ints.npy", np.ones((4, 2), np.int64))
    np.save("empty.npy", np.zeros((4, 2), np.uint64))
    np.save("short.npy", np.zeros(3, np.int64))
    Path("text").write_text("not an array")
    assert main(["bench", "match", *arguments]) == 2
    out = capsys.readouterr()
    assert text in out.err
    assert out.out == ""
