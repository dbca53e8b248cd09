"""Leakage over several keys: which differences between hardenings are more than the luck of one key. TRUSTED side.

The keys are numbered and drawn from the run's seed, for measuring only: the run's own key is not among them, so that
anybody with the corpus gets the same table. Every hardening is measured under the same keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from secroute.audit import leakage
from secroute.audit.measures import MEASURES, ROUTER, VARIANTS, mean_advantages
from secroute.encoding.profile import Profile

FIGURES = leakage.FIGURES + ", key long"


def _job(messages: str, predicates: str, seed: int, corpus: str) -> Any:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                profile, key = Profile.from_bytes(row["profile"].encode()), row["key"]
                sample = leakage.load_sample(messages, predicates, seed)
                now, next_epoch = (leakage.numbered_encoder(profile, seed, key, epoch) for epoch in (1, 2))
                figures = leakage.as_rows(leakage.measure(now, next_epoch, sample), row["variant"], seed, corpus)
                yield pa.RecordBatch.from_pylist([{**each, "key": key} for each in figures], leakage.schema(FIGURES))

    return run


def run_by_key(spark: Any, profile: Profile, keys: int, sample: tuple[str, str], seed: int, corpus: str) -> Any:
    """A DataFrame of figures, one task for each key and variant."""
    tasks = [
        (name, each.to_bytes().decode(), key)
        for key in range(1, keys + 1)
        for name, each in leakage.variants(profile).items()
    ]
    frame = spark.createDataFrame(tasks, "variant string, profile string, key long").repartition(len(tasks))
    return frame.mapInArrow(_job(*sample, seed, corpus), FIGURES)


def to_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Measures against hardenings: the mean over keys, in brackets the least and the most where they differ."""
    keys = sorted({row["key"] for row in rows})
    present = {row["variant"] for row in rows}
    names = [name for name in VARIANTS if name in present]
    tables = [mean_advantages([row for row in rows if row["key"] == key]) for key in keys]
    lines = [f"| measure, {len(keys)} keys | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
    for measure, told in MEASURES.items():
        cells = []
        for name in names:
            found = [table[measure, name] for table in tables if (measure, name) in table]
            low, mean, high = (f"{f(found):.2f}" for f in (min, np.mean, max)) if found else ("", "–", "")
            cells.append(mean if low == high else f"{mean} ({low}-{high})")
        who = "" if told.attacker == ROUTER else f" ({told.attacker})"
        if told.in_summary and set(cells) != {"–"}:
            lines.append(f"| ({told.number}) {told.words}{who} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
