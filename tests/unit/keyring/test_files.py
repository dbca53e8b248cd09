"""Key files: private, whole, locked, never overwritten; each kind of damage has its own error and changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from secroute import limits
from secroute.encoding.profile import Profile
from secroute.errors import EpochError, KeyringDamagedError, KeyringError, LimitError, PassphraseError
from secroute.keyring import (
    Keyring,
    MemberKeyring,
    OwnerKeyring,
    files,
    load_token_keys,
    save_token_keys,
    throwaway_token_keys,
)
from secroute.keyring.records import Record
from tests.unit.keyring.conftest import NOW

CHEAP = limits.SCRYPT_LOG2_N_MIN
PASSPHRASE = b"correct horse battery staple"


@pytest.fixture(params=[None, PASSPHRASE], ids=["plain", "sealed"])
def passphrase(request: pytest.FixtureRequest) -> bytes | None:
    value: bytes | None = request.param
    return value


def test_owner_and_member_come_back_as_they_were(
    tmp_path: Path, owner: OwnerKeyring, desk: MemberKeyring, passphrase: bytes | None
) -> None:
    owner.rotate(now=NOW, activates_s=NOW + 60)
    desk.accept(owner.grant("desk", desk.identity.public, now=NOW), now=NOW)
    owner.revoke(["desk"], now=NOW, activates_s=NOW + 10)
    for number, keyring in enumerate((owner, desk, MemberKeyring.new())):
        path = tmp_path / f"{number}.keyring"
        keyring.create(path, passphrase, CHEAP)
        loaded = Keyring.load(path, passphrase)
        assert type(loaded) is type(keyring)
        assert loaded.to_record() == keyring.to_record()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_existing_file_is_never_overwritten(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "taken"
    path.write_text("precious")
    with pytest.raises(KeyringError, match="exists; key files are never overwritten"):
        owner.create(path)
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(KeyringError, match="exists"):
        owner.create(dangling)
    with pytest.raises(KeyringError, match="there is no directory"):
        owner.create(tmp_path / "no" / "file")
    assert path.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["link", "taken"]


def test_a_file_that_others_may_read_is_refused(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path)
    path.chmod(0o640)
    with pytest.raises(KeyringError, match="mode 0640 lets others at it"):
        Keyring.load(path)


def test_truncation_is_damage(tmp_path: Path, owner: OwnerKeyring, passphrase: bytes | None) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path, passphrase, CHEAP)
    data = path.read_bytes()
    for cut in (0, 1, len(data) // 3, len(data) - 2):
        path.write_bytes(data[:cut])
        with pytest.raises(KeyringDamagedError, match=r"o\.keyring: "):
            Keyring.load(path, passphrase)
        assert path.read_bytes() == data[:cut]


def test_no_flipped_bit_gets_through(tmp_path: Path, desk: MemberKeyring) -> None:
    data = files.encode(files.key_file("member", desk.to_record(), None))
    for position in range(len(data) - 1):
        damaged = bytearray(data)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(KeyringError):
            files.decode(bytes(damaged), "file")


def test_tampering_that_mends_the_checksum_does_not_pass_a_sealed_file(owner: OwnerKeyring) -> None:
    protection = files.Protection(PASSPHRASE, CHEAP)
    envelope = json.loads(files.encode(files.key_file("owner", owner.to_record(), protection)))
    del envelope["sha256"]
    envelope["kind"] = "member"
    envelope["sha256"] = hashlib.sha256(files.canonical(envelope)).hexdigest()
    with pytest.raises(PassphraseError):
        files.decode(files.canonical(envelope), "file", PASSPHRASE)


def test_a_wrong_or_missing_passphrase_has_its_own_error(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path, PASSPHRASE, CHEAP)
    before = path.read_bytes()
    with pytest.raises(PassphraseError, match="wrong passphrase"):
        Keyring.load(path, b"wrong")
    with pytest.raises(PassphraseError, match="none was given"):
        Keyring.load(path)
    with pytest.raises(PassphraseError, match="wrong passphrase"), OwnerKeyring.edit(path, b"wrong"):
        pytest.fail("must not be entered")
    assert path.read_bytes() == before
    for bad in (b"", b"x" * (limits.PASSPHRASE_BYTES_MAX + 1)):
        with pytest.raises(PassphraseError, match="a passphrase has"):
            owner.create(tmp_path / "new", bad)
    assert PASSPHRASE.decode() not in repr(files.Protection(PASSPHRASE))


def test_nothing_secret_is_readable_in_a_sealed_file(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path, PASSPHRASE, CHEAP)
    data = path.read_bytes()
    for secret in ("flights", owner.to_record()["owner_key"], owner.to_record()["epochs"][0]["secret"]):
        assert str(secret).encode() not in data


def _rotate_twice(keyring: OwnerKeyring) -> None:
    for number in (2, 2):
        keyring.rotate(now=NOW, activates_s=NOW, number=number)


def test_edits_are_all_or_nothing(tmp_path: Path, owner: OwnerKeyring, passphrase: bytes | None) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path, passphrase, CHEAP)
    before = path.read_bytes()
    with pytest.raises(EpochError), OwnerKeyring.edit(path, passphrase) as keyring:
        _rotate_twice(keyring)
    assert path.read_bytes() == before
    with OwnerKeyring.edit(path, passphrase) as keyring:
        keyring.rotate(now=NOW, activates_s=NOW)
    assert len(Keyring.load(path, passphrase).timeline) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == [".o.keyring.lock", "o.keyring"]


def test_a_client_sees_a_rotation_without_a_restart(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path, PASSPHRASE, CHEAP)
    loaded = Keyring.load(path, lambda: PASSPHRASE)
    assert loaded.reloaded() is loaded
    with OwnerKeyring.edit(path, PASSPHRASE) as keyring:
        keyring.rotate(now=NOW, activates_s=NOW)
    assert loaded.reloaded().publishing(NOW).number == 2
    assert owner.reloaded() is owner


def test_concurrent_writers_wait_and_lose_nothing(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path)

    def grant(name: str) -> None:
        with OwnerKeyring.edit(path) as keyring:
            keyring.grant(name, MemberKeyring.new().identity.public, now=NOW)

    threads = [threading.Thread(target=grant, args=(f"m{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loaded = OwnerKeyring.load(path)
    assert sorted(loaded.members) == [f"m{i}" for i in range(8)]
    assert len({member.sequence for member in loaded.members.values()}) == 8


def test_a_writer_that_waits_too_long_gives_up(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path)
    with (
        files.locked(path),
        pytest.raises(KeyringError, match="another process is changing it"),
        files.locked(path, wait_s=0.05),
    ):
        pytest.fail("must not be entered")


def test_a_writer_killed_in_the_middle_leaves_the_old_state(tmp_path: Path, owner: OwnerKeyring) -> None:
    path = tmp_path / "o.keyring"
    owner.create(path)
    before = path.read_bytes()
    script = (
        "import os, sys\n"
        "from secroute.keyring import OwnerKeyring, files\n"
        "os.replace = files.Path.replace = lambda *_: os._exit(9)\n"
        "with OwnerKeyring.edit(sys.argv[1]) as keyring:\n"
        "    keyring.rotate(now=2e9, activates_s=2_000_000_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False, capture_output=True)
    assert done.returncode == 9, done.stderr
    assert path.read_bytes() == before
    with OwnerKeyring.edit(path) as keyring:
        keyring.rotate(now=NOW, activates_s=NOW)


def test_kinds_are_not_mixed_up(tmp_path: Path, owner: OwnerKeyring, desk: MemberKeyring) -> None:
    owner.create(tmp_path / "o")
    desk.create(tmp_path / "d")
    save_token_keys(owner.epoch(1).token_only(), tmp_path / "t")
    with pytest.raises(KeyringError, match="keyring of a member; this needs that of an owner"):
        OwnerKeyring.load(tmp_path / "d")
    with pytest.raises(KeyringError, match="holds tokens, not a keyring"):
        Keyring.load(tmp_path / "t")
    with pytest.raises(KeyringError, match="token keys are wanted here, and nothing more"):
        load_token_keys(tmp_path / "o")
    with pytest.raises(KeyringError, match="no such file"):
        Keyring.load(tmp_path / "missing")
    with pytest.raises(KeyringError, match="is a directory"):
        Keyring.load(tmp_path)


def test_token_files_encode_but_do_not_open(tmp_path: Path, owner: OwnerKeyring) -> None:
    keys = owner.epoch(1)
    save_token_keys(keys.token_only(), tmp_path / "t")
    loaded = load_token_keys(tmp_path / "t")
    assert stat.S_IMODE((tmp_path / "t").stat().st_mode) == 0o600
    assert loaded.scope == keys.scope
    assert loaded.token_key("dest") == keys.token_key("dest")
    assert loaded.hardening_key() == keys.hardening_key()
    data = files.read(tmp_path / "t").body.decode()
    for secret in (owner.to_record()["epochs"][0]["secret"], files.blob(keys.payload_key())):
        assert secret not in data
    with pytest.raises(KeyringError, match="never overwritten"):
        save_token_keys(keys.token_only(), tmp_path / "t")


def test_throwaway_keys_differ_from_run_to_run() -> None:
    one, two = throwaway_token_keys(Profile.default()), throwaway_token_keys(Profile.default())
    assert one.token_key("a") != two.token_key("a")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 2; this release reads version 1"),
        ({"format": "other"}, "not a secroute key file"),
        ({"extra": 1}, "unknown field 'extra'"),
        ({"kind": 5}, "'kind' is missing or not str"),
        ({"seal": {"kdf": "md5"}}, "sealed in a way"),
        ({"seal": {"kdf": "scrypt", "log2_n": 40, "salt": ""}}, "outside 14..20"),
        ({"body": "?"}, "is not base64"),
        ({"body": "YR=="}, "one proper form"),
        ({"sha256": "0" * 64}, "its checksum is wrong"),
    ],
)
def test_a_malformed_envelope_says_what_is_wrong(owner: OwnerKeyring, change: dict[str, object], words: str) -> None:
    envelope = json.loads(files.encode(files.key_file("owner", owner.to_record(), None))) | change
    with pytest.raises(KeyringError, match=words):
        files.decode(json.dumps(envelope).encode(), "file")


def test_a_wrong_inside_is_damage_too(owner: OwnerKeyring) -> None:
    good = owner.to_record()
    epoch = good["epochs"][0]
    for change in (
        {"epochs": [epoch, epoch]},
        {"epochs": [epoch | {"profile": files.blob(b"{}")}]},
        {"epochs": [epoch | {"secret": files.blob(b"short")}]},
        {"space": None},
        {"sequence": True},
        {"sequence": -1},
        {"name": "x" * 300},
        {"members": [{"name": "x"}]},
        {"unknown": 1},
    ):
        with pytest.raises(KeyringDamagedError):
            OwnerKeyring.from_record(Record(good | change, "file"))


def test_a_file_too_large_to_be_read_again_is_not_written(
    tmp_path: Path, owner: OwnerKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.create(tmp_path / "o")
    monkeypatch.setattr(limits, "KEY_FILE_BYTES_MAX", 100)
    with pytest.raises(LimitError):
        owner.create(tmp_path / "o2")
    assert not (tmp_path / "o2").exists()
    with pytest.raises(KeyringDamagedError, match="over 100 bytes"):
        Keyring.load(tmp_path / "o")


def test_a_link_leads_to_one_keyring(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    owner = OwnerKeyring.new("x", Profile.default(), now=NOW)
    owner.create(tmp_path / "real" / "o.keyring")
    link = tmp_path / "o.keyring"
    link.symlink_to("real/o.keyring")
    with OwnerKeyring.edit(link) as keyring:
        keyring.rotate(now=NOW, activates_s=NOW + 60)
    assert link.is_symlink()
    assert len(OwnerKeyring.load(tmp_path / "real" / "o.keyring").timeline) == 2


def test_what_cannot_be_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "o.keyring"
    OwnerKeyring.new("x", Profile.default(), now=NOW).create(path)
    before = path.read_bytes()
    with pytest.raises(KeyringError), OwnerKeyring.edit(path) as keyring:
        keyring.sequence = 2**70
    assert path.read_bytes() == before


def test_grants_of_very_many_epochs_stay_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEYRING_EPOCHS_MAX", 8)
    owner, member = OwnerKeyring.new("x", Profile.default(), now=NOW, overlap_s=0), MemberKeyring.new()
    for turn in range(12):
        now = NOW + 10 * turn
        if turn:
            owner.rotate(now=now, activates_s=now, overlap_s=0)
        owner.grant("desk", member.identity.public, now=now + 1)
        for epoch in owner.ended(now + 1):
            owner.forget(epoch.number, now + 1)
    assert len(owner.members["desk"].granted) == 8
    OwnerKeyring.from_record(files.body_record(files.key_file("owner", owner.to_record(), None), "here"))


@pytest.mark.parametrize("name", ["\x1b]0;x\x07", "\ud800", "", " x", "é" * 128])
def test_names_are_printable_and_bounded(name: str) -> None:
    with pytest.raises(KeyringError):
        OwnerKeyring.new(name, Profile.default(), now=NOW)
