"""The part of YAML that docker-compose.yml uses: nested maps, lists of scalars or maps, JSON lists, literal blocks.

Anything else raises, so that a file this reader takes is a file that every YAML reader takes the same way.
"""

from __future__ import annotations

import json
import re
from typing import Any

_KEY = re.compile(r"([A-Za-z0-9_-]+):(?: (.*))?$")


def load(text: str) -> Any:
    """A document."""
    lines = [(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines()]
    lines = [(indent, line) for indent, line in lines if line and not line.startswith("#")]
    value, rest = _block(lines, 0)
    if rest:
        raise ValueError(f"left over: {rest[0]}")
    return value


def _block(lines: list[tuple[int, str]], indent: int) -> tuple[Any, list[tuple[int, str]]]:
    if lines and lines[0][0] == indent and lines[0][1].startswith("- "):
        return _list(lines, indent)
    found: dict[str, Any] = {}
    while lines and lines[0][0] == indent:
        match = _KEY.match(lines[0][1])
        if match is None or match[1] in found:
            raise ValueError(f"not a key, or there twice: {lines[0][1]}")
        key, value, lines = match[1], match[2], lines[1:]
        if value == "|":
            inner = lines[0][0]
            literal = []
            while lines and lines[0][0] >= inner:
                literal.append(" " * (lines[0][0] - inner) + lines[0][1])
                lines = lines[1:]
            found[key] = "\n".join(literal) + "\n"
        elif value:
            found[key] = _scalar(value)
        elif lines and lines[0][0] > indent:
            found[key], lines = _block(lines, lines[0][0])
        else:
            found[key] = None
    return found, lines


def _list(lines: list[tuple[int, str]], indent: int) -> tuple[list[Any], list[tuple[int, str]]]:
    items: list[Any] = []
    while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
        text = lines[0][1][2:]
        if _KEY.match(text):  # a map: its first key stands behind the dash
            item, lines = _block([(indent + 2, text), *lines[1:]], indent + 2)
            items.append(item)
        else:
            items.append(_scalar(text))
            lines = lines[1:]
    return items, lines


def _scalar(text: str) -> Any:
    if text[0] in '["':
        return json.loads(text)
    if text[0] in "{}&*!|>'%@`" or " #" in text or ": " in text:
        raise ValueError(f"not in this subset: {text}")
    return text
