"""Predicted against observed: how often filters should match, from popcounts alone and from measured bits.

TRUSTED side. One job merges the state of the messages' bits (in workers, not on the driver), a second predicts every
filter from it. The first prediction is the textbook's (independent, equally likely bits); the second uses measured
frequencies and co-occurrence. Where both agree, independence holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from secroute.audit.bitstate import BitState, unpack
from secroute.audit.tables import words_of

STATE = "state binary"
PREDICTED = "row long, popcount double, disjuncts int, independent double, measured double"
STATE_MESSAGES = 100_000


def states(words: int) -> Any:
    """A ``mapInArrow`` function over encoded messages: one state a task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        merged: BitState | None = None
        for batch in batches:
            if batch.num_rows:
                one = BitState.of(words_of(batch.column("bits"), words), np.asarray(batch.column("names"), np.int64))
                merged = one if merged is None else merged.merge(one)
        if merged is not None:
            yield pa.RecordBatch.from_arrays([pa.array([merged.to_bytes()], pa.binary())], ["state"])

    return run


def merge_states(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A ``mapInArrow`` function: many states become one."""
    merged: BitState | None = None
    for batch in batches:
        for data in batch.column("state").to_pylist():
            one = BitState.from_bytes(data)
            merged = one if merged is None else merged.merge(one)
    if merged is not None:
        yield pa.RecordBatch.from_arrays([pa.array([merged.to_bytes()], pa.binary())], ["state"])


def load_state(path: str) -> BitState:
    """The merged state of a run."""
    return BitState.from_bytes(pq.read_table(path, columns=["state"])["state"][0].as_py())


def predict_filters(state_path: str, words: int) -> Any:
    """A ``mapInArrow`` function over filters (rows of one predicate together): predicted match probabilities."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        state = load_state(state_path)
        for batch in batches:
            if not batch.num_rows:
                continue
            filters = words_of(batch.column("bits"), words)
            weight = unpack(filters).sum(axis=1).astype(np.int64)
            columns = [
                batch.column("row"),
                pa.array(weight.astype(np.float64)),
                pa.array(np.ones(len(weight), np.int32)),
                pa.array(state.predict_independent(weight)),
                pa.array(state.predict_measured(filters)),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["row", "popcount", "disjuncts", "independent", "measured"])

    return run


def run_states(spark: Any, encoded: str, words: int, messages: int) -> Any:
    """The merged state of (a sample of) the messages, as a DataFrame of one row."""
    frame = spark.read.parquet(encoded).select("names", "bits")
    if messages > STATE_MESSAGES:
        frame = frame.sample(STATE_MESSAGES / messages, seed=1)
    return frame.mapInArrow(states(words), STATE).coalesce(1).mapInArrow(merge_states, STATE)


def run_predictions(spark: Any, filters: str, state_path: str, words: int) -> Any:
    """Predicted match probability of every predicate: any of its disjuncts, taken as independent."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    rows = spark.read.parquet(filters).select("row", "bits")
    each = rows.mapInArrow(predict_filters(state_path, words), PREDICTED)
    return each.groupBy("row").agg(
        F.avg("popcount").alias("popcount"),
        F.sum("disjuncts").alias("disjuncts"),
        *(
            (1 - F.exp(F.sum(F.log(1 - F.least(F.col(c), F.lit(1 - 1e-12)))))).alias(c)
            for c in ("independent", "measured")
        ),
    )


def agreement(joined: Any, messages: int) -> dict[str, Any]:
    """How the predictions fare: means beside the observed mean, and how many predicates fall inside their interval.

    Independence is taken to hold where the two predictions differ by less than a factor 1.25; there a predicate's
    encoded matches should lie within four standard deviations (plus a tenth, for the error of the estimate itself).
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    rate = F.col("encoded") / F.lit(messages)
    ratio = F.col("measured") / F.greatest(F.col("independent"), F.lit(1e-12))
    holds = (ratio < 1.25) & (ratio > 0.8)
    wide = 4 * F.sqrt(F.col("measured") / messages) + 0.1 * F.col("measured") + 1 / messages
    inside = F.abs(rate - F.greatest(F.col("measured"), F.col("exact") / messages)) <= wide
    row = joined.agg(
        F.avg(rate).alias("observed"),
        F.avg("independent").alias("independent"),
        F.avg("measured").alias("measured"),
        F.sum(holds.cast("int")).alias("where_independent"),
        F.sum((holds & inside).cast("int")).alias("inside_where_independent"),
        F.sum(inside.cast("int")).alias("inside"),
        F.count("*").alias("predicates"),
        F.corr(F.log(F.greatest(rate, F.lit(1e-7))), F.log(F.greatest("measured", F.lit(1e-7)))).alias(
            "log_correlation"
        ),
    ).first()
    return dict(row.asDict())
