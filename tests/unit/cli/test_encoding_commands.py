"""``secroute explain``, ``encode`` and ``schema`` as people use them, and what happens when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from secroute.cli.main import main

Capture = pytest.CaptureFixture[str]
MESSAGES = '{"attributes": {"dest": "ATL", "price": 150}}\n{"attributes": {"dest": "JFK", "price": 900}}\n'
PREDICATES = (
    '{"id": "p1", "predicate": "dest = \'ATL\' OR price > 500", "interface": "secret-desk"}\n'
    '{"id": "p2", "predicate": "price < 200", "interface": "other-desk"}\n'
)
SCHEMA = '[attributes.price]\ntype = "number"\nlow = 0\nhigh = 1024\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("m.jsonl").write_text(MESSAGES)
    Path("p.jsonl").write_text(PREDICATES)
    Path("s.toml").write_text(SCHEMA)
    return tmp_path


def run(capsys: Capture, *words: str) -> str:
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: Capture, *words: str) -> str:
    before = {path: path.exists() and path.read_bytes() for path in Path().iterdir()}
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert {path: path.exists() and path.read_bytes() for path in Path().iterdir()} == before
    assert output.err.startswith("secroute: ")
    return output.err


def test_explain_tells_what_is_lost_and_what_it_costs(capsys: Capture) -> None:
    text = "price BETWEEN 100 AND 180 AND dest LIKE 'AT%' AND NOT carrier = 'UA'"
    plain = run(capsys, "explain", "--predicate", text)
    assert "ranges are not indexed" in plain
    assert "a negation cannot be asked for by bits" in plain
    assert "expected false positives, message of  20 tokens" in plain
    indexed = run(capsys, "explain", "--predicate", text, "--schema", "s.toml", "--message-tokens", "33")
    assert "price numbers in buckets" in indexed
    assert "ranges are not indexed" not in indexed
    assert "message of  33 tokens" in indexed


@pytest.mark.parametrize(
    ("predicate", "word"),
    [("price = ", ":1:8:"), ("price = 'x", ":1:9:"), ("price < 1e999", "finite"), ("", "empty")],
)
def test_explain_refuses_wrong_selectors(capsys: Capture, predicate: str, word: str) -> None:
    assert word in refused(capsys, "explain", "--predicate", predicate)


def test_explain_refuses_unknown_schema_keys(capsys: Capture) -> None:
    Path("bad.toml").write_text(SCHEMA + "hihg = 7\n")
    assert "unknown key 'hihg'" in refused(capsys, "explain", "--predicate", "a = 1", "--schema", "bad.toml")


def test_encoded_files_match_and_hold_no_names(capsys: Capture) -> None:
    run(capsys, "keys", "init", "--keyring", "space.keyring", "--name", "flights", "--profile", "s.toml")
    run(capsys, "encode", "messages", "m.jsonl", "--keyring", "space.keyring", "--out", "m.npz")
    said = run(capsys, "encode", "predicates", "p.jsonl", "--keyring", "space.keyring", "--out", "p.npz")
    assert json.loads(said.splitlines()[-1])["filters"] == 3
    messages, predicates = np.load("m.npz"), np.load("p.npz")
    assert messages["bits"].dtype == np.uint64
    assert predicates["owners"].tolist() == [0, 0, 1]
    included = ~(predicates["bits"][None] & ~messages["bits"][:, None]).any(axis=2)
    matched = [set(predicates["owners"][row].tolist()) for row in included]
    assert matched == [{0, 1}, {0}]
    assert b"desk" not in Path("p.npz").read_bytes()
    side = [json.loads(line) for line in Path("p.trusted.jsonl").read_text().splitlines()]
    assert side[0] == {"row": 0, "id": "p1", "interface": "secret-desk"}
    assert Path("p.trusted.jsonl").stat().st_mode & 0o077 == 0


def test_encode_overwrites_nothing(capsys: Capture) -> None:
    run(capsys, "encode", "messages", "m.jsonl", "--out", "m.npz")
    assert "not overwritten" in refused(capsys, "encode", "messages", "m.jsonl", "--out", "m.npz")
    run(capsys, "encode", "predicates", "p.jsonl", "--out", "p.npz")
    Path("p.npz").unlink()
    assert "not overwritten" in refused(capsys, "encode", "predicates", "p.jsonl", "--out", "p.npz")


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (MESSAGES + '{"attributes": {"price": NaN}}\n', ":3:"),
        (MESSAGES + '{"attributes": {"price": 1e999}}\n', ":3:"),
        (MESSAGES + '{"attributes": {"%s": 1}}\n' % ("n" * 300), ":3:"),
        (MESSAGES + '{"attributes": {"a": "%s"}}\n' % ("v" * 70_000), ":3:"),
        (MESSAGES + '{"attributes"', ":3:"),
    ],
)
def test_encode_names_the_line_and_writes_nothing(capsys: Capture, lines: str, word: str) -> None:
    Path("bad.jsonl").write_text(lines)
    assert word in refused(capsys, "encode", "messages", "bad.jsonl", "--out", "bad.npz")


def test_predicates_that_leave_no_bits_need_a_word(capsys: Capture) -> None:
    Path("all.jsonl").write_text('{"id": "a", "predicate": "dest IS NULL", "interface": "i"}\n')
    assert "match_all" in refused(capsys, "encode", "predicates", "all.jsonl", "--out", "all.npz")
    run(capsys, "encode", "predicates", "all.jsonl", "--out", "all.npz", "--match-all")
    assert not np.load("all.npz")["bits"].any()


def test_an_inferred_schema_can_be_used(capsys: Capture) -> None:
    rows = [{"attributes": {"dest": f"A{i % 7}", "price": i * 3, "rate": i / 8}} for i in range(300)]
    Path("corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("inferred.toml").write_text(run(capsys, "schema", "infer", "--messages", "corpus.jsonl"))
    told = json.loads(run(capsys, "schema", "check", "inferred.toml"))
    assert told["indexed_attributes"] >= 2
    explained = run(capsys, "explain", "--predicate", "price BETWEEN 30 AND 90", "--schema", "inferred.toml")
    assert "price numbers in buckets" in explained


def test_schema_infer_needs_messages(capsys: Capture) -> None:
    Path("none.jsonl").write_text("")
    assert "no messages" in refused(capsys, "schema", "infer", "--messages", "none.jsonl")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = [sys.executable, "-c", "import sys; from secroute.cli.main import main; sys.exit(main())"]
    many = " OR ".join(f"a = {i}" for i in range(60))
    writer = subprocess.Popen(
        [*command, "explain", "--predicate", many], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.stderr is not None
    assert writer.stderr.read() == b""
    writer.stderr.close()
    assert writer.wait(60) == 0


def test_encode_names_the_line_of_a_predicate_and_leaves_nothing(capsys: Capture) -> None:
    good = '{"id": "a", "predicate": "a = 1"}\n'
    for bad in ("b IS NULL", " AND ".join(f"(x{i} = 1 OR y{i} = 1)" for i in range(13))):
        Path("bad.jsonl").write_text(good * 7 + json.dumps({"id": "b", "predicate": bad}) + "\n" + good)
        assert "bad.jsonl:8: " in refused(capsys, "encode", "predicates", "bad.jsonl", "--out", "bad.npz")
    Path("bad.jsonl").write_text('{"id": "a", "predicate": "a = 1", "interface": "\\ud800"}\n')
    assert "bad.jsonl:1: " in refused(capsys, "encode", "predicates", "bad.jsonl", "--out", "bad.npz")
    Path("link.npz").symlink_to("nowhere/x.npz")
    Path("bad.jsonl").write_text(good)
    assert "not overwritten" in refused(capsys, "encode", "predicates", "bad.jsonl", "--out", "link.npz")


def test_encode_tells_which_predicate_was_coarsened(capsys: Capture) -> None:
    wide = json.dumps({"id": "w", "predicate": f"a IN ({','.join(map(str, range(1100)))})"})
    Path("wide.jsonl").write_text('{"id": "a", "predicate": "b = 1"}\n' + wide + "\n")
    assert main(["encode", "predicates", "wide.jsonl", "--out", "wide.npz"]) == 0
    assert "wide.jsonl:2: " in capsys.readouterr().err
    assert np.load("wide.npz")["owners"].max() == 1
