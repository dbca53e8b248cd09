"""From a finished run to what people read: verdict.json, report.html, and the result of a single job. TRUSTED side."""

from __future__ import annotations

import json
from typing import Any

from secroute.audit import report
from secroute.audit.run import Audit
from secroute.audit.verdict import judge

SHOWN = 12
SCATTER = 1_500


def configured_variant(audit: Audit) -> str:
    """Which column of the leakage table is the profile as it runs."""
    if not audit.plan.profile.hardening:
        return "none"
    names = {row["variant"] for row in audit.found.get("leakage", [])}
    return "as configured" if "as configured" in names else "all"


def publish(audit: Audit, policy: dict[str, Any]) -> dict[str, Any]:
    """Write the verdict and the report; returns what the command prints."""
    folders, spark = audit.folders, audit.spark
    predicates = spark.read.parquet(folders.table("predicates"))
    joined = audit.predictions().select("observed", "textbook", "expected", "holds").where("expected is not null")
    tables = {
        "costly": _top(predicates, "false"),
        "interfaces": _top(spark.read.parquet(folders.table("interfaces")), "bytes"),
        "operators": _top(spark.read.parquet(folders.table("operators")), "fpr", 100),
        "scatter": [r.asDict() for r in joined.limit(SCATTER).collect()],
    }
    variant = configured_variant(audit)
    verdict = judge(audit.found, policy, variant)
    identity = audit.plan.identity()
    verdict |= {"corpus": identity["corpus"], "seed": identity["seed"], "profile": audit.plan.profile.digest.hex()}
    report.write(folders.root / "verdict.json", json.dumps(verdict, indent=1) + "\n")
    report.write(folders.root / "report.html", report.render(audit.found, tables, verdict, identity, variant))
    return {
        "verdict": verdict["verdict"],
        "violated": [c["check"] for c in verdict["checks"] if not c["ok"]],
        **audit.found["fpr"],
        "prediction": audit.found["prediction"],
        "leakage_figures": len(audit.found.get("leakage", [])),
        "report": str(folders.root / "report.html"),
    }


def single(audit: Audit, job: str) -> dict[str, Any]:
    """One job alone, after the stages it needs."""
    audit.ingest()
    with audit.key_path() as path:
        if job in ("encode", "fpr"):
            audit.encode(path)
        if job == "encode":
            return {"encoded": audit.folders.encoded, "filters": audit.folders.filters}
        if job == "fpr":
            return audit.fpr()
        rows = audit.leakage(path) if job == "leakage" else audit.sweep(path)
    return {"rows": len(rows), "table": audit.folders.table(job)}


def _top(frame: Any, column: str, most: int = SHOWN) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    return [row.asDict() for row in frame.orderBy(F.desc(column)).limit(most).collect()]
