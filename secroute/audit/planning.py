"""The plan: which point of the sweep to recommend for a target, checked on the half of the sample it was not chosen on.

TRUSTED side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from secroute.audit import sweep
from secroute.encoding.profile import Profile
from secroute.errors import AuditError

CANDIDATES = 8
"""How many points are checked before the target is given up: choosing from many flatters the chosen."""


def candidates(rows: Sequence[dict[str, Any]], target_fpr: float, max_bits: int) -> list[dict[str, Any]]:
    """The points whose whole interval meets the target within the width: the least revealing, then narrowest first."""
    fitting = [r for r in rows if r["bits"] <= max_bits]
    if not fitting:
        raise AuditError(f"no grid point has at most {max_bits} bits; the narrowest is {min(r['bits'] for r in rows)}")
    good = [r for r in fitting if r["high"] <= target_fpr]
    if not good:
        best = min(fitting, key=lambda r: r["high"])
        raise AuditError(
            f"no profile of at most {max_bits} bits meets {target_fpr:.3%}; the best has {best['fpr']:.3%}, at most "
            f"{best['high']:.3%} (m = {best['bits']}, k = {best['hashes']}, {best['encoding']}, hardening "
            f"{best['hardening']}); allow more bits, or index the attributes that the costly predicates ask about"
        )
    return sorted(good, key=lambda r: (round(r["leakage"], 2), r["bits"], r["fpr"]))


def check(spark: Any, row: dict[str, Any], key_path: str, sample: tuple[str, str], seed: int) -> dict[str, Any]:
    """One grid point again, on the other half of the sample."""
    profile = replace(Profile.from_bytes(row["profile"].encode()), hardening=())
    frame = spark.createDataFrame([(row["encoding"], profile.to_bytes().decode())], "encoding string, profile string")
    job = sweep.sweep_job(key_path, *sample, seed, [(row["bits"], row["hashes"])], [row["hardening"]], half=1)
    return dict(frame.mapInArrow(job, sweep.GRID).first().asDict())


def recommend(
    spark: Any, rows: Sequence[dict[str, Any]], target: tuple[float, int], key_path: str, sample: tuple[str, str],
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """(the recommended point, the same on the other half); raises if no candidate keeps what it promised."""
    target_fpr, max_bits = target
    tried = candidates(rows, target_fpr, max_bits)[:CANDIDATES]
    for row in tried:
        again = check(spark, row, key_path, sample, seed)
        if again["high"] <= target_fpr:
            return row, again
    raise AuditError(
        f"{len(tried)} profiles met {target_fpr:.3%} on one half of the sample and none on the other; "
        "the corpus is too uneven for its sample, or the target too near to what can be had"
    )


def to_toml(profile: Profile) -> str:
    """A profile as the text of a profile file."""

    def value(item: Any) -> str:
        if isinstance(item, bool):
            return "true" if item else "false"
        if isinstance(item, list):
            return "[" + ", ".join(value(part) for part in item) + "]"
        return f'"{item}"' if isinstance(item, str) else str(item)

    table = profile.to_dict()
    lines = [f"{key} = {value(table[key])}" for key in ("version", "bits", "hashes", "implied", "cover_disjuncts")]
    for entry in table["hardening"]:
        lines += ["", "[[hardening]]", *(f"{key} = {value(item)}" for key, item in entry.items())]
    for name, index in table["attributes"].items():
        quoted = '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
        lines += ["", f"[attributes.{quoted}]", *(f"{key} = {value(item)}" for key, item in index.items())]
    return "\n".join(lines) + "\n"
