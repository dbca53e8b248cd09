"""Predicted against observed: how often filters should match, from popcounts alone and from measured bits.

TRUSTED side. One job merges the state of the messages' bits (in workers, not on the driver), a second predicts every
filter from it. The first prediction is the textbook's (independent, equally likely bits); the second uses measured
frequencies and co-occurrence; the third (``marginals``) multiplies attributes, and says where they are independent.
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
STATE_PRODUCTS = 10**12
"""Co-occurrence costs m * m a message: of larger corpora a sample is taken, so that it stays below a minute."""
STATE_MESSAGES = 8_000_000  # pairs are kept as float32, which counts no further than 16 million


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
    most = min(STATE_MESSAGES, STATE_PRODUCTS // (words * 64) ** 2)
    if messages > most:
        frame = frame.sample(most / messages, seed=1)
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


def joined(spark: Any, folders: Any, expected: str | None, messages: int) -> Any:
    """Every predicate with its counts and its predicted shares of false positives, by each kind of prediction."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    counted, predicted = (spark.read.parquet(folders.table(name)) for name in ("predicates", "predicted"))
    counted = counted.join(predicted, "row")
    if expected:
        counted = counted.join(spark.read.parquet(expected), "row", "left")
    else:
        empty = {"expected": "double", "expected_low": "double", "expected_high": "double", "holds": "boolean"}
        counted = counted.withColumns({name: F.lit(None).cast(kind) for name, kind in empty.items()})
    exact = F.col("exact") / messages
    return counted.withColumns(
        {
            "observed": (F.col("encoded") - F.col("exact")) / messages,
            "textbook": F.col("independent") * (1 - exact),
            "bits": F.greatest(F.col("measured") - exact, F.lit(0.0)),
            "inside": F.expr(f"(encoded - exact) / {messages} between expected_low and expected_high"),
        }
    )


def agreement(frame: Any) -> dict[str, Any]:
    """How the predictions fare against the observed share of false positives, overall and where independence holds."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    def mean(name: str, where: Any = None) -> Any:
        return F.avg(F.when(where, F.col(name)) if where is not None else F.col(name))

    known, holds = F.col("expected").isNotNull(), F.col("holds")
    row = frame.agg(
        F.count("*").alias("predicates"),
        *(mean(name).alias(name) for name in ("observed", "textbook", "bits")),
        F.sum(known.cast("int")).alias("with_attributes"),
        mean("expected").alias("attributes"),
        mean("observed", known).alias("observed_with_attributes"),
        F.sum(F.col("inside").cast("int")).alias("inside"),
        F.sum(holds.cast("int")).alias("where_independent"),
        F.sum((holds & F.col("inside")).cast("int")).alias("inside_where_independent"),
        *(
            mean(name, holds).alias(f"{alias}_where_independent")
            for name, alias in (("observed", "observed"), ("expected", "predicted"), ("expected_low", "low"),
                                ("expected_high", "high"))
        ),
    ).first()  # fmt: skip
    return dict(row.asDict())


def calibration(frame: Any) -> list[dict[str, Any]]:
    """Predicates in classes of their expected rate (two a decade), where independence holds and where it does not."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    classes = frame.where("expected > 0").withColumn("class", F.floor(2 * F.log10("expected")))
    rows = classes.groupBy("holds", "class").agg(
        F.count("*").alias("predicates"),
        F.avg("expected").alias("expected"),
        F.avg("observed").alias("observed"),
        F.avg(F.col("inside").cast("double")).alias("inside"),
    )
    return [row.asDict() for row in rows.orderBy(F.desc("holds"), "class").collect()]
