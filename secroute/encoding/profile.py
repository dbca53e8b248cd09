"""The encoding profile: everything two sides must agree on so that their bits mean the same.

TRUSTED, pure. Immutable per (space, epoch). Its canonical bytes have one digest, which travels with every batch and
every subscription, so that a publisher and a subscriber with different profiles are refused instead of silently deaf.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from secroute import limits
from secroute.encoding.hardening import Hardening
from secroute.encoding.schema import NumberIndex, Schema, TextIndex
from secroute.errors import FileFormatError, HardeningError, ProfileError, SchemaError

TOKEN_VERSION = 1
IMPLIED = ("none", "existence", "coarser")
_KEYS = {"version", "bits", "hashes", "implied", "cover_disjuncts", "hardening", "attributes"}


ONE_TOKEN_RATE = 0.01
"""False positives by chance of a filter of a single token, which a width chosen for a schema aims at."""


def _whole(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ProfileError(f"{name} is a whole number from {low} to {high}, not {value!r}")
    return value


@dataclass(frozen=True)
class Profile:
    """How content becomes bits."""

    bits: int = 2048
    """m, the width of every filter: a multiple of 64."""
    hashes: int = 4
    """k, bits set by one token."""
    schema: Schema = field(default_factory=Schema)
    implied: str = "none"
    """What filters add beyond need: none, existence, or everything coarser (better covering, more bits)."""
    cover_disjuncts: int = 1
    """Up to how many alternatives one conjunction's ranges may be cut into (1: one covering node each)."""
    hardening: tuple[Hardening, ...] = ()
    version: int = TOKEN_VERSION

    def __post_init__(self) -> None:
        if type(self.version) is not int or self.version != TOKEN_VERSION:
            raise ProfileError(f"token version {self.version!r} is not known; this release speaks {TOKEN_VERSION}")
        _whole(self.bits, "bits", limits.FILTER_BITS_MIN, limits.FILTER_BITS_MAX)
        if self.bits % limits.FILTER_BITS_STEP:
            raise ProfileError(f"bits is a multiple of {limits.FILTER_BITS_STEP}, not {self.bits}")
        _whole(self.hashes, "hashes", limits.HASHES_MIN, limits.HASHES_MAX)
        _whole(self.cover_disjuncts, "cover_disjuncts", 1, limits.COVER_DISJUNCTS_MAX)
        if self.implied not in IMPLIED:
            raise ProfileError(f"implied is one of {', '.join(IMPLIED)}, not {self.implied!r}")
        if len(self.hardening) > limits.HARDENINGS_MAX:
            raise ProfileError(f"{len(self.hardening)} hardenings, at most {limits.HARDENINGS_MAX}")
        for hardening in self.hardening:
            hardening.check_width(self.bits)

    @property
    def words(self) -> int:
        """W, the width in 64-bit words."""
        return self.bits // 64

    @classmethod
    def default(cls) -> Profile:
        """Equality and existence of anything, with room for the indexes of a rich message (see docs/encoding.md)."""
        return cls()

    @classmethod
    def for_schema(cls, schema: Schema, attributes: int = 10, hashes: int = 4) -> Profile:
        """The narrowest profile under which a one-token filter passes at most one full message in a hundred by chance.

        The fill of a full message stays at or below one half, however many hashes are chosen, unless that takes more
        than the widest filter there is (``secroute schema check`` tells the fill).
        """
        fill = min(0.5, ONE_TOKEN_RATE ** (1 / hashes))
        needed = hashes * schema_tokens(schema, attributes) / -math.log1p(-fill)
        bits = max(limits.FILTER_BITS_MIN, math.ceil(needed / 64) * 64)
        return cls(bits=min(bits, limits.FILTER_BITS_MAX), hashes=hashes, schema=schema)

    def with_schema(self, schema: Schema) -> Profile:
        """The same profile over another schema."""
        return replace(self, schema=schema)

    # --- canonical form ---

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for canonical JSON."""
        return {
            "version": self.version,
            "bits": self.bits,
            "hashes": self.hashes,
            "implied": self.implied,
            "cover_disjuncts": self.cover_disjuncts,
            "hardening": [hardening.to_dict() for hardening in self.hardening],
            "attributes": self.schema.to_dict(),
        }

    @classmethod
    def from_dict(cls, table: object) -> Profile:
        """Read plain data (from TOML or JSON); unknown keys and values out of range raise."""
        if not isinstance(table, Mapping):
            raise ProfileError("a profile is a table")
        extra = sorted(set(table) - _KEYS)
        if extra:
            raise SchemaError(f"unknown key {extra[0]!r}; known are {', '.join(sorted(_KEYS))}")
        schema = Schema.from_dict(table.get("attributes", {}))
        entries = table.get("hardening", [])
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise ProfileError("hardening is a list of tables")
        hardening = tuple(Hardening.from_dict(entry) for entry in entries)
        base = cls(hashes=table.get("hashes", cls.hashes), schema=schema)
        if "bits" not in table and schema.attributes:
            base = cls.for_schema(schema, hashes=base.hashes)
        return cls(
            bits=table.get("bits", base.bits),
            hashes=base.hashes,
            schema=schema,
            implied=table.get("implied", base.implied),
            cover_disjuncts=table.get("cover_disjuncts", base.cover_disjuncts),
            hardening=hardening,
            version=table.get("version", TOKEN_VERSION),
        )

    def to_bytes(self) -> bytes:
        """Canonical JSON: sorted keys, no spaces, ASCII; every number in it is whole."""
        data = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
        if len(data) > limits.PROFILE_BYTES_MAX:
            raise ProfileError(f"a profile of {len(data)} bytes, at most {limits.PROFILE_BYTES_MAX}")
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Profile:
        """Read canonical bytes; anything that is not exactly canonical is refused."""
        if len(data) > limits.PROFILE_BYTES_MAX:
            raise ProfileError(f"a profile of {len(data)} bytes, at most {limits.PROFILE_BYTES_MAX}")
        try:
            profile = cls.from_dict(json.loads(data))
        except (ValueError, RecursionError):
            raise ProfileError("a profile is canonical JSON; this is not") from None
        if profile.to_bytes() != data:
            raise ProfileError("these profile bytes are not in canonical form")
        return profile

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes: what batches and subscriptions carry."""
        return hashlib.sha256(b"secroute profile\0" + self.to_bytes()).digest()

    @classmethod
    def from_toml(cls, text: str) -> Profile:
        """Read a schema or profile file's text. Without ``bits`` the width follows from the schema."""
        try:
            table = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"not TOML: {error}") from None
        return cls.from_dict(table)


def load_profile(path: str | Path) -> Profile:
    """Read a schema or profile file; errors name the file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileFormatError(path, "a schema file is UTF-8 text") from None
    try:
        return Profile.from_toml(text)
    except (SchemaError, ProfileError, HardeningError) as error:
        raise type(error)(f"{path}: {error}") from None


def expected_fill(profile: Profile, message_tokens: int) -> float:
    """The expected share of bits set in a message of so many tokens."""
    return float(1 - (1 - 1 / profile.bits) ** (profile.hashes * message_tokens))


def index_tokens(index: NumberIndex | TextIndex, length: int = 12) -> int:
    """About how many tokens one value makes (a string of ``length`` characters): existence, equality, nodes, steps."""
    tokens = 1 + index.equality
    if isinstance(index, NumberIndex):
        return tokens + 2 * len(index.tdag.used) - 2
    tokens += sum(step <= length for step in index.prefixes + index.suffixes)
    tokens += max(0, length - index.qgram + 1) if index.qgram else 0
    return tokens + (2 * len(index.tdag.used) - 2 if index.order_bytes else 0)


def schema_tokens(schema: Schema, attributes: int = 10) -> int:
    """About how many tokens a message makes that has every indexed attribute, and ``attributes`` in all."""
    plain = max(0, attributes - len(schema.attributes))
    return 2 * plain + sum(index_tokens(index) for index in schema.attributes.values())
