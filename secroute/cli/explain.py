"""``secroute explain``: how a predicate is encoded, in words."""

from __future__ import annotations

import argparse
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``secroute explain``."""
    parser.add_argument("--predicate", required=True, metavar="SELECTOR", help="the predicate to explain")
    parser.add_argument("--schema", metavar="FILE", help="schema or profile file (TOML); default: no indexes")
    parser.add_argument(
        "--message-tokens", type=int, nargs="+", default=[], metavar="N", help="message sizes for the expected rate"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    from secroute.content.selector import parse
    from secroute.encoding.explain import explain
    from secroute.encoding.profile import Profile, load_profile
    from secroute.keyring.tokens import throwaway_token_keys

    profile = load_profile(args.schema) if args.schema else Profile.default()
    keys = throwaway_token_keys(profile)
    for line in explain(parse(args.predicate), profile, keys, args.message_tokens):
        sys.stdout.write(line + "\n")
    return 0
