"""The sweep: widths, hash counts, encodings and hardenings over one sample, each token hashed once.

TRUSTED side. One task an encoding: it tokenises messages and predicates once and derives the bits of every (m, k,
hardening) from the same digests. The grid is judged on one half of the sample; a plan is checked on the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from secroute import limits
from secroute.audit.attacks import included, top_values
from secroute.audit.bitstate import BitState, joint_counts, popcount_information
from secroute.audit.intervals import crossed_interval, spearman
from secroute.audit.keys import encoder, token_keys
from secroute.audit.leakage import WIDE_BITS, WIDE_HASHES, Sample, load_sample
from secroute.audit.vertical import VerticalTable
from secroute.content import Constraint, Op
from secroute.encoding.bloom import TokenBatch
from secroute.encoding.encoder import Encoder
from secroute.encoding.hardening import Hardening, apply_side
from secroute.encoding.profile import Profile
from secroute.encoding.schema import NumberIndex, Schema, TextIndex
from secroute.exact.table import ExactTable
from secroute.opaque import Words

GRID = (
    "encoding string, hardening string, bits int, hashes int, fill double, messages long, predicates long, "
    "filters long, pairs long, false long, missed long, fpr double, low double, high double, "
    "dependent double, popcount double, volume double, covering double, leakage double, profile string"
)
BITS = (192, 256, 384, 512, 768, 1024, 1536, 2048)
HASHES = (2, 3, 4, 6, 8)
SWEEP_MESSAGES, SWEEP_PREDICATES = 3_000, 1_000
SHOWN_MESSAGES, SHOWN_FILTERS, SHOWN_WORDS = 1_000, 300, 4
"""What the leakage columns are measured on: they only rank grid points; the leakage job measures in earnest."""


def encodings(profile: Profile) -> dict[str, Profile]:
    """The profile's encoding, and its neighbours: ranges off, implied tokens, finer covers, a finer schema."""
    bare = replace(profile, hardening=())
    plain = {n: i for n, i in profile.schema.attributes.items() if not isinstance(i, NumberIndex)}
    fine = Schema({name: _finer(index) for name, index in profile.schema.attributes.items()})
    found = {
        "as given": bare,
        "ranges off": replace(bare, schema=Schema(plain)),
        "implied existence": replace(bare, implied="existence"),
        "covers of 4": replace(bare, cover_disjuncts=4),
        "finer schema, covers of 8": replace(bare, schema=fine, cover_disjuncts=8),
    }
    return {name: p for i, (name, p) in enumerate(found.items()) if p not in list(found.values())[:i]}


def _finer(index: NumberIndex | TextIndex) -> NumberIndex | TextIndex:
    """Every level of a range, every length of a ladder up to its longest."""
    if isinstance(index, NumberIndex):
        return replace(index, step=1)
    most = limits.LADDER_STEPS_MAX
    fill = {
        name: tuple(range(1, max(ladder) + 1)) if ladder and max(ladder) <= most else ladder
        for name, ladder in (("prefixes", index.prefixes), ("suffixes", index.suffixes))
    }
    return replace(index, step=1, prefixes=fill["prefixes"], suffixes=fill["suffixes"])


def hardenings(bits: int, hashes: int) -> dict[str, tuple[Hardening, ...]]:
    """The hardenings tried at every width."""
    return {
        "none": (),
        "noise 50": (Hardening.of("noise", per_mille=50),),
        "pad 0.6": (Hardening.of("pad", popcount=int(bits * 0.6)),),
        "drop 300": (Hardening.of("drop", per_mille=300, minimum=max(2, hashes)),),
    }


@dataclass(frozen=True)
class Tokenised:
    """A sample under one encoding, as tokens that are hashed already, with the truth beside it."""

    encoding: str
    profile: Profile
    said: TokenBatch
    asked: TokenBatch
    owners: npt.NDArray[np.int64]
    probed: TokenBatch | None
    shares: npt.NDArray[np.float64]
    names: npt.NDArray[np.int64]
    truth: npt.NDArray[np.bool_]
    covering: npt.NDArray[np.bool_]
    """Which of the first filters cover which, by their tokens."""

    @classmethod
    def of(cls, here: Encoder, encoding: str, sample: Sample, half: int) -> Tokenised:
        """One half of the sample (0 or 1), tokenised."""
        part = slice(half * len(sample.messages) // 2, (half + 1) * len(sample.messages) // 2)
        messages = sample.messages[part][:SWEEP_MESSAGES]
        part = slice(half * len(sample.predicates) // 2, (half + 1) * len(sample.predicates) // 2)
        nodes = sample.predicates[part][:SWEEP_PREDICATES]
        asked, owners = here.tokenise_predicates(nodes, match_all=True)
        top = [(a, v, share) for a in sample.targets[:1] for v, share in top_values(messages, a)]
        probes = [Constraint(a, Op.EQ, v) for a, v, _ in top]
        exact = ExactTable.build(nodes, engine="pivot").match_predicates(messages)
        truth = np.zeros((len(messages), len(nodes)), bool)
        truth[exact.rows(), exact.values] = True
        return cls(
            encoding,
            here.profile,
            here.tokenise_messages(messages),
            asked,
            owners,
            here.tokenise_predicates(probes, match_all=True)[0] if probes else None,
            np.array([share for _, _, share in top]),
            np.array([len(m) for m in messages]),
            truth,
            _covering(asked.bits(WIDE_BITS, WIDE_HASHES)[:SHOWN_FILTERS]),
        )


def _covering(filters: Words) -> npt.NDArray[np.bool_]:
    edges = included(filters, filters)
    np.fill_diagonal(edges, False)
    return edges


def grid_point(
    sample: Tokenised, bits: int, hashes: int, label: str, chosen: tuple[Hardening, ...], key: bytes
) -> dict[str, Any]:
    """One point: its false positives with an interval over messages and predicates, and what it shows."""
    truth = sample.truth
    own = apply_side(chosen, "message", sample.said.bits(bits, hashes), key)
    hard = apply_side(chosen, "filter", sample.asked.bits(bits, hashes), key)
    found = VerticalTable(hard).match_filters(own)
    shown = np.zeros_like(truth)
    shown[found.rows_of_values(), sample.owners[found.values]] = True
    false = shown & ~truth
    trials = truth.size - int(truth.sum())
    low, high = crossed_interval(false.sum(axis=1).astype(float), false.sum(axis=0).astype(float), trials)
    leaks = _leaks(sample, own, hard, bits, hashes)
    return {
        "encoding": sample.encoding,
        "hardening": label,
        "bits": bits,
        "hashes": hashes,
        "fill": float(np.bitwise_count(own).sum() / (64 * own.size)),
        "messages": truth.shape[0],
        "predicates": truth.shape[1],
        "filters": len(hard),
        "pairs": trials,
        "false": int(false.sum()),
        "missed": int((truth & ~shown).sum()),
        "fpr": float(false.sum()) / max(1, trials),
        "low": low,
        "high": high,
        **leaks,
        "leakage": sum(leaks.values()) / len(leaks),
        "profile": replace(sample.profile, bits=bits, hashes=hashes, hardening=chosen).to_bytes().decode(),
    }


def _leaks(sample: Tokenised, own: Words, hard: Words, bits: int, hashes: int) -> dict[str, float]:
    """Four cheap measures, each from 0 (chance) to 1 (plain text): (4), (2), (9) and (8)."""
    # Hashing spreads tokens over all words alike, so pairs of bits of the first words stand for all pairs.
    state = BitState.of(own[:SHOWN_MESSAGES, :SHOWN_WORDS], sample.names[:SHOWN_MESSAGES])
    popcount = popcount_information(joint_counts(own[:SHOWN_MESSAGES], sample.names[:SHOWN_MESSAGES]))
    volume = 0.0
    if sample.probed is not None and len(sample.shares) > 2:
        seen = included(sample.probed.bits(bits, hashes), own).mean(axis=1)
        volume = max(0.0, spearman(seen.tolist(), sample.shares.tolist()))
    edges = _covering(hard[:SHOWN_FILTERS]) & sample.covering
    return {
        "dependent": state.dependence().value,
        "popcount": popcount.advantage,
        "volume": volume,
        "covering": float(edges.sum() / max(1, sample.covering.sum())),
    }


def sweep_job(
    key_path: str,
    messages: str,
    predicates: str,
    seed: int,
    grid: Sequence[tuple[int, int]],
    labels: Sequence[str] = (),
    half: int = 0,
) -> Any:
    """A ``mapInArrow`` function over (encoding, profile): its grid, with every hardening or those of ``labels``."""
    kinds = {"string": pa.string(), "double": pa.float64(), "long": pa.int64(), "int": pa.int32()}
    schema = pa.schema([(part.split()[0], kinds[part.split()[1]]) for part in GRID.split(", ")])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                profile = row["profile"].encode()
                key = token_keys(key_path, profile).hardening_key()
                sample = load_sample(messages, predicates, seed)
                here = Tokenised.of(encoder(key_path, profile), row["encoding"], sample, half)
                rows = [
                    grid_point(here, bits, hashes, label, chosen, key)
                    for bits, hashes in grid
                    for label, chosen in hardenings(bits, hashes).items()
                    if not labels or label in labels
                ]
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
