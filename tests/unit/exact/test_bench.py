"""``secroute bench exact`` on files and on the workloads of the papers, in small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from secroute.bench import exact_plots
from secroute.bench.workloads import Sigcomm, trees
from secroute.bench.workloads_icse import NAMES, SCHEMA, Icse
from secroute.cli.main import main
from secroute.content.oracle import matches
from secroute.content.predicate import Constraint, Node, Not, Op, constraints
from secroute.content.selector import parse
from secroute.exact.columns import OPS, STRING

FIELDS = {
    "us_per_message",
    "us_per_message_with_parsing",
    "build_s",
    "bytes_per_constraint",
    "matches_per_message",
    "nodes",
}
PREDICATES = [
    ("s1", "east", "dest = 'ATL' AND price < 500 OR stock = 'DYS'"),
    ("s2", "west", "NOT (price >= 9007199254740993)"),
    ("s3", "east", "dest LIKE 'A%L' AND note IS NULL"),
    ("s4", "south", "price = 9007199254740993"),
]
MESSAGES = [
    ("m1", {"dest": "ATL", "price": 248}),
    ("m2", {"price": 2**53 + 1}),
    ("m3", {"price": float(2**53)}),
    ("m4", {"dest": "ATL", "note": ""}),
    ("m5", {}),
]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Arguments naming a messages file and a predicates file."""
    rows = [{"id": i, "interface": face, "predicate": text} for i, face, text in PREDICATES]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = [{"id": i, "attributes": attributes} for i, attributes in MESSAGES]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ["--messages", str(tmp_path / "m.jsonl"), "--predicates", str(tmp_path / "p.jsonl")]


def bench(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    """The JSON object of a run that succeeds."""
    assert main(["bench", "exact", "--repeat", "1", *words]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) >= FIELDS
    return dict(result)


@pytest.mark.parametrize("engine", ["auto", "counting", "pivot", "bdd", "oracle"])
@pytest.mark.parametrize("single", [False, True])
def test_files(engine: str, single: bool, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "matches.jsonl"
    words = [*files, "--engine", engine, "--out", str(out), *(["--one-filter-per-interface"] if single else [])]
    result = bench(capsys, *words)
    found = {row["id"]: row["matches"] for row in map(json.loads, out.read_text().splitlines())}
    expected = {}
    for message, attributes in MESSAGES:
        hits = [(i, face) for i, face, text in PREDICATES if matches(parse(text), attributes)]
        expected[message] = sorted({i if single else face for i, face in hits})
    assert {message: sorted(row) for message, row in found.items()} == expected
    assert result["matches_per_message"] == sum(map(len, expected.values())) / len(MESSAGES)
    assert (result["nodes"] is not None) == (engine == "bdd")


def test_generated_workloads_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sigcomm = ("--generate", "sigcomm", "--constraints", "2000", "--count", "30")
    for extra in (("--interfaces", "5"), ("--one-filter-per-interface",)):
        rows = []
        for engine in ("counting", "pivot", "oracle"):
            bench(capsys, *sigcomm, *extra, "--engine", engine, "--out", str(tmp_path / engine))
            rows.append((tmp_path / engine).read_text())
        assert len(set(rows)) == 1
    icse = ("--generate", "icse", "--queries", "200", "--count", "30", "--engine", "bdd", "--density")
    strict, simple = bench(capsys, *icse, "1"), bench(capsys, *icse, "1", "--semantics", "simple")
    assert strict["matches_per_message"] == simple["matches_per_message"] > 0
    assert strict["nodes"] > 200
    assert bench(capsys, *icse, "0.3")["matches_per_message"] < strict["matches_per_message"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give --messages and --predicates, or --generate"),
        (["--generate", "sigcomm", "--constraints", "0"], "--constraints is 0"),
        (["--generate", "icse", "--density", "1.5"], "--density is 1.5"),
        (["--generate", "sigcomm", "--rounds", "-1"], "--rounds is -1"),
    ],
)
def test_refusals(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "exact", *words]) == 2
    assert complaint in capsys.readouterr().err


def test_files_have_no_event_schema(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "exact", *files, "--engine", "bdd", "--semantics", "strict"]) == 2
    assert "no event schema" in capsys.readouterr().err


def test_the_sigcomm_workload_has_the_paper_s_parameters() -> None:
    columns = Sigcomm().filters(200_000)
    sizes = np.diff(columns.offsets)
    assert (sizes.min(), sizes.max(), columns.constraints) == (1, 9, 200_000)
    assert abs(sizes.mean() - 5) < 0.05
    assert len(columns.names) == len(set(columns.names)) == 1000
    assert len(columns.strings) == len(set(columns.strings)) == 1000
    strings = columns.kind == STRING
    assert abs(strings.mean() - 0.5) < 0.01
    for rows, shares in (
        (strings, {Op.EQ: 0.35, Op.PREFIX: 0.15, Op.SUFFIX: 0.15, Op.SUBSTRING: 0.15, Op.LT: 0.1, Op.GT: 0.1}),
        (~strings, {Op.EQ: 0.6, Op.LT: 0.2, Op.GT: 0.2}),
    ):
        counts = np.bincount(columns.op[rows], minlength=len(OPS)) / rows.sum()
        assert {op: round(float(counts[OPS.index(op)]), 2) for op in shares} == pytest.approx(shares, abs=0.011)
        assert counts[[OPS.index(op) for op in shares]].sum() == 1.0
    ranks = np.bincount(columns.name, minlength=1000)
    assert ranks[0] > 1.5 * ranks[1] > 1.5 * ranks[9]
    lengths = [len(message) for message in Sigcomm().messages(5_000)]
    assert (min(lengths), max(lengths)) == (1, 18)
    assert abs(np.mean(lengths) - 9.5) < 0.2
    assert len(trees(Sigcomm().filters(100))) == Sigcomm().filters(100).filters


def _connectives(node: Node) -> int:
    if isinstance(node, Constraint):
        return 0
    if isinstance(node, Not):
        return 1 + _connectives(node.child)
    return len(node.children) - 1 + sum(map(_connectives, node.children))


def test_the_icse_workload_has_the_paper_s_means() -> None:
    queries = Icse().queries(5_000)
    atoms = [list(constraints(query)) for query in queries]
    assert abs(np.mean([len(row) for row in atoms]) - 7.6) < 0.15
    assert abs(np.mean([_connectives(query) for query in queries]) - 7.7) < 0.15
    assert len({atom for row in atoms for atom in row}) == 208
    for query in queries[:100]:
        SCHEMA.check_predicate(query)
    assert {len(message) for message in Icse().messages(200, 1.0)} == {len(NAMES)}
    assert {len(message) for message in Icse().messages(200, 0.077)} == {1}
    assert {len(message) for message in Icse().messages(200, 0.154)} == {1, 2}


def test_the_pictures_are_drawn_from_the_kept_numbers(tmp_path: Path) -> None:
    kept = Path(__file__).parents[3] / "docs" / "img" / "exact-measured.json"
    (tmp_path / kept.name).write_text(kept.read_text())
    exact_plots.main(["--out", str(tmp_path)])
    drawn = sorted(path.name for path in tmp_path.glob("*.png"))
    assert drawn == sorted(path.name for path in kept.parent.glob("exact-*.png"))
    assert set(json.loads(kept.read_text())) == set(exact_plots.FIGURES)
