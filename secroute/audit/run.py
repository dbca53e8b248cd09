"""The whole audit of one corpus: stages in order, each resumable, then figures, verdict and report.

TRUSTED side. Everything large stays in Parquet; only sums, rates and the rows a person reads come to the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secroute.audit import bykey, corpus, encode, fpr, leakage, marginals, predict, stages, sweep
from secroute.audit.keys import worker_key_file
from secroute.audit.tables import Source
from secroute.encoding.profile import Profile
from secroute.errors import AuditError
from secroute.keyring import TokenKeys

BLOCK_PREDICATES = 200_000
SAMPLE_MESSAGES = 6_000
SAMPLE_PREDICATES = 2_000


@dataclass(frozen=True)
class Plan:
    """What a run is given."""

    messages: str
    predicates: str
    out: Path
    profile: Profile
    tolerance: float = 0.0
    block: int = BLOCK_PREDICATES
    seed: int = 1
    partitions: int = 8
    engine: str = "auto"
    keyring_scope: str = "throw-away"
    worker_key_file: str | None = None
    grid: tuple[tuple[int, int], ...] = ()
    """Widths and hash counts of the sweep; all of them if there are none."""

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same: corpus, profile and parameters (not the throw-away key)."""
        return {
            "format": 1,
            "corpus": stages.digest_inputs(self.messages, self.predicates),
            "messages": self.messages,
            "predicates": self.predicates,
            "profile": json.loads(self.profile.to_bytes()),
            "block": self.block,
            "seed": self.seed,
            "keys": self.keyring_scope,
            "grid": [list(point) for point in self.grid],
        }


@dataclass
class Audit:
    """One run in progress: a session, a folder, and what was found so far."""

    spark: Any
    plan: Plan
    keys: TokenKeys
    say: Callable[[str], None] = lambda _: None
    folders: stages.Folders = field(init=False)
    found: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folders = stages.claim(self.plan.out, self.plan.identity())

    # --- stages ---

    def ingest(self) -> None:
        """Check messages and predicates into the run's folder."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

        plan, folders, spark = self.plan, self.folders, self.spark
        for kind, path, target in (
            ("messages", plan.messages, folders.messages),
            ("predicates", plan.predicates, str(Path(folders.root) / "stages" / "checked")),
        ):
            frame = corpus.read(spark, path, kind).repartition(plan.partitions)
            stages.stage(folders, target, _writer(frame, target), self.say)
            self.found[kind] = corpus.check_errors(spark.read.parquet(target), path, kind, plan.tolerance)
            if kind == "predicates":
                checked = spark.read.parquet(target).where(F.col("error").isNull())
                blocks = max(1, -(-self.found[kind]["records"] // plan.block))
                blocked = checked.withColumn("row", F.monotonically_increasing_id()).withColumn(
                    "block", F.pmod(F.hash("interface"), F.lit(blocks)).cast("int")
                )
                write = blocked.repartition("block").write.partitionBy("block")
                stages.stage(folders, folders.predicates, lambda w=write: w.parquet(folders.predicates), self.say)  # type: ignore[misc]

    def encode(self, key_path: str) -> None:
        """Bits of every message and predicate."""
        plan, folders, spark = self.plan, self.folders, self.spark
        profile = plan.profile.to_bytes()
        good = spark.read.parquet(folders.messages).where("error is null")
        frame = good.mapInArrow(encode.encode_messages(key_path, profile, plan.seed), encode.ENCODED)
        made = [folders.encoded, folders.filters, *([folders.parts] if self.by_attributes else [])]
        # All bits must come from one key: if only some of these stages are whole, all are made again.
        if len({folders.done(path) for path in made}) > 1:
            for path in made:
                (Path(path) / "_SUCCESS").unlink(missing_ok=True)
        stages.stage(folders, folders.encoded, _writer(frame, folders.encoded), self.say)
        checked = spark.read.parquet(folders.predicates).select("predicate", "row", "block")
        rows = checked.mapInArrow(encode.encode_predicates(key_path, profile), encode.FILTERS)
        write = rows.repartition("block").write.partitionBy("block")
        stages.stage(folders, folders.filters, lambda: write.parquet(folders.filters), self.say)
        if self.by_attributes:
            share = marginals.sample(
                checked, self.found["predicates"]["records"], marginals.SAMPLE_PREDICATES, plan.seed
            )
            cut = share.select("row", "predicate").mapInArrow(marginals.factor(profile), marginals.FACTORS)
            stages.stage(folders, folders.factors, _writer(cut, folders.factors), self.say)
            parts = marginals.run_parts(spark, folders.factors, key_path, profile)
            stages.stage(folders, folders.parts, _writer(parts, folders.parts), self.say)

    @property
    def source(self) -> Source:
        """What a worker builds its tables from."""
        plan, folders = self.plan, self.folders
        return Source(folders.predicates, folders.filters, folders.encoded, plan.profile.words, plan.engine)

    def blocks(self) -> list[int]:
        """The blocks there are."""
        return sorted(int(path.name.partition("=")[2]) for path in Path(self.folders.filters).glob("block=*"))

    def fpr(self) -> dict[str, Any]:
        """Count every pair; tables by predicate, operator and interface; the summary."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

        folders, spark = self.folders, self.spark
        counts = folders.table("counts")
        frame = fpr.run_fpr(spark, self.source, self.blocks())
        stages.stage(folders, counts, _writer(frame, counts), self.say)
        merged = spark.read.parquet(counts)
        total = merged.where("kind = 'total'").first()
        if total is None:
            raise AuditError("nothing was counted: there are no messages")
        messages = self.found["messages"]["records"]
        self.found["fpr"] = fpr.summarise(total.asDict(), self.found["predicates"]["records"], messages)
        by_predicate = fpr.rates(merged.where("kind = 'predicate'"))
        listed = spark.read.parquet(folders.predicates).select("id", "interface", "predicate", "ops", "row")
        counted = by_predicate.drop("kind", "exact2", "false2", "most", "example", "bytes")
        joined = counted.withColumn("row", F.col("id").cast("long")).drop("id").join(listed, "row")
        by_interface = fpr.rates(merged.where("kind = 'interface'"))
        for name, table in (
            ("predicates", joined),
            ("operators", fpr.by_operator(joined)),
            ("interfaces", by_interface.drop("kind", "exact2", "false2", "most", "example")),
        ):
            path = folders.table(name)
            stages.stage(folders, path, _writer(table, path), self.say)
        sums = by_interface.agg(F.sum("exact"), F.sum("encoded"), F.sum("bytes")).first()
        self.found["fpr"] |= {
            "deliveries": int(sums[0]),
            "extra_deliveries": int(sums[1]) - int(sums[0]),
            "extra_bytes": int(sums[2]),
        }
        summary: dict[str, Any] = self.found["fpr"]
        return summary

    def predict(self) -> dict[str, Any]:
        """Predictions beside what was counted."""
        plan, folders, spark = self.plan, self.folders, self.spark
        words, messages = plan.profile.words, self.found["messages"]["records"]
        predicted = folders.table("predicted")
        frame = predict.run_predictions(spark, folders.filters, self.bit_state(), words)
        stages.stage(folders, predicted, _writer(frame, predicted), self.say)
        if self.by_attributes:
            self._expect(messages)
        joined = self.predictions()
        self.found["prediction"] = predict.agreement(joined)
        self.found["calibration"] = predict.calibration(joined)
        summary: dict[str, Any] = self.found["prediction"]
        return summary

    @property
    def by_attributes(self) -> bool:
        """Whether filters are made of their attributes' parts: dropping bits by filter leaves no such parts."""
        return not any(hardening.name == "drop" for hardening in self.plan.profile.hardening)

    def predictions(self) -> Any:
        """Every predicate with its counts and predictions."""
        expected = self.folders.table("expected") if self.by_attributes else None
        return predict.joined(self.spark, self.folders, expected, self.found["messages"]["records"])

    def _expect(self, messages: int) -> None:
        """False positives expected from single attributes, measured on a sample of the messages."""
        plan, folders, spark = self.plan, self.folders, self.spark
        shares, expected = folders.table("attribute_shares"), folders.table("expected")
        encoded = spark.read.parquet(folders.encoded).select("attributes", "bits")
        some = marginals.sample(encoded, messages, marginals.SAMPLE_MESSAGES, plan.seed)
        frame = marginals.run_shares(some, folders.factors, folders.parts, self.source)
        stages.stage(folders, shares, _writer(frame, shares), self.say)
        frame = marginals.run_expectations(spark, folders.factors, shares, messages)
        stages.stage(folders, expected, _writer(frame, expected), self.say)

    def sample(self) -> tuple[str, str]:
        """The sample that leakage and sweep work on, written once: (messages, predicates)."""
        folders, spark = self.folders, self.spark
        paths = (str(folders.root / "stages" / "sample_messages"), str(folders.root / "stages" / "sample_predicates"))
        messages = spark.read.parquet(folders.messages).where("error is null").select("attributes")
        predicates = spark.read.parquet(folders.predicates).select("predicate")
        for path, frame, want, kind in (
            (paths[0], messages, SAMPLE_MESSAGES, "messages"),
            (paths[1], predicates, SAMPLE_PREDICATES, "predicates"),
        ):
            chosen = corpus.repeatable_sample(frame, want, self.found[kind]["records"], self.plan.seed)
            write = chosen.coalesce(1).write
            stages.stage(folders, path, lambda w=write, p=path: w.parquet(p), self.say)  # type: ignore[misc]
        return paths

    def leakage(self, key_path: str) -> list[dict[str, Any]]:
        """All measures for every hardening on the sample, and those that are sums over the whole corpus."""
        folders, plan, spark = self.folders, self.plan, self.spark
        path, digest = folders.table("leakage"), plan.identity()["corpus"]

        def write() -> None:
            frame = leakage.run_leakage(spark, plan.profile, key_path, self.sample(), plan.seed, digest)
            state = predict.load_state(self.bit_state())
            figures = leakage.measure_corpus(spark.read.parquet(folders.encoded), state)
            rows = [row for name, some in figures.items() for row in leakage.as_rows(some, name, plan.seed, digest)]
            frame.union(spark.createDataFrame(rows, frame.schema)).write.parquet(path)

        stages.stage(folders, path, write, self.say)
        self.found["leakage"] = [row.asDict() for row in spark.read.parquet(path).collect()]
        rows: list[dict[str, Any]] = self.found["leakage"]
        return rows

    def leakage_by_key(self, keys: int) -> list[dict[str, Any]]:
        """All measures for every hardening on the sample, under so many keys."""
        folders, plan, spark = self.folders, self.plan, self.spark
        path = folders.table(f"leakage_{keys}_keys")
        frame = bykey.run_by_key(spark, plan.profile, keys, self.sample(), plan.seed, plan.identity()["corpus"])
        stages.stage(folders, path, _writer(frame, path), self.say)
        return [row.asDict() for row in spark.read.parquet(path).collect()]

    def bit_state(self) -> str:
        """The merged state of the messages' bits."""
        folders, path = self.folders, self.folders.table("bit_state")
        records = self.found["messages"]["records"]
        frame = predict.run_states(self.spark, folders.encoded, self.plan.profile.words, records)
        stages.stage(folders, path, _writer(frame, path), self.say)
        return path

    def sweep(self, key_path: str) -> list[dict[str, Any]]:
        """The grid."""
        folders, plan = self.folders, self.plan
        path = folders.table("sweep")
        frame = sweep.run_sweep(self.spark, plan.profile, key_path, self.sample(), plan.seed, plan.grid)
        stages.stage(folders, path, _writer(frame, path), self.say)
        self.found["sweep"] = [row.asDict() for row in self.spark.read.parquet(path).collect()]
        rows: list[dict[str, Any]] = self.found["sweep"]
        return rows

    @contextmanager
    def key_path(self) -> Iterator[str]:
        """The path of the file that workers read keys from."""
        if self.plan.worker_key_file:
            yield self.plan.worker_key_file
        else:
            with worker_key_file(self.keys) as path:
                yield path

    def run(self, *, with_leakage: bool = True, with_sweep: bool = True) -> dict[str, Any]:
        """Everything up to the figures."""
        self.ingest()
        with self.key_path() as path:
            self.encode(path)
            self.fpr()
            self.predict()
            if with_leakage:
                self.leakage(path)
            if with_sweep:
                self.sweep(path)
        return self.found


def _writer(frame: Any, path: str) -> Callable[[], None]:
    return lambda: frame.write.parquet(path)
