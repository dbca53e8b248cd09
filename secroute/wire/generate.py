"""``python -m secroute.wire.generate``: write ``_generated`` from ``proto/``; ``--check`` compares instead of writing.

The generated files are checked in, so that neither a router nor a client needs the compiler; a test runs the check.
"""

from __future__ import annotations

import argparse
import importlib.resources
import sys
import tempfile
from pathlib import Path

from secroute.errors import WireError

PROTO_ROOT = Path(__file__).parents[2] / "proto"
GENERATED = Path(__file__).parent / "_generated"


def generate() -> dict[str, str]:
    """Compile every ``.proto`` file; file name -> text."""
    # The compiler is a development tool: imported here so that `secroute.wire` never needs it.
    from grpc_tools import protoc  # type: ignore[import-untyped]

    sources = sorted(str(path.relative_to(PROTO_ROOT)) for path in PROTO_ROOT.glob("secroute/v1/*.proto"))
    well_known = str(importlib.resources.files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"-I{PROTO_ROOT}", f"-I{well_known}", *outputs, *sources]) != 0:
            raise WireError(f"the protobuf compiler refused a file under {PROTO_ROOT.name}/")
        made = sorted((Path(folder) / "secroute" / "v1").iterdir())
        # The files live inside our package, not in a package called secroute.v1.
        return {
            p.name: p.read_text().replace("from secroute.v1 import", "from secroute.wire._generated import")
            for p in made
        }


def differences(made: dict[str, str]) -> list[str]:
    """The names of generated files that are missing, out of date, or no longer made."""
    there = {p.name: p.read_text() for p in GENERATED.iterdir() if "_pb2" in p.name}
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main() -> int:
    """Write the generated files, or with ``--check`` name those that differ and return 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 on a difference")
    args = parser.parse_args()
    made = generate()
    different = differences(made)
    for name in different:
        sys.stderr.write(f"{'differs' if args.check else 'written'}: {name}\n")
        if not args.check:
            if name in made:
                (GENERATED / name).write_text(made[name])
            else:
                (GENERATED / name).unlink()
    return 1 if args.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
