"""False positives predicted from one attribute at a time, and where attributes are independent enough for that.

TRUSTED side. A conjunction is cut into the parts that speak of one attribute. Over a sample of messages each part is
counted, exactly and as bits: if attributes are independent, shares multiply, whole and partial matches included. Pairs
of parts are counted too, and independence is said to hold only where every pair was measured to be near its product.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from secroute.audit.encode import binary
from secroute.audit.keys import encoder
from secroute.audit.tables import Matching, Source, encoded_table, words_of
from secroute.content import And, Conjunction, Constraint, disjuncts, parse, render
from secroute.encoding.plan import plan
from secroute.encoding.profile import Profile
from secroute.exact.table import ExactTable

FACTORS = "row long, parts array<string>, composed boolean"
PARTS = "text string, bits binary"
SHARES = "a int, b int, exact long, encoded long"
EXPECTED = "row long, parts int, expected double, expected_low double, expected_high double, holds boolean"
TOLERANCE = 1.1
"""A pair of parts is independent if its false positives are within this factor of the product, interval and all."""
SAMPLE_MESSAGES = 30_000
SAMPLE_PREDICATES = 20_000
_Z = 2.0
Ints = npt.NDArray[np.int64]


def factor(profile: bytes) -> Any:
    """A ``mapInArrow`` function over (row, predicate): one row a disjunct, with its parts by attribute."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = Profile.from_bytes(profile)
        for batch in batches:
            rows, parts, composed = [], [], []
            for row, text in zip(batch.column("row").to_pylist(), batch.column("predicate").to_pylist(), strict=True):
                for conjunction in disjuncts(parse(text)):
                    rows.append(row)
                    parts.append(cut(conjunction))
                    composed.append(is_composed(conjunction, wanted))
            columns = [
                pa.array(rows, pa.int64()),
                pa.array(parts, pa.list_(pa.string())),
                pa.array(composed, pa.bool_()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["row", "parts", "composed"])

    return run


def is_composed(conjunction: Conjunction, profile: Profile) -> bool:
    """Whether the filters of a conjunction are those of its parts, every one with every one.

    They are not where ranges on several attributes share the alternatives that a profile allows.
    """
    each = [plan(by_name, profile).asks for by_name in _by_name(conjunction)]
    whole = plan(conjunction, profile).asks
    if len(whole) != math.prod(len(asks) for asks in each):
        return False
    return {frozenset().union(*choice) for choice in itertools.product(*each)} == set(whole)


def _by_name(conjunction: Conjunction) -> list[Conjunction]:
    by_name: dict[str, list[Constraint]] = {}
    for constraint in conjunction:
        by_name.setdefault(constraint.name, []).append(constraint)
    return [tuple(constraints) for constraints in by_name.values()]


def cut(conjunction: Conjunction) -> list[str]:
    """The conditions of a conjunction, those on one attribute together, as texts."""
    return sorted(render(And(part) if len(part) > 1 else part[0]) for part in _by_name(conjunction))


@dataclass(frozen=True)
class Factors:
    """The parts that predicates are made of, and every pair of parts that occurs in one conjunction."""

    texts: list[str]
    pairs: Ints
    """``int64[p, 2]``, ascending."""
    uses: list[tuple[int, list[int], bool]]
    """(predicate, its parts, whether its filters are theirs), one entry a disjunct."""

    @classmethod
    def load(cls, path: str) -> Factors:
        """Read the stage; whoever reads it numbers parts and pairs alike."""
        table = pq.read_table(path, columns=["row", "parts", "composed"])
        listed = table["parts"].to_pylist()
        texts = sorted({text for parts in listed for text in parts})
        places = {text: place for place, text in enumerate(texts)}
        rows, composed = table["row"].to_pylist(), table["composed"].to_pylist()
        uses = [(r, sorted(places[t] for t in parts), c) for r, parts, c in zip(rows, listed, composed, strict=True)]
        pairs = sorted({pair for _, parts, _ in uses for pair in itertools.combinations(parts, 2)})
        return cls(texts, np.asarray(pairs, np.int64).reshape(-1, 2), uses)


@dataclass(frozen=True)
class Counter:
    """In a worker: both tables over the parts."""

    factors: Factors
    starts: Ints
    """Where the pairs of each part begin."""
    owner: Ints
    encoded: Matching
    exact: ExactTable


@lru_cache(maxsize=1)
def load_counter(factors: str, parts: str, source: Source) -> Counter:
    """Index the parts, as predicates and as the bits that the encode job made of them."""
    known = Factors.load(factors)
    rows = pq.read_table(parts, columns=["text", "bits"])
    places = {text: place for place, text in enumerate(known.texts)}
    owner = np.array([places[text] for text in rows["text"].to_pylist()], np.int64)
    table = encoded_table(words_of(rows["bits"], source.words), source)
    starts = np.searchsorted(known.pairs[:, 0], np.arange(len(places) + 1)).astype(np.int64)
    return Counter(known, starts, owner, table, ExactTable.build([parse(t) for t in known.texts], engine="pivot"))


def encode_parts(key_path: str, profile: bytes) -> Any:
    """A ``mapInArrow`` function over the texts of parts: their bits, one row a disjunct."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = encoder(key_path, profile)
        for batch in batches:
            texts = batch.column("text").to_pylist()
            bits, owners = here.encode_predicates([parse(text) for text in texts], match_all=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array([texts[owner] for owner in owners], pa.string()), binary(bits)], ["text", "bits"]
            )

    return run


@nb.njit(nogil=True, cache=True)
def tally_pairs(offsets: Any, rows: Any, starts: Any, second: Any, single: Any, both: Any) -> None:
    """Add one batch: how many messages have each part, and each pair of parts."""
    here = np.zeros(len(single), np.bool_)
    for message in range(len(offsets) - 1):
        for at in range(offsets[message], offsets[message + 1]):
            part = rows[at]
            if not here[part]:
                here[part] = True
                single[part] += 1
        for part in range(len(single)):
            if here[part]:
                for pair in range(starts[part], starts[part + 1]):
                    both[pair] += here[second[pair]]
        for at in range(offsets[message], offsets[message + 1]):
            here[rows[at]] = False


def count_parts(factors: str, parts_path: str, source: Source) -> Any:
    """A ``mapInArrow`` function over encoded messages: how often each part and each pair of parts matches."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = load_counter(factors, parts_path, source)
        parts, pairs = len(here.factors.texts), here.factors.pairs
        counts = np.zeros((2, parts + len(pairs)), np.int64)
        messages = 0
        second = np.ascontiguousarray(pairs[:, 1])
        for batch in batches:
            if not batch.num_rows:
                continue
            messages += batch.num_rows
            said = [json.loads(text) for text in batch.column("attributes").to_pylist()]
            exact = here.exact.match_predicates(said)
            found = here.encoded.match_filters(words_of(batch.column("bits"), source.words))
            for row, csr, rows in ((0, exact, exact.values), (1, found, here.owner[found.values])):
                tally_pairs(csr.offsets, rows, here.starts, second, counts[row, :parts], counts[row, parts:])
        if messages:
            none = np.full(parts, -1)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(np.concatenate([[-1], np.arange(parts), pairs[:, 0]]).astype(np.int32)),
                    pa.array(np.concatenate([[-1], none, pairs[:, 1]]).astype(np.int32)),
                    *(pa.array(np.concatenate([[messages], row])) for row in counts),
                ],
                ["a", "b", "exact", "encoded"],
            )

    return run


@dataclass(frozen=True)
class Shares:
    """How often parts and pairs of parts match, of so many messages."""

    messages: int
    exact: dict[tuple[int, int], float]
    encoded: dict[tuple[int, int], float]

    @classmethod
    def load(cls, path: str) -> Shares:
        """Read the merged counts."""
        rows = pq.read_table(path).to_pylist()
        messages = next(row["exact"] for row in rows if row["a"] < 0)
        exact, encoded = ({(r["a"], r["b"]): r[kind] / messages for r in rows} for kind in ("exact", "encoded"))
        return cls(messages, exact, encoded)

    def independent(self, a: int, b: int) -> bool:
        """Whether this pair was measured to be near its product: its encoded matches and its false positives."""
        together, alone = self.encoded[a, b], self.encoded[a, -1] * self.encoded[b, -1]
        false = together - self.exact[a, b]
        expected = alone - self.exact[a, -1] * self.exact[b, -1]
        return self._near(together, alone) and self._near(false, expected)

    def _near(self, measured: float, expected: float) -> bool:
        spread = _Z * math.sqrt(max(measured, 1 / self.messages) / self.messages)
        return expected / TOLERANCE <= measured - spread and measured + spread <= expected * TOLERANCE


def expect(
    shares: Shares, disjunct_parts: Sequence[Sequence[int]], messages: int, composed: bool = True
) -> dict[str, Any]:
    """The expected share of false positives of one predicate over ``messages`` messages, with its interval.

    The interval has the tolerance of every pair, and twice the standard deviation of so many messages.
    """
    missed_encoded = missed_exact = 1.0
    for parts in disjunct_parts:
        missed_encoded *= 1 - math.prod(shares.encoded[part, -1] for part in parts)
        missed_exact *= 1 - math.prod(shares.exact[part, -1] for part in parts)
    value = max(0.0, missed_exact - missed_encoded)
    pairs = list(itertools.combinations(disjunct_parts[0], 2)) if len(disjunct_parts) == 1 else []
    factor_, spread = TOLERANCE ** max(1, len(pairs)), _Z * math.sqrt(max(value, 1 / messages) / messages)
    return {
        "parts": sum(len(parts) for parts in disjunct_parts),
        "expected": value,
        "expected_low": max(0.0, value / factor_ - spread),
        "expected_high": min(1.0, value * factor_ + spread),
        "holds": composed and bool(pairs) and all(shares.independent(a, b) for a, b in pairs),
    }


def expect_all(factors: str, shares: str, messages: int) -> Any:
    """A ``mapInArrow`` function that is given one row and yields the expectations of every predicate."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not batch.num_rows:
                continue
            measured = Shares.load(shares)
            by_row: dict[int, list[tuple[list[int], bool]]] = {}
            for row, parts, composed in Factors.load(factors).uses:
                by_row.setdefault(row, []).append((parts, composed))
            rows = [
                {"row": row, **expect(measured, [p for p, _ in found], messages, all(c for _, c in found))}
                for row, found in by_row.items()
            ]
            kinds = {"long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "boolean": pa.bool_()}
            schema = pa.schema([(n, kinds[k]) for n, k in (column.split() for column in EXPECTED.split(", "))])
            yield pa.RecordBatch.from_pylist(rows, schema)

    return run


def sample(frame: Any, records: int, most: int, seed: int) -> Any:
    """About ``most`` rows of a frame of ``records``."""
    return frame if records <= most else frame.sample(most / records, seed=seed)


def run_parts(spark: Any, factors: str, key_path: str, profile: bytes) -> Any:
    """The bits of every distinct part."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    texts = spark.read.parquet(factors).select(F.explode("parts").alias("text")).distinct()
    return texts.mapInArrow(encode_parts(key_path, profile), PARTS)


def run_shares(encoded: Any, factors: str, parts: str, source: Source) -> Any:
    """The merged counts of parts and pairs over (a sample of) encoded messages."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    counted = encoded.mapInArrow(count_parts(factors, parts, source), SHARES)
    return counted.groupBy("a", "b").agg(F.sum("exact").alias("exact"), F.sum("encoded").alias("encoded"))


def run_expectations(spark: Any, factors: str, shares: str, messages: int) -> Any:
    """Expected false positives of every predicate that was cut into parts."""
    return spark.range(1).coalesce(1).mapInArrow(expect_all(factors, shares, messages), EXPECTED)
