"""Entry point of ``secroute``: finds the group, imports it alone, and turns errors into one line on stderr."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from secroute import __version__
from secroute.errors import SecrouteError

# group -> (module, one-line help). The module has ``configure(parser)``, which sets ``run=callable(args) -> int``.
GROUPS: dict[str, tuple[str, str]] = {
    "explain": ("secroute.cli.explain", "show how a predicate is encoded, and what that costs"),
    "encode": ("secroute.cli.encode", "turn neutral files into opaque .npz files"),
    "schema": ("secroute.cli.schema", "propose and check schemas"),
    "keys": ("secroute.cli.keys", "spaces, epochs, grants, identities and development certificates"),
    "router": ("secroute.cli.router", "run a router, write its configuration, look at it"),
    "publish": ("secroute.cli.publish", "publish messages"),
    "subscribe": ("secroute.cli.subscribe", "print messages that match a predicate"),
    "durable": ("secroute.cli.durable", "list and delete one's own durable subscriptions"),
    "demo": ("secroute.cli.demo", "a router, publishers and subscribers on loopback, checked, within 30 s"),
    "audit": ("secroute.cli.audit", "false positives and leakage over corpora, in Spark: run, plan, bench, theory"),
    "bench": ("secroute.cli.bench", "measure: encode, match, exact, router"),
    "net": ("secroute.cli.net", "a network of router processes on loopback: up, status, down"),
    "sim": ("secroute.cli.sim", "a routing scheme over a generated network, measured against the ideal tree"),
}


def _usage() -> str:
    width = max(map(len, GROUPS))
    rows = "\n".join(f"  {name:<{width}}  {text}" for name, (_, text) in GROUPS.items())
    return f"usage: secroute GROUP ...\n\n{rows}\n\nsecroute GROUP --help tells more; secroute --version\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 1 on a failed check, 2 on an error, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # Terminals that cannot show a character get its escape, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(_usage())
        return 0 if words else 2
    if words[0] == "--version":
        sys.stdout.write(f"secroute {__version__}\n")
        return 0
    if words[0] not in GROUPS:
        sys.stderr.write(f"secroute: no command {words[0]!r}\n{_usage()}")
        return 2
    parser = argparse.ArgumentParser(prog=f"secroute {words[0]}", description=GROUPS[words[0]][1])
    try:
        importlib.import_module(GROUPS[words[0]][0]).configure(parser)
        args = parser.parse_args(words[1:])
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except SecrouteError as error:
        sys.stderr.write(f"secroute: {error}\n")
        return 2
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("secroute"):
            raise
        sys.stderr.write(f"secroute: this command needs the package {error.name!r}; install the extra that has it\n")
        return 2
    except BrokenPipeError:
        # Whoever read our output (head, a pager) has seen enough; the exit must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        sys.stderr.write(f"secroute: {what}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
