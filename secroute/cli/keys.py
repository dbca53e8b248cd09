"""``secroute keys``: spaces, epochs, grants, identities and development certificates.

TRUSTED side. Thin: every command reads its arguments, calls ``secroute.keyring``, and says what happened. Results go
to stdout, everything else to stderr; a passphrase comes from a prompt or a file, never from arguments or environment.
"""

from __future__ import annotations

import argparse
import datetime
import getpass
import hashlib
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from secroute import limits
from secroute.cli import keys_certificates
from secroute.encoding.profile import Profile, load_profile
from secroute.errors import InputError, PassphraseError
from secroute.keyring import Keyring, MemberKeyring, OwnerKeyring, PublicIdentity, Revocation, files
from secroute.keyring.grants import read_header
from secroute.output import emit_json, say

_FILE_NAME_CHARS_MAX = 128
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "a space from nothing to a first member:\n"
        "  owner$   secroute keys init --keyring owner.keyring --name flights --seal\n"
        "  member$  secroute keys identity --keyring desk.keyring          # prints srid1-...\n"
        "  owner$   secroute keys grant --keyring owner.keyring --member desk --identity srid1-... --out desk.grant\n"
        "  member$  secroute keys accept --keyring desk.keyring --grant desk.grant\n"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _configure_owner(commands)
    _configure_member(commands)
    keys_certificates.configure(commands)


def _configure_owner(commands: Any) -> None:
    init = _command(commands, "init", _init, "make a new space: its owner's keyring with epoch 1 active at once")
    _keyring_option(init)
    init.add_argument("--name", required=True, help="the space's name; it stays on the trusted side")
    init.add_argument("--profile", type=Path, metavar="FILE", help="encoding profile (TOML); default: the product's")
    _overlap_option(init)
    _seal_options(init)

    rotate = _command(commands, "rotate", _rotate, "schedule the next epoch")
    _keyring_option(rotate)
    _timing_options(rotate, "1h")
    rotate.add_argument(
        "--profile", type=Path, metavar="FILE", help="profile of the new epoch; default: the last one's"
    )
    rotate.add_argument(
        "--number", type=int, help="number of the new epoch (after restoring an old backup: skip ahead)"
    )
    rotate.add_argument("--grants", type=Path, metavar="DIR", help="also write a new grant for every member to DIR")
    _valid_option(rotate)

    grant = _command(commands, "grant", _grant, "seal the current and later epochs to one member")
    _keyring_option(grant)
    grant.add_argument("--member", required=True, metavar="NAME", help="the member's name in the owner's registry")
    grant.add_argument("--identity", metavar="SRID", help="its public identity (srid1-...); needed the first time")
    grant.add_argument("--out", required=True, type=Path, metavar="FILE", help="the grant; never overwritten")
    _valid_option(grant)

    revoke = _command(commands, "revoke", _revoke, "rotate and grant the new epoch to everybody but the revoked")
    _keyring_option(revoke)
    revoke.add_argument("--member", required=True, action="append", metavar="NAME", help="whom; may be repeated")
    revoke.add_argument("--grants", required=True, type=Path, metavar="DIR", help="where the others' new grants go")
    _timing_options(revoke, "10m")
    _valid_option(revoke)


def _configure_member(commands: Any) -> None:
    identity = _command(commands, "identity", _identity, "make a member's keyring and print its public identity")
    _keyring_option(identity)
    _seal_options(identity)

    accept = _command(commands, "accept", _accept, "take a grant into a member's keyring")
    _keyring_option(accept)
    accept.add_argument("--grant", required=True, type=Path, metavar="FILE")
    accept.add_argument("--owner", metavar="HEX", help="the owner's key from another channel; else the first is pinned")

    show = _command(commands, "show", _show, "say what a keyring holds; never a secret")
    _keyring_option(show)
    show.add_argument("--json", action="store_true", help="one JSON object")


# --- options ---------------------------------------------------------------------------------------------------------


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _keyring_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keyring", required=True, type=Path, metavar="FILE")
    parser.add_argument(
        "--passphrase-file", type=Path, metavar="FILE", help="passphrase of a sealed keyring (mode 0600); else a prompt"
    )


def _seal_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seal", action="store_true", help="seal with a passphrase (prompt, or --passphrase-file)")


def _overlap_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--overlap",
        type=_duration,
        default=_duration("1h"),
        metavar="TIME",
        help="how long before and after the switch subscribers hold both epochs (30s, 10m, 1h, 7d); default 1h",
    )


def _timing_options(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--activate-in",
        type=_duration,
        default=_duration(default),
        metavar="TIME",
        help=f"when publishers switch; members need their new grants before; default {default}",
    )
    _overlap_option(parser)


def _valid_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--valid", type=_duration, default=_duration("90d"), metavar="TIME", help="default 90d")


def _duration(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 30s, 10m, 1h or 7d")
    return int(match[1]) * _UNITS_S[match[2]]


def _read_passphrase_file(path: Path) -> bytes:
    passphrase = files.read_bytes(path, limits.PASSPHRASE_BYTES_MAX + 2, private=True)
    return passphrase.removesuffix(b"\n").removesuffix(b"\r")


def passphrase_of(args: argparse.Namespace) -> files.Passphrase:
    """What opens an existing keyring: asked for only if the keyring turns out to be sealed."""

    def ask() -> bytes:
        if args.passphrase_file is not None:
            return _read_passphrase_file(args.passphrase_file)
        if not sys.stdin.isatty():
            raise PassphraseError(f"{args.keyring}: sealed; give --passphrase-file where there is no terminal")
        return getpass.getpass(f"passphrase of {args.keyring}: ").encode()

    return ask


def _new_passphrase(args: argparse.Namespace) -> bytes | None:
    if args.passphrase_file is not None:
        return _read_passphrase_file(args.passphrase_file)
    if not args.seal:
        return None
    if not sys.stdin.isatty():
        raise PassphraseError("--seal asks for a passphrase; give --passphrase-file where there is no terminal")
    first = getpass.getpass("new passphrase: ").encode()
    if first != getpass.getpass("again: ").encode():
        raise PassphraseError("the two passphrases differ")
    return first


def _profile(path: Path | None) -> Profile | None:
    return None if path is None else load_profile(path)


# --- owner -----------------------------------------------------------------------------------------------------------


def _init(args: argparse.Namespace) -> int:
    files.refuse_existing(args.keyring)
    profile = _profile(args.profile) or Profile.default()
    keyring = OwnerKeyring.new(args.name, profile, now=time.time(), overlap_s=args.overlap)
    passphrase = _new_passphrase(args)
    keyring.create(args.keyring, passphrase)
    say(f"made {args.keyring}: whoever reads it reads the space; back it up (docs/keys.md)")
    if passphrase is None:
        say("it is not sealed with a passphrase; --seal does that")
    print(f"space {keyring.space.hex()}")
    print(f"owner {keyring.owner.hex()}")
    return 0


def _rotate(args: argparse.Namespace) -> int:
    now = time.time()
    profile = _profile(args.profile)
    grants: dict[str, bytes] = {}
    with OwnerKeyring.edit(args.keyring, passphrase_of(args)) as keyring:
        if args.grants is not None:
            _refuse_grants(args.grants, keyring, without=())
        epoch = keyring.rotate(
            now=now,
            activates_s=int(now) + args.activate_in,
            overlap_s=args.overlap,
            profile=profile,
            number=args.number,
        )
        if args.grants is not None:
            grants = keyring.grant_all(now=now, valid_s=args.valid)
    _write_grants(args.grants, grants)
    print(f"epoch {epoch.number} profile {epoch.profile.digest.hex()[:16]} activates {_when(epoch.activates_s)}")
    if args.grants is None:
        say(f"members need it before {_when(epoch.activates_s)}: secroute keys grant, or rotate with --grants DIR")
    return 0


def _grant(args: argparse.Namespace) -> int:
    files.refuse_existing(args.out)
    identity = None if args.identity is None else PublicIdentity.parse(args.identity)
    with OwnerKeyring.edit(args.keyring, passphrase_of(args)) as keyring:
        grant = keyring.grant(args.member, identity, now=time.time(), valid_s=args.valid)
    files.create(args.out, grant)
    header = read_header(grant)
    numbers = _list([number for number, _ in header.epochs])
    print(f"grant {header.sequence} for {args.member} epochs {numbers} owner {header.owner.hex()}")
    return 0


def _revoke(args: argparse.Namespace) -> int:
    now = time.time()
    with OwnerKeyring.edit(args.keyring, passphrase_of(args)) as keyring:
        _refuse_grants(args.grants, keyring, without=args.member)
        revocation = keyring.revoke(
            args.member, now=now, activates_s=int(now) + args.activate_in, overlap_s=args.overlap, valid_s=args.valid
        )
    _write_grants(args.grants, revocation.grants)
    for line in _exposure(revocation):
        print(line)
    return 0


def _exposure(revocation: Revocation) -> list[str]:
    """What a revocation does not undo, in plain words."""
    epoch = revocation.epoch
    lines = [f"epoch {epoch.number} replaces what they know from {_when(epoch.activates_s)} on"]
    for name, exposed in revocation.exposed.items():
        ends = [window.end_s for _, window in exposed if window is not None and window.end_s is not None]
        until = f"until {_when(max(ends))}" if ends else "until they end"
        lines += [
            f"{name} is revoked and was never given epoch {epoch.number}",
            f"{name} keeps the keys of epochs {_list([number for number, _ in exposed])}; nothing can take them back:",
            "  - it can read every payload sealed under them, past and still to come, that it gets hold of",
            "  - it can test guesses against messages and filters encoded under them, if it sees a router's traffic",
            f"  - it can publish under them, and subscribers will open that, {until}",
            "  - it can tell durable subscriptions by name for as long as the space lives",
            "  its certificate is another matter: take it out of every router's configuration now",
        ]
    lines.append(f"new grants written: {len(revocation.grants)}; publishers without theirs stay in the exposed epochs")
    return lines


def _grant_path(directory: Path, member: str) -> Path:
    name = quote(member, safe=" @+")
    if len(name) > _FILE_NAME_CHARS_MAX:
        # A name may be as long as a file name, and quoting triples it.
        digest = hashlib.sha256(member.encode()).hexdigest()[:16]
        name = f"{name[:_FILE_NAME_CHARS_MAX]}-{digest}"
    return directory / f"{name}.grant"


def _refuse_grants(directory: Path, keyring: OwnerKeyring, without: tuple[str, ...] | list[str]) -> None:
    """Raise before anything is changed if a grant could not be written."""
    if directory.is_dir():
        files.refuse_existing(*(_grant_path(directory, name) for name in keyring.members if name not in without))
        return
    parent = next(above for above in directory.absolute().parents if above.exists())
    if directory.exists() or not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{directory}: grants cannot be written there")


def _write_grants(directory: Path | None, grants: Mapping[str, bytes]) -> None:
    # After the keyring: a grant of an epoch that the owner does not have on disk must never leave the house.
    if directory is not None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, grant in grants.items():
            files.create(_grant_path(directory, name), grant)
            say(f"wrote {_grant_path(directory, name)}")


# --- member ----------------------------------------------------------------------------------------------------------


def _identity(args: argparse.Namespace) -> int:
    files.refuse_existing(args.keyring)
    keyring = MemberKeyring.new()
    keyring.create(args.keyring, _new_passphrase(args))
    say(f"made {args.keyring}; send the line below to the space's owner")
    print(keyring.identity.public)
    return 0


def _accept(args: argparse.Namespace) -> int:
    grant = files.read_bytes(args.grant, limits.GRANT_BYTES_MAX, private=False)
    with MemberKeyring.edit(args.keyring, passphrase_of(args)) as keyring:
        first = not keyring.owner
        opened = keyring.accept(grant, now=time.time(), owner=_owner_key(args.owner))
    if first and args.owner is None:
        say(f"pinned owner {keyring.owner.hex()}; compare it with the owner's own words, by another channel")
    print(f"space {keyring.space.hex()} {keyring.name!r}")
    print(f"epochs {_list([epoch.number for epoch in opened.epochs])} valid until {_when(keyring.not_after_s)}")
    return 0


def _owner_key(text: str | None) -> bytes | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise InputError("--owner takes the 64 hexadecimal digits that the owner's `secroute keys show` prints")
    return bytes.fromhex(text)


def _show(args: argparse.Namespace) -> int:
    keyring = Keyring.load(args.keyring, passphrase_of(args))
    facts = _facts(keyring, time.time())
    if args.json:
        emit_json(facts)
        return 0
    for key in ("kind", "space", "name", "owner", "identity", "valid_until"):
        if facts.get(key):
            print(f"{key.replace('_', ' '):<12} {facts[key]}")
    for epoch in facts["epochs"]:
        print(
            f"epoch {epoch['number']:<6} {epoch['state']:<10} publishers from {epoch['activates']}, subscribers "
            f"{epoch['start']} to {epoch['end'] or 'the next rotation'}, profile {epoch['profile'][:16]}"
        )
    for member in facts.get("members", []):
        state = f"revoked {member['revoked']}" if member["revoked"] else f"granted {member['granted']}"
        print(f"member {member['name']}: {state}, holds epochs {_list(member['epochs'])}, {member['fingerprint'][:16]}")
    return 0


def _facts(keyring: Keyring, now: float) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kind": keyring.kind,
        "space": keyring.space.hex(),
        "name": keyring.name,
        "identity": str(keyring.identity.public),
        "epochs": [_epoch_facts(keyring, epoch.number, now) for epoch in keyring.timeline.epochs],
    }
    if isinstance(keyring, MemberKeyring):
        facts["owner"] = keyring.owner.hex()
        facts["valid_until"] = _when(keyring.not_after_s) if keyring.owner else ""
    elif isinstance(keyring, OwnerKeyring):
        facts["owner"] = keyring.owner.hex()
        facts["members"] = [
            {
                "name": member.name,
                "fingerprint": member.identity.fingerprint.hex(),
                "epochs": list(member.granted),
                "granted": _when(member.granted_s),
                "revoked": None if member.revoked_s is None else _when(member.revoked_s),
            }
            for member in keyring.members.values()
        ]
    return facts


def _epoch_facts(keyring: Keyring, number: int, now: float) -> dict[str, Any]:
    window = keyring.window(number)
    held = {epoch.number for epoch in keyring.timeline.epochs if epoch.activates_s <= now}
    ended = window.end_s is not None and window.end_s <= now
    state = "ended" if ended else "scheduled" if number not in held else "current" if number == max(held) else "overlap"
    return {
        "number": number,
        "state": state,
        "start": _when(window.start_s),
        "activates": _when(window.activates_s),
        "end": None if window.end_s is None else _when(window.end_s),
        "profile": keyring.epoch(number).scope.profile.hex(),
    }


def _when(seconds: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError):
        return f"second {seconds}"


def _list(numbers: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
