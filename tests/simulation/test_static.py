"""``secroute sim``: the same seed gives the same numbers, all four schemes carry the same traffic."""

from __future__ import annotations

import json

import pytest

from secroute.cli.main import main
from secroute.overlay.schemes import SCHEMES
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
