"""The command line refuses in a line, before it starts anything, and stops when it is told to."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from secroute.audit import flights
from secroute.audit.keys import run_keys
from secroute.cli.main import main
from secroute.content.files import write_messages, write_predicates
from secroute.errors import SecrouteError
from secroute.keyring import OwnerKeyring

PASSPHRASE = b"correct horse battery staple"


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    write_messages(tmp_path / "m.jsonl", flights.messages(5))
    write_predicates(tmp_path / "p.jsonl", flights.predicates(5))
    return ["--messages", str(tmp_path / "m.jsonl"), "--predicates", str(tmp_path / "p.jsonl")]


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    OwnerKeyring.new("demo", flights.profile(), now=0.0).create(tmp_path / "owner.key", PASSPHRASE)
    return tmp_path / "owner.key"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--block", "0"], "at least 1, not '0'"),
        (["--tolerance", "-1"], "a share from 0 to below 1"),
        (["--tolerance", "nan"], "a share from 0 to below 1"),
        (["--engine", "quantum"], "invalid choice: 'quantum'"),
        (["--master", "nonsense"], "not local[N], local-cluster[workers,cores,MiB], spark://"),
        (["--epoch", "3"], "give --keyring, too"),
        (["--keyring", "none.key"], "none.key: no such file"),
        (["--keyring", "a", "--worker-key-file", "b"], "two sources of keys"),
        (["--policy", "none.toml"], "none.toml"),
        (["--messages", "none.jsonl"], "none.jsonl"),
    ],
)
def test_bad_arguments_are_said_in_a_line(given, said, corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["audit", "run", *corpus, "--out", "out", *given])
    except SystemExit as stopped:  # argparse
        status = stopped.code
    assert status == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_a_sealed_keyring_needs_its_passphrase(sealed, corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    phrase = tmp_path / "phrase"
    for text, said in ((None, "sealed"), (b"something else", "wrong passphrase")):
        more = []
        if text is not None:
            phrase.write_bytes(text)
            phrase.chmod(0o600)
            more = ["--passphrase-file", str(phrase)]
        assert main(["audit", "fpr", *corpus, "--out", str(tmp_path / "out"), "--keyring", str(sealed), *more]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(SecrouteError, match="sealed"):
        run_keys(flights.profile(), str(sealed), 1)
    assert run_keys(flights.profile(), str(sealed), 1, PASSPHRASE).scope.epoch == 1


@pytest.mark.parametrize(("told", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_stop_does_so_without_pages_of_frames(told, status, tmp_path):
    write_messages(tmp_path / "m.jsonl", flights.messages(20_000))
    write_predicates(tmp_path / "p.jsonl", flights.predicates(200))
    command = [
        sys.executable,
        "-m",
        "secroute.cli.main",
        "audit",
        "encode",
        "--messages",
        "m.jsonl",
        "--predicates",
        "p.jsonl",
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(Path(__file__).parents[2])}
    (tmp_path / "tmp").mkdir()
    run = subprocess.Popen(
        [*command, "--out", "out"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    with run:
        try:
            assert run.stderr is not None
            said = [run.stderr.readline()]
            while said[-1] and "stages/messages" not in said[-1]:
                said.append(run.stderr.readline())
            run.send_signal(told)
            rest = run.stderr.read()
            assert run.wait(30) == status, said
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    assert "Traceback" not in rest
    assert "org.apache" not in rest
    assert not list((tmp_path / "tmp").glob("secroute-audit-keys-*"))
