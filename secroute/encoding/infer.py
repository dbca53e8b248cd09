"""Propose a schema from a sample of messages: types, numeric domains and resolutions, string ladders.

TRUSTED, pure. The proposal is a starting point that a person reads and edits; it is printed as TOML with the
evidence beside each choice.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from secroute import limits
from secroute.content.model import Message, Value
from secroute.content.render import PLAIN_NAME
from secroute.encoding.profile import Profile

_DISTINCT_TRACKED = 10_000
_LADDER = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_LEVELS_MAX = 16
_QGRAM_FROM_LENGTH = 12  # strings that are long on average are searched inside, short codes are not
_RANGES = """\
# An open range such as price >= 60 becomes up to four intervals; one alone would be nearly the whole domain.
cover_disjuncts = 4
"""


@dataclass
class _Seen:
    """What the sample shows of one attribute."""

    count: int = 0
    numbers: int = 0
    texts: int = 0
    whole: bool = True
    low: int | float | None = None
    high: int | float | None = None
    lengths: Counter[int] = field(default_factory=Counter)
    distinct: set[Value] = field(default_factory=set)

    def add(self, value: Value) -> None:
        self.count += 1
        if len(self.distinct) < _DISTINCT_TRACKED:
            self.distinct.add(value)
        if isinstance(value, bool):
            return
        if isinstance(value, str):
            self.texts += 1
            self.lengths[len(value)] += 1
            return
        self.numbers += 1
        self.whole = self.whole and isinstance(value, int)
        self.low = value if self.low is None else min(self.low, value)
        self.high = value if self.high is None else max(self.high, value)


def infer(messages: Iterable[Message]) -> str:
    """The proposed schema as TOML text."""
    seen: dict[str, _Seen] = {}
    total = 0
    for message in messages:
        total += 1
        for name, value in message.attributes.items():
            seen.setdefault(name, _Seen()).add(value)
    # The most frequent ones, if there are more than a schema takes.
    chosen = sorted(seen, key=lambda name: (-seen[name].count, name))[: limits.SCHEMA_ATTRIBUTES_MAX]
    tables = [text for name in sorted(chosen) if (text := _table(name, seen[name], total))]
    body = "\n".join([_RANGES, *tables] if any("low = " in table for table in tables) else tables)
    profile = Profile.from_toml(body)
    head = (
        f"# Proposed from {total} messages with {len(seen)} attributes. Attributes not listed keep equality and\n"
        f"# existence. Without `bits` the width follows from the schema: {profile.bits} bits, k = {profile.hashes}.\n"
    )
    return f"{head}\n{body}"


def _table(name: str, what: _Seen, total: int) -> str:
    share = f"in {what.count / total:.0%} of messages, {len(what.distinct)} distinct values"
    if len(what.distinct) >= _DISTINCT_TRACKED:
        share = share.replace(f"{len(what.distinct)} distinct", f"{_DISTINCT_TRACKED}+ distinct")
    lines = [f"# {share}"]
    if what.numbers and what.texts:
        return f"# {_key(name)}: {share}; numbers and strings are mixed, so only equality and existence\n"
    if what.numbers and what.low is not None and what.high is not None and what.low < what.high:
        lines += ['type = "number"', *_domain(what)]
    elif what.texts and len(what.distinct) > 1:
        lines += ['type = "string"', *_ladders(what)]
    else:
        return ""
    return "\n".join([f"[attributes.{_key(name)}]", *lines, ""])


def _key(name: str) -> str:
    if PLAIN_NAME.fullmatch(name) and "." not in name and "$" not in name:
        return name
    # TOML's basic strings: JSON's escapes, but no surrogate pairs, and no control character as it is.
    return json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")


def _domain(what: _Seen) -> list[str]:
    """The sample's range, widened by a tenth; as many buckets as the values seen can use."""
    assert what.low is not None and what.high is not None  # noqa: S101, PT018 - the caller saw both
    low, high = Fraction(what.low), Fraction(what.high)
    margin = (high - low) / 10
    least, most = (limits.INT_MIN, limits.INT_MAX) if what.whole else (-sys.float_info.max, sys.float_info.max)
    low = max(Fraction(least), low - margin if low < 0 or low >= margin else Fraction(0))
    high = min(Fraction(most), high + margin)
    first, last = (math.floor(low), math.ceil(high)) if what.whole else (float(low), float(high))
    span = math.ceil(high - low) if what.whole else len(what.distinct) * 4
    levels = min(_LEVELS_MAX, max(4, int(span).bit_length()))
    lines = [f"low = {first!r}", f"high = {last!r}", f"buckets = {1 << levels}"]
    if not what.whole and len(what.distinct) * 2 > what.count:
        lines.append("equality = false # nearly every value is different: nobody asks for one exactly")
    return lines


def _ladders(what: _Seen) -> list[str]:
    """Prefix steps up to the usual length; suffixes for longer strings; q-grams where people search inside."""
    usual = [length for length, n in what.lengths.items() if n * 100 >= what.texts]
    longest = max(usual or what.lengths)
    mean = sum(length * n for length, n in what.lengths.items()) / what.texts
    prefixes = [step for step in _LADDER if step <= max(longest, 1)]
    lines = [f"prefixes = {prefixes}"]
    if mean >= 6:
        lines.append(f"suffixes = {[step for step in (2, 3, 4, 6, 8) if step <= longest]}")
    if mean >= _QGRAM_FROM_LENGTH:
        lines.append("qgram = 3")
    return lines
