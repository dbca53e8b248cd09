"""``secroute bench NAME``: every benchmark prints one JSON object as the last line of stdout."""

from __future__ import annotations

import argparse
import importlib

# name -> module with ``configure(parser)``, which sets ``run=callable(args) -> int``.
BENCHES: dict[str, str] = {
    "router": "secroute.bench.router",
    "encode": "secroute.bench.encode",
    "match": "secroute.bench.match",
    "exact": "secroute.bench.exact",
}


class _LazyParser(argparse.ArgumentParser):
    """A sub-parser that imports its benchmark only when its arguments are parsed."""

    bench_module: str = ""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        if self.bench_module:
            module, self.bench_module = self.bench_module, ""
            importlib.import_module(module).configure(self)
        return super().parse_known_args(args, namespace)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add one sub-command per benchmark."""
    commands = parser.add_subparsers(required=True, metavar="NAME", parser_class=_LazyParser)
    for name, module in BENCHES.items():
        commands.add_parser(name, help=f"see secroute bench {name} --help").bench_module = module
