"""Reading and writing the JSON inside key files and grants, strictly: exact keys, exact types, every size bounded.

TRUSTED side, pure. What does not fit is damage (``KeyringDamagedError``), never a Python error and never guessed at.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from secroute import limits
from secroute.errors import KeyringDamagedError, KeyringError


def canonical(value: Mapping[str, Any]) -> bytes:
    """The one JSON form of a record: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def blob(data: bytes) -> str:
    """Bytes as they stand in a record."""
    return base64.b64encode(data).decode()


class Record:
    """A JSON object being taken apart; ``done`` makes sure that nothing unknown is left."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise KeyringDamagedError(f"{where}: expected an object")
        self._left: dict[str, Any] = dict(value)
        self._where = where

    @classmethod
    def parse(cls, data: bytes, where: str) -> Record:
        """A record from its JSON bytes."""
        try:
            return cls(json.loads(data), where)
        except (ValueError, RecursionError):
            raise KeyringDamagedError(f"{where}: damaged or truncated: not a JSON object") from None

    def _take(self, key: str, kind: type) -> Any:
        value = self._left.pop(key, None)
        if type(value) is not kind:
            raise KeyringDamagedError(f"{self._where}: field {key!r} is missing or not {kind.__name__}")
        return value

    def text(self, key: str, bytes_max: int) -> str:
        """A string of bounded size."""
        value: str = self._take(key, str)
        if len(value.encode("utf-8", "replace")) > bytes_max:
            raise KeyringDamagedError(f"{self._where}: field {key!r} is over {bytes_max} bytes")
        return value

    def number(self, key: str, low: int, high: int) -> int:
        """An integer within bounds."""
        value: int = self._take(key, int)
        if not low <= value <= high:
            raise KeyringDamagedError(f"{self._where}: field {key!r} is outside {low}..{high}")
        return value

    def maybe_number(self, key: str, low: int, high: int) -> int | None:
        """An integer within bounds, or null."""
        if key in self._left and self._left[key] is None:
            return self._left.pop(key)  # type: ignore[no-any-return]
        return self.number(key, low, high)

    def blob(self, key: str, size: int | None = None, bytes_max: int | None = None) -> bytes:
        """Base64 bytes of an exact or bounded size."""
        text = self._take(key, str)
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise KeyringDamagedError(f"{self._where}: field {key!r} is not base64") from None
        if blob(data) != text:  # unused bits at the end: two texts for one value
            raise KeyringDamagedError(f"{self._where}: field {key!r} is not base64 in its one proper form")
        if (size is not None and len(data) != size) or (bytes_max is not None and len(data) > bytes_max):
            raise KeyringDamagedError(f"{self._where}: field {key!r} has a wrong size of {len(data)} bytes")
        return data

    def records(self, key: str, count_max: int) -> list[Record]:
        """A list of objects of bounded length."""
        values: list[object] = self._take(key, list)
        if len(values) > count_max:
            raise KeyringDamagedError(f"{self._where}: field {key!r} has over {count_max} entries")
        return [Record(value, f"{self._where}: {key}[{i}]") for i, value in enumerate(values)]

    def record(self, key: str) -> Record | None:
        """An object, or null."""
        if key in self._left and self._left[key] is None:
            self._left.pop(key)
            return None
        return self.needed(key)

    def needed(self, key: str) -> Record:
        """An object that must be there."""
        return Record(self._take(key, dict), f"{self._where}: {key}")

    def done(self) -> None:
        """Raise if a field is left that this release does not know."""
        if self._left:
            raise KeyringDamagedError(f"{self._where}: unknown field {min(self._left)!r}")


def check_name(name: str, what: str) -> str:
    """A name of a space or member: printable, bounded."""
    # Printable first: it excludes lone surrogates, which have no bytes to count.
    if not name.isprintable() or name != name.strip() or not 0 < len(name.encode()) <= limits.KEY_NAME_BYTES_MAX:
        raise KeyringError(f"{what} is 1..{limits.KEY_NAME_BYTES_MAX} bytes of printable text, no spaces at its ends")
    return name
