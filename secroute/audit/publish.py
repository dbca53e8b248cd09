"""From a finished run to what people read: verdict.json, report.html, and the result of a single job. TRUSTED side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from secroute.audit import bykey, planning, report
from secroute.audit.leakage import configured
from secroute.audit.run import Audit
from secroute.audit.verdict import judge
from secroute.encoding.profile import Profile
from secroute.errors import AuditError

FIGURES = "figures.json"
SHOWN = 12
SCATTER = 1_500


def publish(audit: Audit, policy: dict[str, Any]) -> dict[str, Any]:
    """Write figures, verdict and report; returns what the command prints."""
    folders, spark = audit.folders, audit.spark
    predicates = spark.read.parquet(folders.table("predicates"))
    joined = audit.predictions().select("observed", "textbook", "expected", "holds").where("expected is not null")
    tables = {
        "costly": _top(predicates, "false"),
        "interfaces": _top(spark.read.parquet(folders.table("interfaces")), "bytes"),
        "operators": _top(spark.read.parquet(folders.table("operators")), "fpr", 100),
        "scatter": [r.asDict() for r in joined.limit(SCATTER).collect()],
    }
    figures = {
        "found": audit.found,
        "tables": tables,
        "variant": configured(audit.plan.profile),
        "identity": audit.plan.identity(),
        "profile_digest": audit.plan.profile.digest.hex(),
    }
    report.write(folders.root / FIGURES, json.dumps(figures, indent=1) + "\n")
    return write_report(folders.root, policy)


def write_report(root: Path, policy: dict[str, Any]) -> dict[str, Any]:
    """Verdict and report of a run whose figures are whole; needs no Spark, so another policy is judged at once."""
    path = root / FIGURES
    if not path.exists():
        raise AuditError(f"{root}: holds no finished run (there is no {FIGURES}); run the audit first")
    figures = json.loads(path.read_text(encoding="utf-8"))
    found, identity, variant = figures["found"], figures["identity"], figures["variant"]
    verdict = judge(found, policy, variant)
    verdict |= {"corpus": identity["corpus"], "seed": identity["seed"], "profile": figures["profile_digest"]}
    report.write(root / "verdict.json", json.dumps(verdict, indent=1) + "\n")
    report.write(root / "report.html", report.render(found, figures["tables"], verdict, identity, variant))
    return {
        "verdict": verdict["verdict"],
        "violated": [c["check"] for c in verdict["checks"] if not c["ok"]],
        **found["fpr"],
        "prediction": found["prediction"],
        "leakage_figures": len(found.get("leakage", [])),
        "report": str(root / "report.html"),
    }


def plan(audit: Audit, target_fpr: float, max_bits: int) -> dict[str, Any]:
    """Sweep, choose, check on the other half of the sample, and write the recommended profile with its evidence."""
    audit.ingest()
    with audit.key_path() as path:
        rows = audit.sweep(path)
        best, again = planning.recommend(
            audit.spark, rows, (target_fpr, max_bits), path, audit.sample(), audit.plan.seed
        )
    profile = Profile.from_bytes(best["profile"].encode())
    target = audit.folders.root / "profile.toml"
    kept = ("fpr", "low", "high", "messages", "predicates")
    evidence = {
        "target_fpr": target_fpr,
        "max_bits": max_bits,
        "profile": str(target),
        **{key: value for key, value in best.items() if key != "profile"},
        "other_half": {key: again[key] for key in kept},
        "grid_points": len(rows),
        "grid_points_that_fit": sum(r["bits"] <= max_bits and r["high"] <= target_fpr for r in rows),
        "seed": audit.plan.seed,
        "corpus": audit.plan.identity()["corpus"],
    }
    report.write(target, planning.to_toml(profile))
    report.write(audit.folders.root / "plan.json", json.dumps(evidence, indent=1) + "\n")
    return evidence


def single(audit: Audit, job: str, keys: int = 0) -> dict[str, Any]:
    """One job alone, after the stages it needs; leakage under so many keys beside the run's own, if asked."""
    audit.ingest()
    with audit.key_path() as path:
        if job in ("encode", "fpr", "leakage"):
            audit.encode(path)
        if job == "encode":
            return {"encoded": audit.folders.encoded, "filters": audit.folders.filters}
        if job == "fpr":
            return audit.fpr()
        rows = audit.leakage(path) if job == "leakage" else audit.sweep(path)
    result = {"rows": len(rows), "table": audit.folders.table(job)}
    if keys:
        target = audit.folders.root / f"leakage_{keys}_keys.md"
        report.write(target, bykey.to_markdown(audit.leakage_by_key(keys)))
        result["by_key"] = str(target)
    return result


def _top(frame: Any, column: str, most: int = SHOWN) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    return [row.asDict() for row in frame.orderBy(F.desc(column)).limit(most).collect()]
