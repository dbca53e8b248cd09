"""The jobs on a real Spark session: the law, the oracle, resuming, the report and bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from secroute.audit import corpus, flights, leakage, publish
from secroute.audit.keys import run_keys
from secroute.audit.measures import MEASURES
from secroute.audit.run import Audit
from secroute.audit.session import require_java
from secroute.audit.stages import claim
from secroute.audit.verdict import DEFAULT_POLICY, judge, load_policy
from secroute.content import matches
from secroute.encoding.hardening import Hardening
from secroute.errors import AuditError, FalseNegativeError
from tests.audit import MESSAGES, PREDICATES


def test_counts_agree_with_the_oracle(audit):
    sent = [m.attributes for m in flights.messages(MESSAGES)]
    nodes = {r.id: r.predicate for r in flights.predicates(PREDICATES, interfaces=20)}
    rows = audit.spark.read.parquet(audit.folders.table("predicates")).limit(25).collect()
    for row in rows:
        assert row["exact"] == sum(matches(nodes[row["id"]], m) for m in sent)
        assert row["missed"] == 0
        assert row["low"] <= row["fpr"] + 1e-12 <= row["high"] + 2e-12
    total = audit.found["fpr"]
    assert total["false_negatives"] == 0
    assert total["exact_matches"] > 0
    assert total["fpr_low"] <= total["fpr"] <= total["fpr_high"] * 1.001


def test_interfaces_and_operators_are_counted_too(audit):
    tables = {
        name: audit.spark.read.parquet(audit.folders.table(name)).collect() for name in ("operators", "interfaces")
    }
    assert {row["op"] for row in tables["operators"]} >= {"=", ">", "<=", "prefix"}
    assert len(tables["interfaces"]) == 20
    assert all(row["encoded"] >= row["exact"] for rows in tables.values() for row in rows)
    assert audit.found["fpr"]["extra_deliveries"] == sum(r["encoded"] - r["exact"] for r in tables["interfaces"])


def test_blocks_and_engines_change_nothing(make, audit, tmp_path):
    # The same bits as the whole run, so that the counts must be the same, not only similar; an engine of the routers'.
    blocked = make(tmp_path / "blocked", audit.keys, block=PREDICATES // 3, engine="tree")
    blocked.ingest()
    with blocked.key_path() as path:
        blocked.encode(path)
    assert len(blocked.blocks()) > 1
    summary = blocked.fpr()
    whole = audit.found["fpr"]
    for name in (
        "exact_matches",
        "encoded_matches",
        "false_negatives",
        "extra_deliveries",
        "extra_bytes",
        "deliveries",
    ):
        assert summary[name] == whole[name], name


def test_a_finished_run_goes_on_from_its_stages(spark, audit):
    said: list[str] = []
    again = Audit(spark, audit.plan, audit.keys, said.append)
    again.run(with_sweep=False)
    assert said
    assert all(line.endswith("done before") for line in said), said
    assert again.found["fpr"] == audit.found["fpr"]


def test_a_false_negative_fails_the_job(make, tmp_path):
    broken = make(tmp_path / "broken")
    broken.ingest()
    with broken.key_path() as path:
        broken.encode(path)
    # Filters under another key are what a profile mismatch would be: deaf. The job must say so.
    (Path(broken.folders.filters) / "_SUCCESS").unlink()
    encoded = Path(broken.folders.encoded)
    encoded.rename(encoded.with_name("kept"))
    object.__setattr__(broken, "keys", run_keys(flights.profile(), None, None))
    with broken.key_path() as path:
        broken.encode(path)
    for file in [*encoded.iterdir()]:
        file.unlink()
    for file in encoded.with_name("kept").iterdir():
        file.rename(encoded / file.name)
    with pytest.raises(FalseNegativeError, match=r"false negatives.*for example: message"):
        broken.fpr()


def test_the_report_is_whole_and_self_contained(audit):
    text = (audit.folders.root / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")
    assert "0 false negatives" in text
    assert "src=" not in text
    assert "href=" not in text.replace("xlink:href=", "")
    verdict = json.loads((audit.folders.root / "verdict.json").read_text(encoding="utf-8"))
    assert verdict["verdict"] in ("pass", "fail")
    strict = judge(audit.found, {**DEFAULT_POLICY, "fpr_max": 0.0}, "none")
    assert strict["verdict"] == "fail"


def test_predictions_are_beside_the_counts(audit):
    found = audit.found["prediction"]
    assert found["predicates"] == found["with_attributes"] == PREDICATES
    assert found["attributes"] == pytest.approx(found["observed"], rel=0.25)
    assert found["textbook"] < found["observed"]  # it forgets messages that match in part
    assert sum(row["predicates"] for row in audit.found["calibration"]) <= PREDICATES


def test_filters_that_drop_bits_have_no_parts_to_predict_from(make, tmp_path):
    profile = replace(flights.profile(), hardening=(Hardening.of("drop", per_mille=300, minimum=4),))
    run = make(tmp_path / "dropped", run_keys(profile, None, None))
    run.run(with_leakage=False, with_sweep=False)
    result = publish.publish(run, DEFAULT_POLICY)
    assert result["false_negatives"] == 0
    assert result["prediction"]["with_attributes"] == 0
    assert result["prediction"]["bits"] > 0
    assert "Predicted and observed" in (run.folders.root / "report.html").read_text(encoding="utf-8")


def test_a_report_is_made_again_under_another_policy_without_spark(audit, tmp_path):
    first = (audit.folders.root / "report.html").read_text(encoding="utf-8")
    # No limits on attacks: the run's key is thrown away, and under some keys one of them succeeds on so few flights.
    strict = publish.write_report(audit.folders.root, {**DEFAULT_POLICY, "fpr_max": 0.0, "advantage_max": {}})
    assert strict["verdict"] == "fail"
    assert strict["violated"] == ["fpr_high"]
    publish.write_report(audit.folders.root, DEFAULT_POLICY)
    assert (audit.folders.root / "report.html").read_text(encoding="utf-8") == first
    with pytest.raises(AuditError, match="holds no finished run"):
        publish.write_report(tmp_path, DEFAULT_POLICY)


def test_every_measure_has_chance_ceiling_seed_and_corpus(audit):
    rows = audit.found["leakage"]
    assert {row["variant"] for row in rows} == {"none", "pad", "noise", "drop", "all", "whole corpus"}
    measures = {row["measure"] for row in rows}
    assert len(measures) >= 17, measures
    assert all(row["corpus"] == audit.plan.identity()["corpus"] and row["seed"] == 1 for row in rows)
    assert all(row["low"] <= row["value"] + 1e-9 and row["value"] <= row["high"] + 1e-9 for row in rows), rows


# --- bad input ---


def test_bad_records_are_counted_shown_and_bounded(spark, tmp_path):
    path = tmp_path / "messages.jsonl"
    path.write_text('{"id": "a", "attributes": {"x": 1}}\nnot json\n{"id": "b"}\n', encoding="utf-8")
    frame = corpus.read(spark, str(path), "messages").cache()
    with pytest.raises(AuditError, match=r"2 of 3 messages do not parse.*not JSON.*the line begins 'not json'.*'b'"):
        corpus.check_errors(frame, str(path), "messages", 0.1)
    assert corpus.check_errors(frame, str(path), "messages", 0.7)["bad"] == 2


def test_parquet_and_jsonl_say_the_same(spark, files):
    read = [corpus.read(spark, str(files / f"messages.{kind}"), "messages").collect() for kind in ("jsonl", "parquet")]
    assert sorted(r["id"] + r["attributes"] for r in read[0]) == sorted(r["id"] + r["attributes"] for r in read[1])


def test_missing_columns_and_files_are_named(spark, files, tmp_path):
    with pytest.raises(AuditError, match="has no column 'predicate'"):
        corpus.read(spark, str(files / "messages.parquet"), "predicates")
    with pytest.raises(AuditError, match="no such file"):
        corpus.read(spark, str(tmp_path / "none.jsonl"), "messages")
    path = str(tmp_path / "messages.parquet")
    for columns, said in (({"id": ["a"]}, "neither"), ({"id": ["a"], "attributes": ["x"]}, "is string; it must be")):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(AuditError, match=said):
            corpus.read(spark, path, "messages")


def test_another_runs_folder_is_refused(tmp_path):
    claim(tmp_path / "out", {"a": 1})
    claim(tmp_path / "out", {"a": 1})
    with pytest.raises(AuditError, match="holds another run"):
        claim(tmp_path / "out", {"a": 2})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x", encoding="utf-8")
    with pytest.raises(AuditError, match="not empty"):
        claim(tmp_path / "other", {"a": 1})


def test_no_java_is_said_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(AuditError, match="Spark needs Java"):
        require_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(AuditError, match="holds no bin/java"):
        require_java()


def test_policies(tmp_path):
    (tmp_path / "policy.toml").write_text("fpr_max = 0.5\n", encoding="utf-8")
    assert load_policy(str(tmp_path / "policy.toml"))["fpr_max"] == 0.5
    for text, said in (
        ("fpr = 0.5", "unknown key 'fpr'"),
        ("fpr_max = 'low'", "fpr_max is a number of at least 0, not 'low'"),
        ("advantage_max = 0.1", "advantage_max is a table"),
        ("[advantage_max]\nrank_corected = 0.1", "unknown measure 'rank_corected'"),
        ("[advantage_max]\nrank_corrected = nan", "rank_corrected is a number of at least 0"),
    ):
        (tmp_path / "policy.toml").write_text(text + "\n", encoding="utf-8")
        with pytest.raises(AuditError, match=said):
            load_policy(str(tmp_path / "policy.toml"))


def test_a_policy_may_limit_every_measure(audit):
    every = {**DEFAULT_POLICY, "advantage_max": dict.fromkeys(MEASURES, 1.0)}
    verdict = judge(audit.found, every, "none")
    assert all(check["value"] is not None for check in verdict["checks"])
    assert {row["measure"] for row in audit.found["leakage"]} == set(MEASURES)
    assert {one.number for one in MEASURES.values()} == set(range(1, 12))  # (12) is the columns: each hardening
    nothing = judge({"fpr": audit.found["fpr"]}, every, "none")
    assert [c["value"] for c in nothing["checks"]][3:] == [None] * len(MEASURES)


def test_a_hardened_profile_is_judged_by_its_own_column():
    for name, profile in leakage.variants(flights.profile()).items():
        assert leakage.configured(profile) == name
    own = replace(flights.profile(), hardening=(Hardening.of("noise", per_mille=70),))
    assert leakage.configured(own) == "as configured"
