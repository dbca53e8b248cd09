"""The verdict: figures against the thresholds of a policy file, for people and for CI. TRUSTED side, pure."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

from secroute.audit.measures import MEASURES
from secroute.errors import AuditError

DEFAULT_POLICY: dict[str, Any] = {
    "fpr_max": 0.05,
    "extra_deliveries_per_delivery_max": 100.0,
    # How far from chance (0) towards plain text (1) an attack may come, with the profile as it is configured.
    "advantage_max": {"pattern_mining": 0.25, "bayes_vulnerability": 0.25},
}


def load_policy(path: str | None) -> dict[str, Any]:
    """The policy of a TOML file over the defaults; unknown keys are refused."""
    if path is None:
        return DEFAULT_POLICY
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AuditError(f"{path}: not a policy in TOML: {error}") from None
    extra = sorted(set(given) - set(DEFAULT_POLICY))
    if extra:
        raise AuditError(f"{path}: unknown key {extra[0]!r}; known are {', '.join(DEFAULT_POLICY)}")
    wanted = given.get("advantage_max", {})
    if not isinstance(wanted, dict):
        raise AuditError(f"{path}: advantage_max is a table of measures, [advantage_max], not {wanted!r}")
    # A limit on a measure that does not exist would hold for ever, and nobody would know.
    extra = sorted(set(wanted) - set(MEASURES))
    if extra:
        raise AuditError(f"{path}: unknown measure {extra[0]!r} in advantage_max; known are {', '.join(MEASURES)}")
    for name, limit in [*((n, v) for n, v in given.items() if n != "advantage_max"), *wanted.items()]:
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < math.inf:
            raise AuditError(f"{path}: {name} is a number of at least 0, not {limit!r}")
    return {**DEFAULT_POLICY, **given}


def judge(found: dict[str, Any], policy: dict[str, Any], variant: str) -> dict[str, Any]:
    """Every check with its figure (none if there was nothing to measure) and limit; ``pass`` only if all hold."""
    fpr = found["fpr"]
    ratio = fpr["extra_deliveries"] / max(1, fpr["deliveries"])
    checks = [
        _check("false_negatives", fpr["false_negatives"], 0),
        _check("fpr_high", fpr["fpr_high"], policy["fpr_max"]),
        _check("extra_deliveries_per_delivery", ratio, policy["extra_deliveries_per_delivery_max"]),
    ]
    for measure, limit in policy["advantage_max"].items():
        rows = [r for r in found.get("leakage", []) if r["variant"] == variant and r["measure"] == measure]
        if not rows:  # nothing to attack (no attribute is asked for by equality): said, and no violation
            checks.append({"check": f"advantage.{measure}", "value": None, "limit": limit, "ok": True})
        checks += [_check(f"advantage.{measure}.{r['attribute']}".rstrip("."), r["advantage"], limit) for r in rows]
    return {"verdict": "pass" if all(c["ok"] for c in checks) else "fail", "checks": checks}


def _check(name: str, value: float, limit: float) -> dict[str, Any]:
    return {"check": name, "value": value, "limit": limit, "ok": bool(value <= limit)}
