"""A run's folder: which run it belongs to, its stages, and how a stopped run goes on.

TRUSTED side. A stage is a folder of Parquet that counts only once Spark has marked it as whole (``_SUCCESS``); a
folder that holds another run (other inputs, profile or parameters) is refused, never mixed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from secroute.errors import AuditError

_IDENTITY = "run.json"


@dataclass(frozen=True)
class Folders:
    """Where a run keeps what."""

    root: Path

    @property
    def messages(self) -> str:
        """Checked messages."""
        return str(self.root / "stages" / "messages")

    @property
    def predicates(self) -> str:
        """Checked predicates by block."""
        return str(self.root / "stages" / "predicates")

    @property
    def encoded(self) -> str:
        """Messages with their bits."""
        return str(self.root / "stages" / "encoded")

    @property
    def filters(self) -> str:
        """Encoded disjuncts by block."""
        return str(self.root / "stages" / "filters")

    @property
    def factors(self) -> str:
        """Predicates cut into parts by attribute."""
        return str(self.root / "stages" / "factors")

    @property
    def parts(self) -> str:
        """The bits of every part."""
        return str(self.root / "stages" / "parts")

    def table(self, name: str) -> str:
        """A finished table."""
        return str(self.root / "tables" / name)

    def done(self, path: str) -> bool:
        """Whether a stage is whole."""
        return (Path(path) / "_SUCCESS").exists()


def claim(root: Path, identity: dict[str, Any]) -> Folders:
    """Take a folder for a run, or take up the same run again; another run's folder is refused."""
    text = json.dumps(identity, sort_keys=True, indent=1) + "\n"
    mark = root / _IDENTITY
    if mark.exists():
        if mark.read_text(encoding="utf-8") != text:
            raise AuditError(f"{root}: holds another run (see its {_IDENTITY}); choose another folder or remove it")
        return Folders(root)
    if root.exists() and any(path.name != "run.part" for path in root.iterdir()):
        raise AuditError(f"{root}: is not empty and holds no run of an audit; choose another folder")
    root.mkdir(parents=True, exist_ok=True)
    part = mark.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(mark)
    return Folders(root)


def stage(folders: Folders, path: str, write: Callable[[], None], say: Callable[[str], None]) -> None:
    """Run ``write`` unless the stage is whole; what a stopped run left half-written goes first."""
    name = str(Path(path).relative_to(folders.root))
    if folders.done(path):
        say(f"{name}: done before")
        return
    shutil.rmtree(path, ignore_errors=True)
    say(f"{name} ...")
    write()


def digest_inputs(*paths: str) -> str:
    """A digest of the input files' bytes (of local ones), so that a figure names the corpus it came from."""
    state = hashlib.blake2b(digest_size=16)
    for path in paths:
        if "://" not in path and not Path(path).exists():
            raise AuditError(f"{path}: there is no such file or folder")
        files = sorted(Path(path).rglob("*")) if Path(path).is_dir() else [Path(path)]
        for file in (f for f in files if f.is_file() and not f.name.startswith(("_", "."))):
            with file.open("rb") as data:
                for chunk in iter(lambda: data.read(1 << 20), b""):
                    state.update(chunk)
        state.update(b"\0")
    return state.hexdigest()
