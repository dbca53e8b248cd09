"""The arguments that every client command shares: where the routers are, and who we are."""

from __future__ import annotations

import argparse
import getpass
from pathlib import Path

from secroute.client import Client, Options, TlsIdentity, connect
from secroute.errors import InputError
from secroute.keyring import Keyring


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare them."""
    parser.add_argument("--router", required=True, metavar="HOST:PORT[,...]", help="routers, tried in turn")
    parser.add_argument("--keyring", required=True, type=Path, metavar="FILE", help="the space's keyring")
    parser.add_argument("--tls", type=Path, metavar="DIR", help="where ca.crt, NAME.crt and NAME.key are")
    parser.add_argument("--name", metavar="NAME", help="whose certificate to show")
    parser.add_argument("--insecure", action="store_true", help="plaintext, to a router on this machine only")


def client_of(args: argparse.Namespace, options: Options | None = None) -> Client:
    """The client that the arguments describe."""
    if args.insecure:
        identity = None
    elif args.tls is None or args.name is None:
        raise InputError("give --tls DIR and --name NAME (see secroute keys issue), or --insecure on loopback")
    else:
        identity = TlsIdentity.named(args.tls, args.name)
    keyring = Keyring.load(args.keyring, lambda: getpass.getpass("passphrase: ").encode())
    return connect(args.router, keyring=keyring, identity=identity, options=options)
