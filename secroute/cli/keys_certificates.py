"""``secroute keys ca`` and ``secroute keys issue``: the development CA and its certificates, on disk.

TRUSTED side; thin, see ``secroute.keyring.certificates``. Private keys get mode 0600 and nothing is overwritten.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from secroute import limits
from secroute.errors import KeyringError
from secroute.keyring import certificates as certs
from secroute.keyring import files
from secroute.output import say


def configure(commands: Any) -> None:
    """Declare ``ca`` and ``issue``."""
    text = "make a development CA for mTLS"
    authority = commands.add_parser("ca", help=text, description=text)
    authority.set_defaults(run=_ca)
    authority.add_argument("--out", required=True, type=Path, metavar="DIR", help="ca.crt and ca.key go there")
    authority.add_argument("--name", default="secroute development CA")
    authority.add_argument("--days", type=int, default=certs.DEFAULT_CA_DAYS)

    text = "make a certificate for a router, client or administrator"
    issue = commands.add_parser("issue", help=text, description=text)
    issue.set_defaults(run=_issue)
    issue.add_argument("--ca", required=True, type=Path, metavar="DIR", help="where ca.crt and ca.key are")
    issue.add_argument("--name", required=True, help="the name that routers authorise by")
    issue.add_argument("--role", required=True, choices=certs.ROLES)
    issue.add_argument(
        "--host", action="append", help="a router's host name or address; default: localhost and its IPs"
    )
    issue.add_argument("--out", type=Path, metavar="DIR", help="NAME.crt and NAME.key go there; default: the CA's DIR")
    issue.add_argument("--days", type=int, default=certs.DEFAULT_LEAF_DAYS)


def _ca(args: argparse.Namespace) -> int:
    authority = certs.make_ca(args.name, now=time.time(), days=args.days)
    args.out.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.refuse_existing(args.out / "ca.crt", args.out / "ca.key")
    files.create(args.out / "ca.key", authority.key)
    files.create(args.out / "ca.crt", authority.certificate, 0o644)
    say("this CA is for development: its key is on this disk, unsealed, and it publishes no revocations")
    print(args.out / "ca.crt")
    return 0


def _issue(args: argparse.Namespace) -> int:
    out: Path = args.out or args.ca
    certificate_path, key_path = out / f"{args.name}.crt", out / f"{args.name}.key"
    authority = certs.CertificateAuthority(
        files.read_bytes(args.ca / "ca.crt", limits.KEY_FILE_BYTES_MAX, private=False),
        files.read_bytes(args.ca / "ca.key", limits.KEY_FILE_BYTES_MAX, private=True),
    )
    if args.name == "ca":
        raise KeyringError("'ca' is the CA's own name; choose another")
    issued = certs.issue(authority, args.name, args.role, now=time.time(), hosts=args.host, days=args.days)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.refuse_existing(certificate_path, key_path)
    files.create(key_path, issued.key)
    files.create(certificate_path, issued.certificate, 0o644)
    print(certificate_path)
    return 0
