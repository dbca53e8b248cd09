"""The jobs on a real Spark session: the law, the oracle, resuming, bad input, and keys that stay put."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from secroute.audit import corpus, flights, publish
from secroute.audit.keys import run_keys, worker_key_file
from secroute.audit.run import Audit, Plan
from secroute.audit.session import require_java
from secroute.audit.stages import claim
from secroute.audit.verdict import DEFAULT_POLICY, judge, load_policy
from secroute.content import matches
from secroute.content.files import write_messages, write_predicates
from secroute.errors import AuditError, EpochError, FalseNegativeError
from secroute.keyring import TokenKeys
from tests.cases import cases

MESSAGES, PREDICATES = cases(1_500, 20_000), cases(300, 3_000)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("flights")
    write_messages(root / "messages.jsonl", flights.messages(MESSAGES))
    write_messages(root / "messages.parquet", flights.messages(MESSAGES))
    write_predicates(root / "predicates.jsonl", flights.predicates(PREDICATES, interfaces=20))
    return root


def make(spark: Any, files: Path, out: Path, **more: Any) -> Audit:
    profile = flights.profile()
    plan = Plan(str(files / "messages.jsonl"), str(files / "predicates.jsonl"), out, profile, partitions=2, **more)
    return Audit(spark, plan, run_keys(profile, None, None))


@pytest.fixture(scope="session")
def audit(spark: Any, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    made = make(spark, files, tmp_path_factory.mktemp("runs") / "one")
    made.run(with_sweep=False)
    publish.publish(made, DEFAULT_POLICY)
    return made


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


def test_blocks_change_nothing(spark, files, audit, tmp_path):
    blocked = make(spark, files, tmp_path / "blocked", block=PREDICATES // 3)
    # The same bits as the whole run, so that the counts must be the same, not only similar.
    object.__setattr__(blocked, "keys", audit.keys)
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


def test_a_finished_run_goes_on_from_its_stages(spark, files, audit):
    said: list[str] = []
    again = Audit(spark, audit.plan, audit.keys, said.append)
    again.run(with_sweep=False)
    assert said
    assert all(line.endswith("done before") for line in said), said
    assert again.found["fpr"] == audit.found["fpr"]


def test_a_false_negative_fails_the_job(spark, files, tmp_path):
    broken = make(spark, files, tmp_path / "broken")
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


def test_every_measure_has_chance_ceiling_seed_and_corpus(audit):
    rows = audit.found["leakage"]
    assert {row["variant"] for row in rows} == {"none", "pad", "noise", "drop", "all", "whole corpus"}
    measures = {row["measure"] for row in rows}
    assert len(measures) >= 17, measures
    assert all(row["corpus"] == audit.plan.identity()["corpus"] and row["seed"] == 1 for row in rows)
    assert all(row["low"] <= row["value"] + 1e-9 and row["value"] <= row["high"] + 1e-9 for row in rows), rows


# --- keys ---


def searched(keys: TokenKeys) -> list[bytes]:
    """The token root and some attribute keys, in the forms in which they could have been written."""
    secrets = [keys.export_token_root(), keys.hardening_key(), *(keys.token_key(n) for n in ("dest", "carrier"))]
    return [
        form
        for s in secrets
        for form in (s, s.hex().encode(), base64.b64encode(s)[:40], base64.urlsafe_b64encode(s)[:40])
    ]


def test_no_key_in_sparks_folders_event_log_or_report(audit, spark_dirs):
    looked = 0
    needles = searched(audit.keys)
    for root in (*spark_dirs.values(), audit.folders.root):
        for file in (f for f in Path(root).rglob("*") if f.is_file()):
            data = file.read_bytes()
            looked += 1
            assert not any(needle in data for needle in needles), file
    assert looked > 10
    assert any(f.stat().st_size > 10_000 for f in spark_dirs["events"].rglob("*") if f.is_file()), (
        "no event log to search"
    )


def test_the_search_would_find_a_broadcast_key(spark, spark_dirs):
    # The counter-experiment: a stand-in secret in a broadcast does end up in clear in Spark's local folders.
    secret = os.urandom(32)
    held = spark.sparkContext.broadcast(secret)
    written = [f.read_bytes() for f in spark_dirs["local"].rglob("*") if f.is_file()]
    assert any(secret in data for data in written)
    held.destroy()


def test_the_key_file_is_private_and_goes_away(audit):
    with worker_key_file(audit.keys) as path:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(Path(path).parent).st_mode) == 0o700
    assert not Path(path).parent.exists()


# --- bad input ---


def test_bad_records_are_counted_shown_and_bounded(spark, tmp_path):
    path = tmp_path / "messages.jsonl"
    path.write_text('{"id": "a", "attributes": {"x": 1}}\nnot json\n{"id": "b"}\n', encoding="utf-8")
    frame = corpus.read(spark, str(path), "messages").cache()
    with pytest.raises(AuditError, match=r"2 of 3 messages do not parse.*not JSON"):
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


def test_an_epoch_that_the_keyring_lacks_is_named(tmp_path):
    from secroute.keyring import OwnerKeyring

    ring = OwnerKeyring.new("demo", flights.profile(), now=0.0)
    ring.create(tmp_path / "owner.key")
    assert isinstance(
        run_keys(flights.profile(), str(tmp_path / "owner.key"), ring.timeline.epochs[0].number), TokenKeys
    )
    with pytest.raises(EpochError, match="holds no epoch 77"):
        run_keys(flights.profile(), str(tmp_path / "owner.key"), 77)


def test_policies(tmp_path):
    (tmp_path / "policy.toml").write_text("fpr_max = 0.5\n", encoding="utf-8")
    assert load_policy(str(tmp_path / "policy.toml"))["fpr_max"] == 0.5
    (tmp_path / "policy.toml").write_text("fpr = 0.5\n", encoding="utf-8")
    with pytest.raises(AuditError, match="unknown key 'fpr'"):
        load_policy(str(tmp_path / "policy.toml"))


def test_separate_worker_processes(files, tmp_path):
    """``local-cluster``: executors are processes of their own, as on a cluster."""
    arguments = ["--messages", str(files / "messages.parquet"), "--predicates", str(files / "predicates.jsonl")]
    profile = tmp_path / "profile.toml"
    profile.write_text(flights.PROFILE_TOML, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "secroute.cli.main",
            "audit",
            "fpr",
            *arguments,
            "--profile",
            str(profile),
            "--out",
            str(tmp_path / "out"),
            "--master",
            "local-cluster[2,1,1024]",
            "--memory",
            "1g",
        ],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["false_negatives"] == 0
