"""Structured logs: one JSON object a line on stderr, ids and counts only. UNTRUSTED side."""

from __future__ import annotations

import json
import sys
import time
from typing import TextIO

from secroute.errors import place_of


class Log:
    """Writes events; bytes are shown as hexadecimal ids."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr

    def info(self, event: str, **fields: object) -> None:
        """Something normal."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Something an operator should look at."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Something that does not work."""
        self._write("error", event, fields)

    def fault(self, error: Exception, **fields: object) -> None:
        """Our own mistake: its kind and the place, without its text, which may say too much."""
        self.error("internal", reason=type(error).__name__, where=place_of(error), **fields)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        shown = {key: value.hex() if isinstance(value, bytes) else value for key, value in fields.items()}
        line = {"at": round(time.time(), 3), "level": level, "event": event, **shown}
        self._out.write(json.dumps(line, default=str) + "\n")
        self._out.flush()
