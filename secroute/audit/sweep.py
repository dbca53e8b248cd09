"""The sweep: widths, hash counts, encodings and hardenings over one sample, each token hashed once; and the plan.

TRUSTED side. One task an encoding: it tokenises messages and predicates once and derives the bits of every (m, k,
hardening) from the same digests. The plan reads the grid: the least revealing profile within a target and a width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from secroute.audit.attacks import included, top_values
from secroute.audit.bitstate import BitState, unpack
from secroute.audit.intervals import ratio_interval, spearman
from secroute.audit.keys import encoder, token_keys
from secroute.audit.leakage import Sample, load_sample
from secroute.content import Constraint, Op
from secroute.encoding.encoder import Encoder
from secroute.encoding.hardening import Hardening, apply_side
from secroute.encoding.profile import Profile
from secroute.encoding.schema import NumberIndex, Schema
from secroute.engine.table import ForwardingTable
from secroute.errors import AuditError
from secroute.exact.table import ExactTable

GRID = (
    "encoding string, hardening string, bits int, hashes int, fill double, pairs long, false long, missed long, "
    "fpr double, low double, high double, dependent double, volume double, leakage double, profile string"
)
BITS = (192, 256, 384, 512, 768, 1024, 1536, 2048)
HASHES = (2, 3, 4, 6, 8)
SWEEP_MESSAGES, SWEEP_PREDICATES = 3_000, 1_000


def encodings(profile: Profile) -> dict[str, Profile]:
    """The profile's encoding, and its neighbours: ranges off, implied tokens, finer covers."""
    bare = replace(profile, hardening=())
    plain = {n: i for n, i in profile.schema.attributes.items() if not isinstance(i, NumberIndex)}
    found = {
        "as given": bare,
        "ranges off": replace(bare, schema=Schema(plain)),
        "implied existence": replace(bare, implied="existence"),
        "covers of 4": replace(bare, cover_disjuncts=4),
    }
    return {name: p for i, (name, p) in enumerate(found.items()) if p not in list(found.values())[:i]}


def hardenings(bits: int) -> dict[str, tuple[Hardening, ...]]:
    """The hardenings tried at every width."""
    return {
        "none": (),
        "noise 50": (Hardening.of("noise", per_mille=50),),
        "pad 0.6": (Hardening.of("pad", popcount=int(bits * 0.6)),),
    }


def sweep_one(
    here: Encoder, hardening_key: bytes, name: str, sample: Sample, grid: Sequence[tuple[int, int]]
) -> list[dict[str, Any]]:
    """All grid points of one encoding."""
    messages, nodes = sample.messages[:SWEEP_MESSAGES], sample.predicates[:SWEEP_PREDICATES]
    said = here.tokenise_messages(messages)
    asked, owners = here.tokenise_predicates(nodes, match_all=True)
    probes = [Constraint(a, Op.EQ, v) for a in sample.targets[:1] for v, _ in top_values(messages, a)]
    probed, _ = here.tokenise_predicates(probes, match_all=True) if probes else (None, None)
    shares = np.array([s for a in sample.targets[:1] for _, s in top_values(messages, a)])
    exact = ExactTable.build(nodes, engine="pivot").match_predicates(messages)
    truth = np.zeros((len(messages), len(nodes)), bool)
    truth[exact.rows(), exact.values] = True
    rows = []
    for bits, hashes in grid:
        plain, filters = said.bits(bits, hashes), asked.bits(bits, hashes)
        for label, chosen in hardenings(bits).items():
            own = apply_side(chosen, "message", plain, hardening_key)
            hard = apply_side(chosen, "filter", filters, hardening_key)
            table = ForwardingTable.build(hard, np.zeros(len(hard), np.int64), engine="scan", rounds=0, match_all=True)
            found = table.match_filters(own)
            shown = np.zeros_like(truth)
            shown[found.rows_of_values(), owners[found.values]] = True
            false = (shown & ~truth).sum(axis=1).astype(np.float64)
            trials = (truth.size - int(truth.sum())) / len(messages)
            low, high = ratio_interval(len(messages), float(false.sum()), float((false**2).sum()), trials)
            dependent = BitState.of(own, np.zeros(len(own), np.int64)).dependence().value
            seen = included(probed.bits(bits, hashes), own).mean(axis=1) if probed is not None else np.zeros(0)
            volume = max(0.0, spearman(seen.tolist(), shares.tolist())) if len(seen) > 2 else 0.0
            profile = replace(here.profile, bits=bits, hashes=hashes, hardening=chosen)
            pairs = len(messages) * len(nodes) - int(truth.sum())
            rows.append(
                {
                    "encoding": name, "hardening": label, "bits": bits, "hashes": hashes,
                    "fill": float(unpack(own).mean()), "pairs": pairs, "false": int(false.sum()),
                    "missed": int((truth & ~shown).sum()), "fpr": float(false.sum()) / max(1, pairs), "low": low,
                    "high": high, "dependent": dependent, "volume": volume, "leakage": (dependent + volume) / 2,
                    "profile": profile.to_bytes().decode(),
                }
            )  # fmt: skip
    return rows


def sweep_job(key_path: str, messages: str, predicates: str, seed: int, grid: Sequence[tuple[int, int]]) -> Any:
    """A ``mapInArrow`` function over (encoding, profile): its grid."""
    kinds = {"string": pa.string(), "double": pa.float64(), "long": pa.int64(), "int": pa.int32()}
    schema = pa.schema([(part.split()[0], kinds[part.split()[1]]) for part in GRID.split(", ")])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                sample = load_sample(messages, predicates, seed)
                profile = row["profile"].encode()
                key = token_keys(key_path, profile).hardening_key()
                rows = sweep_one(encoder(key_path, profile), key, row["encoding"], sample, grid)
                yield pa.RecordBatch.from_pylist(rows, schema)

    return run


def run_sweep(
    spark: Any,
    profile: Profile,
    key_path: str,
    sample: tuple[str, str],
    seed: int,
    grid: Sequence[tuple[int, int]] = (),
) -> Any:
    """A DataFrame of grid points."""
    points = list(grid) or [(m, k) for m in BITS for k in HASHES]
    # Every encoding is cut into parts of the grid, so that all cores have work; each part hashes its tokens once.
    parts = [(name, p.to_bytes().decode()) for name, p in encodings(profile).items()]
    frame = spark.createDataFrame(parts, "encoding string, profile string").repartition(len(parts))
    return frame.mapInArrow(sweep_job(key_path, *sample, seed, points), GRID)


def pareto(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Grid points that no other point beats in bits, false positives and leakage at once."""
    keys = ("bits", "fpr", "leakage")
    front = []
    for row in rows:
        better = any(
            all(o[k] <= row[k] for k in keys) and any(o[k] < row[k] for k in keys) for o in rows if o is not row
        )
        if not better:
            front.append(row)
    return sorted(front, key=lambda r: (r["bits"], r["fpr"]))


def recommend(rows: Sequence[dict[str, Any]], target_fpr: float, max_bits: int) -> dict[str, Any]:
    """The least revealing, then narrowest point whose whole interval meets the target within the width."""
    fitting = [r for r in rows if r["bits"] <= max_bits]
    if not fitting:
        raise AuditError(f"no grid point has at most {max_bits} bits; the narrowest is {min(r['bits'] for r in rows)}")
    good = [r for r in fitting if r["high"] <= target_fpr]
    if not good:
        best = min(fitting, key=lambda r: r["high"])
        raise AuditError(
            f"no profile of at most {max_bits} bits meets {target_fpr:.3%}; the best has {best['fpr']:.3%} "
            f"(m = {best['bits']}, k = {best['hashes']}, {best['encoding']}, hardening {best['hardening']}); "
            "allow more bits, or index the attributes that the costly predicates ask about"
        )
    return min(good, key=lambda r: (round(r["leakage"], 2), r["bits"], r["fpr"]))


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
