"""``secroute keys`` as people use it: the whole life of a space, and what happens when something is wrong."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from secroute.cli.main import main
from secroute.keyring import Keyring, OwnerKeyring, files

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def keys(line: str, *more: str) -> int:
    return main(["keys", *line.split(), *more])


def run(capsys: Capture, line: str, *more: str) -> list[str]:
    assert keys(line, *more) == 0, capsys.readouterr().err
    return capsys.readouterr().out.splitlines()


def refused(capsys: Capture, line: str, *more: str) -> str:
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and ".lock" not in path.name}
    assert keys(line, *more) == 2
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and ".lock" not in path.name}
    assert after == before
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("secroute: ")
    assert output.err.count("\n") == 1
    assert not output.err.rstrip().endswith(".")
    return output.err


def member(capsys: Capture, name: str) -> str:
    return run(capsys, f"identity --keyring {name}.keyring")[0]


def test_the_life_of_a_space(capsys: Capture) -> None:
    space, owner = (line.split()[1] for line in run(capsys, "init --keyring o.keyring --name flights"))
    for name in ("ann", "eve"):
        identity = member(capsys, name)
        run(capsys, f"grant --keyring o.keyring --member {name} --identity {identity} --out {name}.grant")
        out = run(capsys, f"accept --keyring {name}.keyring --grant {name}.grant --owner {owner}")
        assert out[0] == f"space {space} 'flights'"
    out = run(capsys, "rotate --keyring o.keyring --activate-in 0s --overlap 1m --grants second")
    assert out[0].startswith("epoch 2 profile ")
    assert sorted(os.listdir("second")) == ["ann.grant", "eve.grant"]
    run(capsys, "accept --keyring ann.keyring --grant second/ann.grant")

    told = "\n".join(run(capsys, "revoke --keyring o.keyring --member eve --grants third --activate-in 0s"))
    assert "eve is revoked and was never given epoch 3" in told
    assert "eve keeps the keys of epochs 1, 2; nothing can take them back" in told
    assert "read every payload sealed under them" in told
    assert os.listdir("third") == ["ann.grant"]
    run(capsys, "accept --keyring ann.keyring --grant third/ann.grant")

    shown = json.loads(run(capsys, "show --json --keyring o.keyring")[-1])
    assert [epoch["number"] for epoch in shown["epochs"]] == [1, 2, 3]
    assert shown["epochs"][2]["state"] == "current"
    assert {entry["name"]: entry["revoked"] is None for entry in shown["members"]} == {"ann": True, "eve": False}
    ann, boss = Keyring.load("ann.keyring"), OwnerKeyring.load("o.keyring")
    assert ann.epoch(3).same_as(boss.epoch(3))
    assert [epoch.number for epoch in Keyring.load("eve.keyring").timeline.epochs] == [1]


def test_show_shows_no_secret(capsys: Capture) -> None:
    run(capsys, "init --keyring o.keyring --name flights")
    identity = member(capsys, "ann")
    run(capsys, f"grant --keyring o.keyring --member ann --identity {identity} --out g")
    run(capsys, "accept --keyring ann.keyring --grant g")
    for name in ("o", "ann"):
        shown = "\n".join(
            run(capsys, f"show --keyring {name}.keyring") + run(capsys, f"show --json --keyring {name}.keyring")
        )
        assert "flights" in shown
        record = Keyring.load(f"{name}.keyring").to_record()
        for secret in _secrets(record):
            raw = files.Record({"x": secret}, "x").blob("x")
            assert secret not in shown
            assert raw.hex() not in shown


def _secrets(value: object, key: str = "") -> list[str]:
    if isinstance(value, dict):
        return [secret for name, inner in value.items() for secret in _secrets(inner, name)]
    if isinstance(value, list):
        return [secret for inner in value for secret in _secrets(inner)]
    return [value] if key in {"secret", "durable_secret", "owner_key", "sealing", "signing"} and value else []  # type: ignore[list-item]


def test_passphrases_come_from_files_or_prompts(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pass").write_text("open sesame\n")
    Path("pass").chmod(0o600)
    run(capsys, "init --keyring o.keyring --name flights --passphrase-file pass")
    assert b"flights" not in Path("o.keyring").read_bytes()
    run(capsys, "show --keyring o.keyring --passphrase-file pass")
    run(capsys, "rotate --keyring o.keyring --passphrase-file pass")
    assert "give --passphrase-file where there is no terminal" in refused(capsys, "show --keyring o.keyring")

    answers = iter(["open sesame", "one", "two", "wrong"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    run(capsys, "show --keyring o.keyring")
    assert "the two passphrases differ" in refused(capsys, "init --keyring p.keyring --name x --seal")
    assert "wrong passphrase" in refused(capsys, "rotate --keyring o.keyring")
    Path("pass").chmod(0o644)
    assert "mode 0644" in refused(capsys, "show --keyring o.keyring --passphrase-file pass")


def test_bad_input_has_its_own_error_and_changes_nothing(capsys: Capture) -> None:
    run(capsys, "init --keyring o.keyring --name flights")
    ann, eve = member(capsys, "ann"), member(capsys, "eve")
    run(capsys, f"grant --keyring o.keyring --member ann --identity {ann} --out ann.grant")
    assert "exists; key files are never overwritten" in refused(capsys, "init --keyring o.keyring --name again")
    assert "exists" in refused(capsys, "identity --keyring ann.keyring")
    assert "exists" in refused(capsys, "grant --keyring o.keyring --member ann --out ann.grant")
    assert "this grant is for identity" in refused(capsys, "accept --keyring eve.keyring --grant ann.grant")
    assert "the owner expected is" in refused(
        capsys, f"accept --keyring ann.keyring --grant ann.grant --owner {'0' * 64}"
    )
    assert "64 hexadecimal digits" in refused(capsys, "accept --keyring ann.keyring --grant ann.grant --owner 12")
    assert "mistyped or cut short" in refused(
        capsys, f"grant --keyring o.keyring --member eve --identity {eve[:-2]}zz --out eve.grant"
    )
    assert "no member 'zoe'" in refused(capsys, "revoke --keyring o.keyring --member zoe --grants out")
    run(capsys, "accept --keyring ann.keyring --grant ann.grant")
    assert "already accepted" in refused(capsys, "accept --keyring ann.keyring --grant ann.grant")
    assert "needs that of an owner" in refused(capsys, "rotate --keyring ann.keyring")
    assert "no such file" in refused(capsys, "show --keyring nothing")
    Path("taken").mkdir()
    Path("taken/ann.grant").write_text("precious")
    assert "exists" in refused(capsys, "rotate --keyring o.keyring --grants taken")
    data = Path("o.keyring").read_bytes()
    Path("o.keyring").write_bytes(data[:-20])
    assert "damaged or truncated" in refused(capsys, "rotate --keyring o.keyring")
    Path("o.keyring").write_bytes(data.replace(b'"body":"e', b'"body":"f', 1))
    assert "its checksum is wrong" in refused(capsys, "grant --keyring o.keyring --member ann --out new.grant")


def test_a_profile_file_is_taken_and_a_wrong_one_refused(capsys: Capture) -> None:
    Path("p.toml").write_text("bits = 512\nhashes = 3\n")
    Path("bad.toml").write_text("bits = 63\n")
    assert "bad.toml" in refused(capsys, "init --keyring o.keyring --name x --profile bad.toml")
    run(capsys, "init --keyring o.keyring --name x --profile p.toml")
    assert Keyring.load("o.keyring").epoch(1).profile.bits == 512
    run(capsys, "rotate --keyring o.keyring")
    assert Keyring.load("o.keyring").epoch(2).profile.bits == 512


def test_certificates_on_disk(capsys: Capture) -> None:
    run(capsys, "ca --out pki")
    run(capsys, "issue --ca pki --name r1 --role router --host r1.internal --host 10.1.2.3")
    run(capsys, "issue --ca pki --name desk --role client --out desk")
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in Path().rglob("*") if path.is_file()}
    assert modes == {
        "pki/ca.crt": 0o644,
        "pki/ca.key": 0o600,
        "pki/r1.crt": 0o644,
        "pki/r1.key": 0o600,
        "desk/desk.crt": 0o644,
        "desk/desk.key": 0o600,
    }
    assert "exists" in refused(capsys, "ca --out pki")
    assert "exists" in refused(capsys, "issue --ca pki --name r1 --role router")
    assert "CA's own name" in refused(capsys, "issue --ca pki --name ca --role client")
    assert "no such file" in refused(capsys, "issue --ca nowhere --name x --role client")
    assert "cannot name a certificate" in refused(capsys, "issue --ca pki --name", "../x", "--role", "client")


@pytest.mark.parametrize(
    "command", ["", "init", "rotate", "show", "identity", "grant", "accept", "revoke", "ca", "issue"]
)
def test_every_command_has_help(capsys: Capture, command: str) -> None:
    with pytest.raises(SystemExit) as done:
        keys(f"{command} --help")
    assert done.value.code == 0
    assert "usage: secroute keys" in capsys.readouterr().out


def test_times_are_checked(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        keys("rotate --keyring o --activate-in tomorrow")
    assert "is not a time like" in capsys.readouterr().err
