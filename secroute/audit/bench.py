"""``secroute audit bench``: pair throughput of the fpr job beside the obvious Spark SQL join, same data, same run.

TRUSTED side. The workload is the flights' (cycled if more are asked for) under the flights' profile or a given one.
Workers are warmed first: imports, kernels and tables are paid once in a worker's life and are timed apart.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa

from secroute.audit import flights
from secroute.audit.keys import run_keys
from secroute.audit.run import Audit, Plan
from secroute.audit.tables import Source, load_block, words_of
from secroute.content import Message
from secroute.content.files import write_messages, write_predicates
from secroute.encoding.profile import Profile

COUNT = "matches long"


def _flights(count: int) -> Iterator[Message]:
    made = 0
    while made < count:
        for message in flights.messages(count - made):
            yield message
            made += 1


def encoded_pass(source: Source) -> Any:
    """A ``mapInArrow`` function: encoded matches only."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = load_block(source, 0)
        found = sum(
            len(here.encoded.match_filters(words_of(b.column("bits"), source.words)).values)
            for b in batches
            if b.num_rows
        )
        yield pa.RecordBatch.from_arrays([pa.array([found], pa.int64())], ["matches"])

    return run


def exact_pass(source: Source) -> Any:
    """A ``mapInArrow`` function: exact matches only."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = load_block(source, 0)
        found = 0
        for batch in batches:
            if batch.num_rows:
                said = [json.loads(text) for text in batch.column("attributes").to_pylist()]
                found += len(here.exact.match_predicates(said).values)
        yield pa.RecordBatch.from_arrays([pa.array([found], pa.int64())], ["matches"])

    return run


def _timed(frame: Any) -> tuple[float, int]:
    started = time.perf_counter()
    row = frame.groupBy().sum("matches").first()
    return time.perf_counter() - started, int(row[0] or 0)


def sql_join(spark: Any, encoded: Any, filters: str, words: int) -> Any:
    """The obvious join: bit columns, broadcast filters, ``(f & ~m) = 0`` for every word."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    def columns(frame: Any, letter: str) -> Any:
        parts = [
            F.conv(F.hex(F.substring("bits", 8 * w + 1, 8)), 16, -10).cast("long").alias(f"{letter}{w}")
            for w in range(words)
        ]
        return frame.select(*parts)

    left = columns(encoded, "m").cache()
    right = columns(spark.read.parquet(filters), "f").cache()
    left.count(), right.count()  # both are in memory before the clock starts
    condition = F.lit(True)
    for w in range(words):
        condition = condition & ((F.col(f"f{w}").bitwiseAND(F.bitwise_not(f"m{w}"))) == 0)
    return left.join(F.broadcast(right), condition).agg(F.count("*").alias("matches"))


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    messages: int = 50_000
    predicates: int = 200_000
    sql_messages: int = 5_000
    exact_messages: int = 20_000


def bench(
    spark: Any, sizes: Sizes, profile: Profile, narrow: bool, seed: int, say: Callable[[str], None],
    engine: str = "auto",
) -> dict[str, Any]:  # fmt: skip
    """All figures of one run."""
    with tempfile.TemporaryDirectory(prefix="secroute-audit-bench-") as name:
        root = Path(name)
        write_messages(root / "messages.parquet", _flights(sizes.messages))
        asked = flights.predicates(sizes.predicates, seed=seed, narrow=narrow)
        write_predicates(root / "predicates.jsonl", asked)
        paths = str(root / "messages.parquet"), str(root / "predicates.jsonl")
        plan = Plan(*paths, root / "run", profile, block=2 * sizes.predicates, engine=engine)
        audit = Audit(spark, plan, run_keys(profile, None, None), say)
        audit.ingest()
        with audit.key_path() as path:
            audit.encode(path)
        return {**_measure(spark, audit, sizes, say), "narrow": narrow}


def _measure(spark: Any, audit: Audit, sizes: Sizes, say: Callable[[str], None]) -> dict[str, Any]:
    source, cores = audit.source, spark.sparkContext.defaultParallelism
    encoded = spark.read.parquet(source.encoded).select("attributes", "bits").repartition(cores).cache()
    encoded.count()

    def some(count: int) -> Any:
        frame = encoded.limit(count).repartition(cores).cache()
        frame.count()
        return frame

    cold_s, _ = _timed(some(2_000).select("bits").mapInArrow(encoded_pass(source), COUNT))
    say(f"workers warm after {cold_s:.1f} s")
    bits, growth, matches = encoded.select("bits"), {}, 0
    for times in (1, 2, 4, 8):  # the same messages again and again: only their number matters
        many = reduce(lambda a, b: a.union(b), [bits] * times)
        growth[times * sizes.messages], found = _timed(many.mapInArrow(encoded_pass(source), COUNT))
        matches = matches or found
    encoded_s = growth[sizes.messages]
    say(f"encoded: {encoded_s:.1f} s")
    exact_s, exact_matches = _timed(some(sizes.exact_messages).mapInArrow(exact_pass(source), COUNT))
    say(f"exact: {exact_s:.1f} s")
    _timed(sql_join(spark, some(sizes.sql_messages // 10), source.filters, source.words))  # the JVM is warm, too
    sql_s, sql_matches = _timed(sql_join(spark, some(sizes.sql_messages), source.filters, source.words))
    say(f"SQL join: {sql_s:.1f} s")
    rows = spark.read.parquet(source.filters).count()
    pairs_per_s, sql_per_s = sizes.messages * rows / encoded_s, sizes.sql_messages * rows / sql_s
    return {
        "messages": sizes.messages,
        "predicates": sizes.predicates,
        "filter_rows": rows,
        "bits": audit.plan.profile.bits,
        "hashes": audit.plan.profile.hashes,
        "engine": source.engine,
        "pairs_per_s": pairs_per_s,
        "sql_pairs_per_s": sql_per_s,
        "speedup_over_sql": pairs_per_s / sql_per_s,
        "exact_pairs_per_s": sizes.exact_messages * sizes.predicates / exact_s,
        "matches_per_message": exact_matches / sizes.exact_messages,
        "encoded_matches_per_message": matches / sizes.messages,
        "sql_matches_per_message": sql_matches / sizes.sql_messages,
        "worker_start_and_table_s": cold_s,
        "seconds_by_messages": growth,
        "sql_messages": sizes.sql_messages,
        "sql_s": sql_s,
    }
