"""The papers' workloads and the theory: what is drawn is what the papers say."""

from __future__ import annotations

import random

import pytest

from secroute.audit import corpus, theory, workloads
from secroute.content import Constraint, Op, matches, parse, render
from secroute.content.predicate import constraints
from secroute.errors import AuditError
from tests.cases import cases


@pytest.mark.parametrize("name", list(workloads.WORKLOADS))
def test_rows_depend_on_their_number_and_the_seed_alone(name):
    one = workloads.WORKLOADS[name]
    drawn = [[one.predicate(workloads._draw(name, "predicate", seed, row)) for row in range(50)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(parse(render(node)) == node for node in drawn[0])


def test_sizes_are_those_of_the_papers():
    draw = random.Random(1)
    sigcomm, icse = workloads.WORKLOADS["sigcomm"], workloads.WORKLOADS["icse"]
    sizes = [len(list(constraints(sigcomm.predicate(draw)))) for _ in range(2_000)]
    assert min(sizes) == 1 and max(sizes) == 9 and sum(sizes) / 2_000 == pytest.approx(5, abs=0.2)  # noqa: PT018
    sizes = [len(sigcomm.message(draw)) for _ in range(2_000)]
    assert max(sizes) == 18 and sum(sizes) / 2_000 == pytest.approx(9.5, abs=0.5)  # noqa: PT018
    atoms = [len(list(constraints(icse.predicate(draw)))) for _ in range(2_000)]
    assert sum(atoms) / 2_000 == pytest.approx(7.5, abs=0.3)


def test_a_workload_is_generated_in_spark_and_can_be_audited(spark, tmp_path):
    made = workloads.generate(spark, "sigcomm", tmp_path / "corpus", 500, 100, interfaces=5)
    read = corpus.read(spark, made["messages"], "messages")
    assert corpus.check_errors(read, made["messages"], "messages", 0.0)["records"] == 500
    read = corpus.read(spark, made["predicates"], "predicates")
    assert corpus.check_errors(read, made["predicates"], "predicates", 0.0)["records"] == 100
    assert {row["interface"] for row in read.collect()} == {f"I{i}" for i in range(5)}
    with pytest.raises(AuditError, match="exists already"):
        workloads.generate(spark, "sigcomm", tmp_path / "corpus", 1, 1)


# --- theory ---


def test_implication_is_true_of_every_value():
    draw, words = random.Random(3), theory.terms(40)
    values = [*words, *(a + b for a in words[:8] for b in words[:8]), ""]
    for _ in range(cases(400, 5_000)):
        a, b = (Constraint("n", draw.choice(theory.STRING_OPS)[0], draw.choice(words)) for _ in range(2))
        if theory.implies(a, b):
            assert all(matches(b, {"n": v}) for v in values if matches(a, {"n": v})), (a, b)
    for _ in range(cases(400, 5_000)):
        a, b = (Constraint("n", draw.choice(theory.INT_OPS)[0], draw.randint(-4, 4)) for _ in range(2))
        if theory.implies(a, b):
            assert all(matches(b, {"n": v}) for v in range(-7, 8) if matches(a, {"n": v})), (a, b)


def test_the_uniform_model_is_the_formula():
    ratios = (0.1, 1.0)
    for ratio, value in zip(ratios, theory.general(10_000, 0.01, "uniform", 1, ratios), strict=True):
        n = round(ratio / 0.01)
        assert value == pytest.approx((1 - 0.99**n) / (n * 0.01), rel=0.03)


def test_a_disjunction_shrinks_by_what_is_implied():
    wide, narrow = (Constraint("a", Op.GT, 1),), (Constraint("a", Op.GT, 5), Constraint("b", Op.EQ, "x"))
    assert theory.advantage([wide, narrow], [1, 2]) == [1.0, 1 / 3]
    assert theory.advantage([narrow, wide], [1, 2]) == [1.0, 1 / 3]


def test_all_figures_come_out_of_spark_small(spark, tmp_path):
    found = theory.run_theory(spark, tmp_path / "theory", 2, 100, 1, powers=(4,))
    assert found["checks"]["uniform_matches_formula"]
    assert found["checks"]["none_reaches_half_below_100"]
    five = found["figure5_five_of_one_percent"]
    assert five["zipf-again"]["10000"] < five["zipf"]["10000"] < five["uniform"]["10000"]
    assert "<svg" in (tmp_path / "theory" / "figures.svg").read_text(encoding="utf-8")
    with pytest.raises(AuditError, match="exists already"):
        theory.run_theory(spark, tmp_path / "theory", 2, 100, 1)
