"""Samples that repeat, and leakage under several keys."""

from __future__ import annotations

from collections import Counter

from secroute.audit import bykey
from secroute.audit.corpus import repeatable_sample
from secroute.audit.measures import MEASURES, VARIANTS


def test_a_sample_is_the_same_however_spark_cuts_the_corpus(spark):
    texts = [(f"m{i % 700}",) for i in range(2_000)]
    drawn = []
    for parts, rows in ((1, texts), (7, texts[::-1]), (3, texts[1000:] + texts[:1000])):
        frame = spark.createDataFrame(rows, "attributes string").repartition(parts)
        drawn.append([row[0] for row in repeatable_sample(frame, 500, len(texts), seed=4).collect()])
    assert drawn[0] == drawn[1] == drawn[2]
    assert len(drawn[0]) == 500
    other = repeatable_sample(spark.createDataFrame(texts, "attributes string"), 500, len(texts), seed=5).collect()
    assert Counter(row[0] for row in other) != Counter(drawn[0])


def test_equal_texts_are_not_drawn_together(spark):
    frame = spark.createDataFrame([("same",)] * 1_000 + [("other",)] * 1_000, "attributes string")
    drawn = Counter(row[0] for row in repeatable_sample(frame, 400, 2_000, seed=1).collect())
    assert drawn.total() == 400
    assert 150 < drawn["same"] < 250  # five standard deviations
    assert len(repeatable_sample(frame, 5_000, 2_000, seed=1).collect()) == 2_000


def test_every_hardening_is_measured_under_the_same_keys_and_the_table_repeats(audit):
    rows = audit.leakage_by_key(2)
    assert {(row["key"], row["variant"]) for row in rows} == {(key, name) for key in (1, 2) for name in VARIANTS[:-1]}
    # Dropping bits of filters leaves messages as they are: with the same keys these figures are the same, not similar.
    for measure in ("dependent_bit_pairs", "bayes_with_member", "pattern_mining"):
        columns = {name: _values(rows, measure, name) for name in ("none", "drop")}
        assert columns["none"] == columns["drop"], measure
    again = bykey.run_by_key(audit.spark, audit.plan.profile, 1, audit.sample(), audit.plan.seed, "").collect()
    first = [row for row in rows if row["key"] == 1]
    assert _values([row.asDict() for row in again], "rank_naive", "noise") == _values(first, "rank_naive", "noise")
    table = bykey.to_markdown(rows)
    assert table.startswith("| measure, 2 keys | none | pad | noise | drop | all |\n|---|---|---|---|---|---|\n| (")
    assert MEASURES["bayes_with_member"].words in table
    assert MEASURES["distinct_share"].words not in table


def _values(rows, measure, variant):
    chosen = [row for row in rows if (row["measure"], row["variant"]) == (measure, variant)]
    return sorted((row["key"], row["attribute"], row["value"]) for row in chosen)
