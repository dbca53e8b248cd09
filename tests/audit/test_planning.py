"""The sweep, the plan and the benchmark: small, on a real Spark session; and what needs none."""

from __future__ import annotations

import pytest

from secroute.audit import flights, planning, publish, sweep
from secroute.audit.bench import Sizes, bench
from secroute.audit.intervals import crossed_interval
from secroute.encoding.hardening import Hardening
from secroute.encoding.profile import Profile, load_profile
from secroute.errors import AuditError

GRID = ((192, 2), (1024, 6))


def point(**given):
    return {
        "bits": 512,
        "hashes": 4,
        "fpr": 0.01,
        "high": 0.012,
        "leakage": 0.5,
        "encoding": "x",
        "hardening": "none",
    } | given


def test_a_plan_is_the_least_revealing_then_the_narrowest_that_fits():
    rows = [
        point(bits=512, leakage=0.4),
        point(bits=256, leakage=0.4),
        point(bits=128, leakage=0.9),
        point(bits=128, leakage=0.1, high=0.5),
        point(bits=4096, leakage=0.0),
    ]
    assert [r["bits"] for r in planning.candidates(rows, 0.02, 1024)] == [256, 512, 128]
    with pytest.raises(AuditError, match=r"no profile of at most 1024 bits meets 0\.100%; the best has 1\.000%"):
        planning.candidates(rows, 0.001, 1024)
    with pytest.raises(AuditError, match="no grid point has at most 64 bits; the narrowest is 128"):
        planning.candidates(rows, 0.02, 64)


def test_the_front_holds_what_nothing_beats():
    rows = [point(bits=64, fpr=0.5), point(bits=128, fpr=0.1), point(bits=256, fpr=0.1), point(bits=256, fpr=0.01)]
    assert [(r["bits"], r["fpr"]) for r in sweep.pareto(rows)] == [(64, 0.5), (128, 0.1), (256, 0.01)]


def test_a_recommended_profile_is_read_back_as_it_was(tmp_path):
    profile = Profile.from_toml(flights.PROFILE_TOML)
    for hardening in ((), (Hardening.of("pad", popcount=300), Hardening.of("drop", per_mille=300, minimum=4))):
        given = Profile(512, 6, profile.schema, "existence", 8, hardening)
        (tmp_path / "profile.toml").write_text(planning.to_toml(given), encoding="utf-8")
        assert load_profile(tmp_path / "profile.toml").digest == given.digest


def test_intervals_count_the_spread_of_predicates_too():
    import numpy as np

    even = crossed_interval(np.full(100, 5.0), np.full(50, 10.0), 5_000)
    uneven = crossed_interval(np.full(100, 5.0), np.array([500.0] + [0.0] * 49), 5_000)
    assert even[0] <= 0.1 <= even[1]
    assert uneven[1] - uneven[0] > 3 * (even[1] - even[0])


@pytest.fixture(scope="module")
def planned(make, tmp_path_factory):
    run = make(tmp_path_factory.mktemp("plans") / "one", grid=GRID)
    return run, publish.plan(run, 0.05, 1024)


def test_a_plan_meets_its_target_on_the_half_it_was_not_chosen_on(planned):
    run, result = planned
    rows = run.found["sweep"]
    assert len(rows) == len(GRID) * 4 * len(sweep.encodings(flights.profile()))
    assert all(row["missed"] == 0 for row in rows)
    assert result["high"] <= 0.05
    assert result["other_half"]["high"] <= 0.05
    chosen = load_profile(result["profile"])
    assert (chosen.bits, chosen.hashes) == (result["bits"], result["hashes"])
    assert (run.folders.root / "plan.json").exists()


def test_more_bits_and_finer_covers_cost_fewer_false_positives(planned):
    rate = {(r["encoding"], r["hardening"], r["bits"]): r["fpr"] for r in planned[0].found["sweep"]}
    assert rate["as given", "none", 1024] < rate["as given", "none", 192]
    assert rate["covers of 4", "none", 1024] < rate["as given", "none", 1024]
    assert rate["as given", "drop 300", 1024] >= rate["as given", "none", 1024]


def test_what_was_recommended_holds_on_flights_that_the_plan_never_saw(planned, spark, tmp_path):
    from secroute.audit.keys import run_keys
    from secroute.audit.run import Audit, Plan
    from secroute.content.files import write_messages, write_predicates

    later = list(flights.messages(40_000))[38_500:]
    write_messages(tmp_path / "messages.jsonl", later)
    write_predicates(tmp_path / "predicates.jsonl", flights.predicates(300, interfaces=20, seed=77))
    profile = load_profile(planned[1]["profile"])
    paths = str(tmp_path / "messages.jsonl"), str(tmp_path / "predicates.jsonl")
    run = Audit(spark, Plan(*paths, tmp_path / "out", profile, partitions=2), run_keys(profile, None, None))
    assert publish.single(run, "fpr")["fpr_high"] <= 0.05


def test_the_benchmark_counts_the_same_as_the_join(spark):
    sizes = Sizes(messages=1_000, predicates=400, sql_messages=1_000, exact_messages=500)
    result = bench(spark, sizes, flights.profile(), True, 1, lambda _: None)
    assert result["encoded_matches_per_message"] == result["sql_matches_per_message"] > 0
    wanted = {"pairs_per_s", "sql_pairs_per_s", "speedup_over_sql", "exact_pairs_per_s", "matches_per_message"}
    assert wanted <= set(result)
    assert list(result["seconds_by_messages"]) == [1_000, 2_000, 4_000, 8_000]
