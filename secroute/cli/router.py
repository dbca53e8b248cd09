"""``secroute router``: init and run; ``router_admin.py`` has the commands to a running router.

Imports nothing from the trusted side.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from secroute.cli import router_admin
from secroute.errors import ConfigError, SecrouteError
from secroute.output import say


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the sub-commands."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="write a commented configuration")
    init.add_argument("path", nargs="?", type=Path, default=Path("router.toml"))
    init.set_defaults(run=_init)

    run = commands.add_parser("run", help="run a router until SIGTERM")
    run.add_argument("--config", type=Path, required=True)
    run.add_argument("--insecure", action="store_true", help="plaintext; only if it listens on loopback")
    run.add_argument("--engine", default="auto", help="auto, or reference where nothing can be compiled")
    run.add_argument("--address-file", type=Path, help="write the bound addresses here, as JSON, when ready")
    run.set_defaults(run=_run)

    router_admin.configure(commands)


def _init(args: argparse.Namespace) -> int:
    from secroute.router.template import TEMPLATE

    try:
        with args.path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise ConfigError(f"{args.path} is there already; it is not overwritten") from None
    say(f"wrote {args.path}")
    return 0


def _run(args: argparse.Namespace) -> int:
    from secroute.router.tls13 import require_tls13

    require_tls13()
    from secroute.router.logs import Log
    from secroute.router.run import RouterProcess

    log = Log()

    async def main() -> int:
        process = RouterProcess(
            args.config, engine=args.engine, insecure=args.insecure, address_file=args.address_file, log=log
        )
        return await process.run()

    try:
        return asyncio.run(main())
    except SecrouteError as error:
        log.error("refused-to-start", code=error.code, reason=str(error))
        return 2
