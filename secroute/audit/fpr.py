"""The fpr job: exact against encoded for every pair of message and predicate, without materialising a pair.

TRUSTED side. Each task holds one block of predicates in two tables, runs its messages through both and keeps counts by
predicate and interface. A false negative breaks the law: the job fails and shows one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from secroute.audit.intervals import Z95, ratio_interval, wilson
from secroute.audit.tables import Source, load_block, tally, words_of
from secroute.errors import FalseNegativeError

COUNTS = (
    "kind string, id string, messages long, exact long, encoded long, missed long, bytes long, "
    "exact2 double, false2 double, most long, example string"
)
_SCHEMA = pa.schema(
    [("kind", pa.string()), ("id", pa.string())]
    + [(name, pa.int64()) for name in ("messages", "exact", "encoded", "missed", "bytes")]
    + [("exact2", pa.float64()), ("false2", pa.float64()), ("most", pa.int64()), ("example", pa.string())]
)


def count_pairs(source: Source, block: int) -> Any:
    """A ``mapInArrow`` function over encoded messages: the counts of one task against one block."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here, words = load_block(source, block), source.words
        counts = np.zeros((len(here), 3), np.int64)
        deliveries = np.zeros((len(here.names), 3), np.int64)
        total = {"messages": 0, "exact2": 0.0, "false2": 0.0, "most": 0, "example": None}
        for batch in batches:
            if batch.num_rows:
                _count_batch(here, batch, words, counts, deliveries, total)
        if total["messages"]:
            yield _rows(here, counts, deliveries, total)

    return run


def _count_batch(here: Any, batch: Any, words: int, counts: Any, deliveries: Any, total: dict[str, Any]) -> None:
    texts = batch.column("attributes").to_pylist()
    found = here.encoded.match_filters(words_of(batch.column("bits"), words))
    exact = here.exact.match_predicates([json.loads(text) for text in texts])
    per_message = np.zeros((batch.num_rows, 2), np.int64)
    sizes = np.asarray(batch.column("size"), np.int64)
    message, predicate = tally(
        found.offsets, found.values, here.owner, exact.offsets, exact.values, here.interface, sizes,
        counts, deliveries, per_message,
    )  # fmt: skip
    if message >= 0 and total["example"] is None:
        total["example"] = f"message {texts[message]} matches {here.predicates[predicate]!r} but not its filter"
    false = (per_message[:, 1] - per_message[:, 0]).astype(np.float64)
    total["messages"] += batch.num_rows
    total["false2"] += float((false**2).sum())
    total["exact2"] += float((per_message[:, 0].astype(np.float64) ** 2).sum())
    total["most"] = max(total["most"], int(per_message[:, 0].max()))


def _rows(here: Any, counts: Any, deliveries: Any, total: dict[str, Any]) -> pa.RecordBatch:
    p, i = len(counts), len(deliveries)
    nothing = np.zeros(p + i + 1, np.int64)
    exact, encoded, missed, extra = nothing.copy(), nothing.copy(), nothing.copy(), nothing.copy()
    exact[:p], encoded[:p], missed[:p] = counts.T
    exact[p:-1], encoded[p:-1], extra[p:-1] = deliveries.T
    exact[-1], encoded[-1], missed[-1] = counts.sum(axis=0)
    messages = np.full(p + i + 1, total["messages"])
    squares = [np.zeros(p + i + 1), np.zeros(p + i + 1)]
    squares[0][-1], squares[1][-1] = total["exact2"], total["false2"]
    most = nothing.copy()
    most[-1] = total["most"]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["predicate"] * p + ["interface"] * i + ["total"]),
            pa.array(here.ids + here.names + [""]),
            *(pa.array(column) for column in (messages, exact, encoded, missed, extra, *squares, most)),
            pa.array([None] * (p + i) + [total["example"]], pa.string()),
        ],
        schema=_SCHEMA,
    )


def run_fpr(spark: Any, source: Source, blocks: list[int]) -> Any:
    """The merged counts of every block as one DataFrame (kind, id, messages, exact, encoded, ...)."""
    from functools import reduce

    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    encoded = spark.read.parquet(source.encoded).select("attributes", "size", "bits")
    parts = [encoded.mapInArrow(count_pairs(source, block), COUNTS) for block in blocks]
    return (
        reduce(lambda a, b: a.union(b), parts)
        .groupBy("kind", "id")
        .agg(
            *(
                F.sum(name).alias(name)
                for name in ("messages", "exact", "encoded", "missed", "bytes", "exact2", "false2")
            ),
            F.max("most").alias("most"),
            F.first("example", ignorenulls=True).alias("example"),
        )
    )


def rates(frame: Any) -> Any:
    """Predicate or interface counts with their false-positive rates and Wilson intervals, in Spark."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    z2 = 3.8414588206941254
    trials = (F.col("messages") - F.col("exact")).cast("double")
    hits = F.col("encoded") - F.col("exact")
    share = hits / trials
    centre = share + z2 / (2 * trials)
    spread = F.sqrt(F.lit(z2)) * F.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    scale = 1 + z2 / trials
    return (
        frame.withColumn("false", hits)
        .withColumn("fpr", F.when(trials > 0, share))
        .withColumn("low", F.when(trials > 0, F.greatest(F.lit(0.0), (centre - spread) / scale)))
        .withColumn("high", F.when(trials > 0, F.least(F.lit(1.0), (centre + spread) / scale)))
    )


def by_operator(predicates: Any) -> Any:
    """Rates of the predicates that use each operator; the interval is over predicates, which differ most."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    spread = Z95 * F.coalesce(F.stddev("fpr"), F.lit(0.0)) / F.sqrt(F.count("*"))
    return (
        predicates.withColumn("op", F.explode("ops"))
        .groupBy("op")
        .agg(
            F.count("*").alias("predicates"),
            *(F.sum(name).alias(name) for name in ("messages", "exact", "encoded", "missed")),
            F.avg("fpr").alias("fpr"),
            F.greatest(F.lit(0.0), F.avg("fpr") - spread).alias("low"),
            F.least(F.lit(1.0), F.avg("fpr") + spread).alias("high"),
        )
    )


def summarise(total: dict[str, Any], predicates: int, messages: int) -> dict[str, Any]:
    """Overall figures; raises if any exact match was missed."""
    if total["missed"]:
        raise FalseNegativeError(
            f"{total['missed']} false negatives; the law is broken, for example: {total['example']}"
        )
    pairs = messages * predicates
    false = total["encoded"] - total["exact"]
    # Trials are the pairs that do not match; their number a message is taken as given.
    low, high = ratio_interval(
        messages, false, total["false2"], max(1.0, predicates - total["exact"] / max(1, messages))
    )
    return {
        "messages": messages,
        "predicates": predicates,
        "pairs": pairs,
        "exact_matches": total["exact"],
        "encoded_matches": total["encoded"],
        "false_negatives": total["missed"],
        "false_positives": false,
        "fpr": false / max(1, pairs - total["exact"]),
        "fpr_low": low,
        "fpr_high": high,
        "fpr_wilson": list(wilson(false, pairs - total["exact"])),
        "precision": total["exact"] / max(1, total["encoded"]),
        "matches_per_message": total["exact"] / max(1, messages),
        "matches_per_message_max": total["most"],
    }
