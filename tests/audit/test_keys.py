"""Keys stay put: no trace of them in what Spark writes; real keyrings work; separate worker processes read a file."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from secroute.audit import flights
from secroute.audit.keys import run_keys, worker_key_file
from secroute.audit.tables import words_of
from secroute.content.files import write_messages, write_predicates
from secroute.encoding.encoder import Encoder
from secroute.errors import EpochError
from secroute.keyring import OwnerKeyring, TokenKeys, save_token_keys


@pytest.fixture
def ring(tmp_path: Path) -> OwnerKeyring:
    made = OwnerKeyring.new("demo", flights.profile(), now=0.0)
    made.create(tmp_path / "owner.key")
    return made


def searched(keys: TokenKeys) -> list[bytes]:
    """The token root and some attribute keys, in the forms in which they could have been written."""
    secrets = [keys.export_token_root(), keys.hardening_key(), *(keys.token_key(n) for n in ("dest", "carrier"))]
    return [
        form
        for s in secrets
        for form in (s, s.hex().encode(), base64.b64encode(s)[:40], base64.urlsafe_b64encode(s)[:40])
    ]


def search(needles: list[bytes], *roots: Path) -> int:
    """How many files were searched; none of them holds a key."""
    looked = 0
    for file in (f for root in roots for f in root.rglob("*") if f.is_file()):
        data = file.read_bytes()
        looked += 1
        assert not any(needle in data for needle in needles), file
    return looked


def test_no_key_in_sparks_folders_event_log_or_report(audit, spark_dirs):
    assert search(searched(audit.keys), *spark_dirs.values(), audit.folders.root) > 10
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


def test_the_key_file_of_a_killed_run_goes_with_the_next(audit, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed, young = tmp_path / "secroute-audit-keys-killed", tmp_path / "secroute-audit-keys-young"
    with worker_key_file(audit.keys) as path:
        for folder in (killed, young):
            folder.mkdir()
            (folder / "tokens.key").write_bytes(b"left behind")
        for folder in (killed, Path(path).parent):
            os.utime(folder, (0, 0))
        with worker_key_file(audit.keys):
            assert not killed.exists()
            assert young.exists()
            assert Path(path).exists()  # old, but its run is alive


def test_an_epoch_that_the_keyring_lacks_is_named(ring, tmp_path):
    assert isinstance(
        run_keys(flights.profile(), str(tmp_path / "owner.key"), ring.timeline.epochs[0].number), TokenKeys
    )
    with pytest.raises(EpochError, match="holds no epoch 77"):
        run_keys(flights.profile(), str(tmp_path / "owner.key"), 77)


def test_a_real_keyring_encodes_in_the_workers_and_leaves_no_trace(ring, make, spark_dirs, tmp_path):
    number = ring.timeline.epochs[0].number
    keys = run_keys(flights.profile(), str(tmp_path / "owner.key"), number)
    run = make(tmp_path / "out", keys, keyring_scope=f"epoch {number}")
    run.ingest()
    with run.key_path() as path:
        run.encode(path)
    rows = pq.read_table(run.folders.encoded, columns=["id", "bits"]).sort_by("id")
    sent = sorted(flights.messages(len(rows)), key=lambda m: m.id)
    direct = Encoder(keys.profile, ring.epoch(number).token_only()).encode_messages(sent)
    assert np.array_equal(words_of(rows["bits"], keys.profile.words), direct)
    assert search(searched(keys), *spark_dirs.values(), run.folders.root) > 5


def test_separate_worker_processes_read_a_key_file(ring, tmp_path):
    """``local-cluster``: executors are processes of their own, as on a cluster, each with the file by its path."""
    keys = ring.epoch(ring.timeline.epochs[0].number).token_only()
    save_token_keys(keys, tmp_path / "tokens.key")
    write_messages(tmp_path / "messages.parquet", flights.messages(400))
    write_predicates(tmp_path / "predicates.jsonl", flights.predicates(100, interfaces=5))
    arguments = {
        "messages": tmp_path / "messages.parquet",
        "predicates": tmp_path / "predicates.jsonl",
        "worker-key-file": tmp_path / "tokens.key",
        "out": tmp_path / "out",
        "master": "local-cluster[2,1,1024]",
        "memory": "1g",
    }
    command = [sys.executable, "-m", "secroute.cli.main", "audit", "fpr"]
    done = subprocess.run(
        [*command, *(text for name, value in arguments.items() for text in (f"--{name}", str(value)))],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["false_negatives"] == 0
    assert result["exact_matches"] > 0
    assert search(searched(keys), tmp_path / "out") > 5
    assert all(needle not in (done.stdout + done.stderr).encode() for needle in searched(keys))
