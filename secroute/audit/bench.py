"""``secroute audit bench``: pair throughput of the fpr job beside the obvious Spark SQL join, same data, same run.

TRUSTED side. The workload is the flights' (cycled if more are asked for) under the flights' profile. Workers are warmed
by a full pass first: imports, kernels and tables are paid once in a worker's life and are timed apart.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from secroute.audit import flights
from secroute.audit.keys import run_keys
from secroute.audit.run import Audit, Plan
from secroute.audit.tables import load_block, words_of
from secroute.content import Message
from secroute.content.files import write_messages, write_predicates

COUNT = "matches long"


def _flights(count: int) -> Iterator[Message]:
    made = 0
    while made < count:
        for message in flights.messages(count - made):
            yield message
            made += 1


def encoded_pass(predicates: str, filters: str, words: int, engine: str) -> Any:
    """A ``mapInArrow`` function: encoded matches only."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = load_block(predicates, filters, 0, words, engine)
        found = sum(
            len(here.encoded.match_filters(words_of(b.column("bits"), words)).values) for b in batches if b.num_rows
        )
        yield pa.RecordBatch.from_arrays([pa.array([found], pa.int64())], ["matches"])

    return run


def exact_pass(predicates: str, filters: str, words: int, engine: str) -> Any:
    """A ``mapInArrow`` function: exact matches only."""
    import json

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = load_block(predicates, filters, 0, words, engine)
        found = 0
        for batch in batches:
            if batch.num_rows:
                attributes = [json.loads(text) for text in batch.column("attributes").to_pylist()]
                found += len(here.exact.match_predicates(attributes).values)
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


def bench(
    spark: Any, messages: int, predicates: int, sql_messages: int, exact_messages: int, seed: int,
    say: Callable[[str], None],
    engine: str = "auto",
) -> dict[str, Any]:  # fmt: skip
    """All figures of one run."""
    with tempfile.TemporaryDirectory(prefix="secroute-audit-bench-") as name:
        root = Path(name)
        write_messages(root / "messages.parquet", _flights(messages))
        write_predicates(root / "predicates.jsonl", flights.predicates(predicates, seed=seed))
        profile = flights.profile()
        plan = Plan(
            str(root / "messages.parquet"),
            str(root / "predicates.jsonl"),
            root / "run",
            profile,
            block=2 * predicates,
            engine=engine,
        )
        audit = Audit(spark, plan, run_keys(profile, None, None), say)
        audit.ingest()
        with audit.key_path() as path:
            audit.encode(path)
        return _measure(spark, audit, messages, predicates, sql_messages, exact_messages, say)


def _measure(
    spark: Any,
    audit: Audit,
    messages: int,
    predicates: int,
    sql_messages: int,
    exact_messages: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    folders, words, engine = audit.folders, audit.plan.profile.words, audit.plan.engine
    encoded = (
        spark.read.parquet(folders.encoded)
        .select("attributes", "bits")
        .repartition(spark.sparkContext.defaultParallelism)
        .cache()
    )
    encoded.count()
    where = (folders.predicates, folders.filters, words, engine)
    cold_s, _ = _timed(
        encoded.limit(2_000).repartition(spark.sparkContext.defaultParallelism).mapInArrow(encoded_pass(*where), COUNT)
    )
    say(f"workers warm after {cold_s:.1f} s")
    half_s, _ = _timed(encoded.sample(0.5, seed=1).mapInArrow(encoded_pass(*where), COUNT))
    encoded_s, matches = _timed(encoded.mapInArrow(encoded_pass(*where), COUNT))
    say(f"encoded: {encoded_s:.1f} s")
    few = encoded.limit(exact_messages).repartition(spark.sparkContext.defaultParallelism).cache()
    exact_count = few.count()
    exact_s, exact_matches = _timed(few.mapInArrow(exact_pass(*where), COUNT))
    say(f"exact: {exact_s:.1f} s")
    little = encoded.limit(sql_messages).repartition(spark.sparkContext.defaultParallelism)
    sql_s, sql_matches = _timed(sql_join(spark, little, folders.filters, words))
    say(f"SQL join: {sql_s:.1f} s")
    rows = spark.read.parquet(folders.filters).count()
    pairs_per_s, sql_per_s = messages * rows / encoded_s, sql_messages * rows / sql_s
    return {
        "messages": messages,
        "predicates": predicates,
        "filter_rows": rows,
        "bits": audit.plan.profile.bits,
        "engine": engine,
        "pairs_per_s": pairs_per_s,
        "sql_pairs_per_s": sql_per_s,
        "speedup_over_sql": pairs_per_s / sql_per_s,
        "exact_pairs_per_s": exact_count * predicates / exact_s,
        "matches_per_message": exact_matches / max(1, exact_count),
        "encoded_matches_per_message": matches / messages,
        "sql_matches_per_message": sql_matches / sql_messages,
        "worker_start_and_table_s": cold_s,
        "half_messages_s": half_s,
        "all_messages_s": encoded_s,
        "sql_messages": sql_messages,
        "sql_s": sql_s,
    }
