"""``secroute schema infer|check``: propose a schema from a sample, or check one."""

from __future__ import annotations

import argparse
import itertools
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``secroute schema``."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    infer = commands.add_parser("infer", help="propose a schema (TOML on stdout) from a sample of messages")
    infer.add_argument("--messages", required=True, metavar="FILE", help="messages, JSONL or Parquet")
    infer.add_argument("--sample", type=int, default=100_000, metavar="N", help="read at most N messages")
    infer.set_defaults(run=run_infer)
    check = commands.add_parser("check", help="check a schema file and print its size and digest")
    check.add_argument("file", metavar="FILE")
    check.set_defaults(run=run_check)


def run_infer(args: argparse.Namespace) -> int:
    """Print the proposal."""
    from secroute.content.files import read_messages
    from secroute.encoding.infer import infer
    from secroute.errors import InputError

    sample = list(itertools.islice(read_messages(args.messages), max(args.sample, 0)))
    if not sample:
        raise InputError(f"{args.messages}: no messages to learn from")
    sys.stdout.write(infer(sample))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Load a schema or profile file and say what it amounts to."""
    from secroute.encoding.profile import expected_fill, load_profile, schema_tokens
    from secroute.output import emit_json

    profile = load_profile(args.file)
    emit_json(
        {
            "bits": profile.bits,
            "hashes": profile.hashes,
            "indexed_attributes": len(profile.schema.attributes),
            "message_tokens": schema_tokens(profile.schema),
            "expected_fill": round(expected_fill(profile, schema_tokens(profile.schema)), 3),
            "digest": profile.digest.hex(),
        }
    )
    return 0
