"""``secroute sim``: the same seed gives the same numbers, all four schemes carry the same traffic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from secroute.cli.main import main
from secroute.overlay.schemes import SCHEMES
from secroute.sim.compare import growth
from secroute.sim.report import static_run
from tests.cases import cases


def test_the_command_prints_one_json_object_last(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "--topology", "powerlaw:20", "--scheme", "psf", "--receivers", "60", "--messages", "30"]
    assert main(words) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == first
    assert first["false_negatives"] == first["false_positive_hops"] == 0
    assert first["hops"] == first["ideal_hops"] > 0


@pytest.mark.parametrize("option", ["--receivers=-1", "--messages=-1", "--weight-max=0", "--topology=cube:3"])
def test_bad_options_end_with_an_error(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", option]) == 2
    assert "must be" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(cases(10, 200)))
def test_all_schemes_deliver_the_same_messages(seed: int) -> None:
    runs = {
        name: static_run("powerlaw:15", name, receivers=40, messages=20, seed=seed, weight_max=3) for name in SCHEMES
    }
    assert len({(r["deliveries"], r["ideal_hops"]) for r in runs.values()}) == 1
    assert all(r["false_negatives"] == r["duplicates"] == 0 for r in runs.values())
    assert runs["pif"]["hops"] >= runs["psf"]["hops"] == runs["ips"]["hops"] == runs["drp"]["hops"]
    assert runs["pif"]["table_filters"]["total"] <= runs["ips"]["table_filters"]["total"]


def test_without_receivers_nothing_moves() -> None:
    for name in SCHEMES:
        quiet = static_run("ring:5", name, receivers=0, messages=10, seed=1)
        assert (quiet["hops"], quiet["deliveries"], quiet["table_filters"]["total"]) == (0, 0, 0)


@pytest.mark.parametrize("protocol", ["pages", "cbcb"])
def test_the_network_converges_under_every_fault(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "--topology", "powerlaw:12", "--receivers", "60", "--messages", "20", "--protocol", protocol]
    words += ["--loss", "0.2", "--duplicate", "0.1", "--reorder", "0.3", "--partition", "1", "--crash", "2"]
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["everybody_knows"]
    assert result["false_negatives"] == 0
    assert result["convergence_ticks"] > 0
    assert sum(result["control"].values()) > 0


def test_all_schemes_in_one_table_with_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "--topology", "powerlaw:20", "--scheme", "all", "--receivers", "60", "--messages", "20"]
    assert main([*words, "--plots", str(tmp_path), "--grow-to", "50"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out.splitlines()[-1])
    assert [run["scheme"] for run in result["runs"]] == list(SCHEMES)
    assert [line.split(" | ")[0] for line in err.splitlines()[2:6]] == [f"| {name}" for name in SCHEMES]
    names = ["sim-hops.svg", "sim-memory-powerlaw.svg", "sim-memory-tree.svg"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


def test_the_papers_protocol_is_for_pif_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--scheme", "psf", "--protocol", "cbcb"]) == 2
    assert "use --protocol pages" in capsys.readouterr().err


@pytest.mark.parametrize("topology", ["powerlaw:60", "tree:60,3"])
def test_measured_memory_follows_the_formulas(topology: str) -> None:
    point = growth(topology, receivers=120, seed=3)
    measured, told = point["measured_bits"], point["formula_bits"]
    assert measured["psf"] == pytest.approx(told["psf"], rel=0.1)
    assert measured["drp"] == pytest.approx(told["drp"], rel=0.1)
    assert measured["pif"] < told["pif"]
    assert measured["ips"] < measured["psf"]
