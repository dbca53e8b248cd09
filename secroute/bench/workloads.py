"""The SIGCOMM 2003 workload and the technical report's specific model, seeded.

TRUSTED side (it makes plaintext). Filters come as columns, straight from NumPy; ``trees`` turns columns into the parsed
predicates that an application would hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from secroute.content.model import Value
from secroute.content.predicate import And, Constraint, Node, Op
from secroute.exact.columns import NUMBER, OP_CODE, OPS, STRING, Columns

_ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "oo")
_CODAS = ("", "", "", "n", "r", "s", "t", "l", "nd", "st", "ng", "ck")


def words(count: int, seed: int) -> list[str]:
    """Distinct word-like strings of one to three syllables, so that some are parts of others, as in a dictionary."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        syllables = rng.choice((1, 2, 2, 3))
        parts = ((_ONSETS, _VOWELS, _CODAS) for _ in range(syllables))
        found["".join(str(rng.choice(kind)) for part in parts for kind in part)] = None
    return list(found)


def zipf(count: int) -> npt.NDArray[np.float64]:
    """Zipf probabilities of ``count`` ranks."""
    weights = 1.0 / np.arange(1, count + 1)
    shares: npt.NDArray[np.float64] = weights / weights.sum()
    return shares


def _distinct_names(
    rng: np.random.Generator, shares: npt.NDArray[np.float64], row: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """A name for each place such that no row has a name twice: repetitions are drawn again."""
    edges = np.cumsum(shares)
    names = np.minimum(np.searchsorted(edges, rng.random(len(row))), len(shares) - 1)
    while True:
        order = np.argsort(row << 20 | names, kind="stable")
        packed = (row << 20 | names)[order]
        again = order[1:][packed[1:] == packed[:-1]]
        if not len(again):
            return names.astype(np.int32)
        names[again] = np.minimum(np.searchsorted(edges, rng.random(len(again))), len(shares) - 1)


@dataclass(frozen=True, slots=True)
class Sigcomm:
    """Parameters of the paper's evaluation (its table 1 and section 5.1)."""

    names: int = 1000
    terms: int = 1000
    integers: int = 100
    constraints_max: int = 9
    attributes_max: int = 18
    seed: int = 2003

    def vocabulary(self) -> tuple[list[str], list[str]]:
        """Attribute names and string values."""
        both = words(self.names + self.terms, self.seed)
        return both[: self.names], both[self.names :]

    def filters(self, constraints: int) -> Columns:
        """Filters of 1..9 constraints until there are ``constraints`` of them; each filter is its own predicate."""
        rng = np.random.default_rng((self.seed, 1))
        sizes = rng.integers(1, self.constraints_max + 1, constraints // 2 + 10)
        ends = np.cumsum(sizes)
        count = int(np.searchsorted(ends, constraints)) + 1
        sizes = sizes[:count]
        sizes[-1] -= int(ends[count - 1]) - constraints
        row = np.repeat(np.arange(count, dtype=np.int64), sizes)
        names, terms = self.vocabulary()
        string = rng.random(constraints) < 0.5
        string_ops = _draw(rng, _SIGCOMM_STRING, constraints)
        int_ops = _draw(rng, _SIGCOMM_INT, constraints)
        value = np.where(string, rng.integers(0, self.terms, constraints), rng.integers(0, self.integers, constraints))
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return Columns(
            names,
            terms,
            np.arange(self.integers, dtype=np.int64),
            np.zeros(self.integers),
            [],
            _distinct_names(rng, zipf(self.names), row),
            np.where(string, string_ops, int_ops).astype(np.uint8),
            np.where(string, STRING, NUMBER).astype(np.uint8),
            value.astype(np.int32),
            offsets,
            np.arange(count, dtype=np.int32),
        )

    def interfaces(self, filters: int, interfaces: int) -> npt.NDArray[np.int64]:
        """An interface for each filter, uniformly; as many as filters means one each."""
        if interfaces >= filters:
            return np.arange(filters, dtype=np.int64)
        return np.random.default_rng((self.seed, 2)).integers(0, interfaces, filters)

    def messages(self, count: int, seed: int = 0) -> list[dict[str, Value]]:
        """Messages of 1..18 attributes with the same names, types and values as the filters."""
        rng = np.random.default_rng((self.seed, 3, seed))
        names, terms = self.vocabulary()
        sizes = rng.integers(1, self.attributes_max + 1, count)
        row = np.repeat(np.arange(count, dtype=np.int64), sizes)
        chosen = _distinct_names(rng, zipf(self.names), row).tolist()
        string = (rng.random(len(row)) < 0.5).tolist()
        term = rng.integers(0, self.terms, len(row)).tolist()
        integer = rng.integers(0, self.integers, len(row)).tolist()
        made: list[dict[str, Value]] = [{} for _ in range(count)]
        for i, at in enumerate(row.tolist()):
            made[at][names[chosen[i]]] = terms[term[i]] if string[i] else integer[i]
        return made


_SIGCOMM_STRING = {Op.EQ: 35, Op.PREFIX: 15, Op.SUFFIX: 15, Op.SUBSTRING: 15, Op.LT: 10, Op.GT: 10}
_SIGCOMM_INT = {Op.EQ: 60, Op.LT: 20, Op.GT: 20}
_TR_STRING = {Op.EQ: 40, Op.PREFIX: 10, Op.SUFFIX: 10, Op.SUBSTRING: 10, Op.NE: 10, Op.LT: 10, Op.GT: 10}
_TR_INT = {Op.EQ: 40, Op.LT: 25, Op.GT: 25, Op.NE: 10}
_TR_SIZES = (0.10, 0.40, 0.30, 0.10, 0.05, 0.05)


def _draw(rng: np.random.Generator, shares: dict[Op, int], count: int) -> npt.NDArray[np.int64]:
    codes = np.array([OP_CODE[op] for op in shares])
    picked: npt.NDArray[np.int64] = codes[np.searchsorted(np.cumsum(list(shares.values())), rng.random(count) * 100)]
    return picked


@dataclass(frozen=True, slots=True)
class Specific:
    """The specific model of the technical report (its section 4.2): single conjunctions of 1..6 constraints."""

    names: int = 500
    uniform: bool = False
    terms: int = 200
    seed: int = 2006

    def filters(self, count: int, seed: int = 0) -> Columns:
        """Conjunctions, each its own predicate; a name is a string or an int throughout."""
        rng = np.random.default_rng((self.seed, seed))
        sizes = rng.choice(np.arange(1, 7), count, p=_TR_SIZES)
        row = np.repeat(np.arange(count, dtype=np.int64), sizes)
        shares = np.full(self.names, 1.0 / self.names) if self.uniform else zipf(self.names)
        name = np.minimum(np.searchsorted(np.cumsum(shares), rng.random(len(row))), self.names - 1)
        string = name % 2 == 0
        value = np.where(string, rng.integers(0, self.terms, len(row)), rng.integers(0, 201, len(row)))
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return Columns(
            [f"a{i}" for i in range(self.names)],
            words(self.terms, self.seed),
            np.arange(-100, 101, dtype=np.int64),
            np.zeros(201),
            [],
            name.astype(np.int32),
            np.where(string, _draw(rng, _TR_STRING, len(row)), _draw(rng, _TR_INT, len(row))).astype(np.uint8),
            np.where(string, STRING, NUMBER).astype(np.uint8),
            value.astype(np.int32),
            offsets,
            np.arange(count, dtype=np.int32),
        )


def trees(columns: Columns) -> list[Node]:
    """One parsed predicate per filter (string and whole-number values), each constraint an object of its own."""
    whole: Sequence[int] = columns.whole.tolist()
    values: list[Value] = [
        columns.strings[value] if kind == STRING else whole[value]
        for kind, value in zip(columns.kind.tolist(), columns.value.tolist(), strict=True)
    ]
    names = list(map(columns.names.__getitem__, columns.name.tolist()))
    made = list(map(Constraint, names, map(OPS.__getitem__, columns.op.tolist()), values))
    ends = columns.offsets.tolist()
    return [made[low] if high - low == 1 else And(tuple(made[low:high])) for low, high in pairwise(ends)]
