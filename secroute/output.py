"""How commands talk: results on stdout, everything else on stderr, machine-readable results as one JSON line last."""

from __future__ import annotations

import json
import sys
from typing import Any


def emit_json(result: dict[str, Any]) -> None:
    """Print one JSON object as the last line of stdout."""
    sys.stdout.write(json.dumps(result, ensure_ascii=False) + "\n")


def say(text: str) -> None:
    """A diagnostic for a person, on stderr."""
    sys.stderr.write(text + "\n")
