"""The leakage job: every measure and attack, for the profile as it is and for each hardening, in Spark.

TRUSTED side. One task a variant: it reads the sample of the run, encodes it under the run's key (read from the
worker-local file) and under a second one drawn from the seed (the next epoch), and reports figures.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from secroute.audit import attacks, structure
from secroute.audit.attacks import World
from secroute.audit.bitstate import BitState
from secroute.audit.figures import Figure
from secroute.audit.keys import encoder
from secroute.content import Constraint, Op, Value, parse
from secroute.content.predicate import constraints
from secroute.encoding.encoder import Encoder
from secroute.encoding.hardening import Hardening
from secroute.encoding.profile import Profile
from secroute.exact.table import ExactTable
from secroute.keyring import throwaway_token_keys

FIGURES = (
    "variant string, measure string, attribute string, value double, low double, high double, chance double, "
    "ceiling double, advantage double, unit string, samples long, seed long, corpus string"
)
WHOLE, LARGE = "whole corpus", "large sample"
"""The variants of figures that are measured on every message, or on as many as can be, with the profile as it is."""
WIDE_BITS, WIDE_HASHES = 8_192, 12
FILTERS_COMPARED = 1_000


@dataclass(frozen=True)
class Sample:
    """Messages and predicates that every variant is judged on."""

    messages: list[dict[str, Value]]
    predicates: list[Any]
    targets: tuple[str, ...]
    seed: int


def variants(profile: Profile) -> dict[str, Profile]:
    """The profile without hardening, with its own, and with each hardening alone and all together."""
    bare = replace(profile, hardening=())
    pad = Hardening.of("pad", popcount=max(1, int(profile.bits * 0.6)))
    noise = Hardening.of("noise", per_mille=50)
    drop = Hardening.of("drop", per_mille=300, minimum=min(256, max(2, profile.hashes)))
    found = {
        "none": bare,
        "pad": replace(bare, hardening=(pad,)),
        "noise": replace(bare, hardening=(noise,)),
        "drop": replace(bare, hardening=(drop,)),
        "all": replace(bare, hardening=(noise, pad, drop)),
    }
    if profile.hardening and profile not in found.values():
        found["as configured"] = profile
    return found


def configured(profile: Profile) -> str:
    """Which of the variants is the profile as it runs."""
    return next(name for name, variant in variants(profile).items() if variant == profile)


def choose_targets(predicates: Sequence[Any], messages: Sequence[dict[str, Value]], most: int = 3) -> tuple[str, ...]:
    """The attributes that subscriptions ask for by equality most often, with enough different values to guess at."""
    asked = Counter(c.name for node in predicates for c in constraints(node) if c.op is Op.EQ)
    distinct = {name: len({m[name] for m in messages if name in m}) for name in asked}
    return tuple(name for name, _ in asked.most_common() if distinct[name] >= 3)[:most]


def make_world(here: Encoder, sample: Sample, attribute: str, seed: bytes) -> World:
    """What the router sees of one attribute; the first half of the sample is what the attacker knew before."""
    half = len(sample.messages) // 2
    before, now = sample.messages[:half], sample.messages[half:]
    top = attacks.top_values(before, attribute)
    places = {(type(value), value): place for place, (value, _) in enumerate(top)}
    truth = np.array([places.get((type(m.get(attribute)), m.get(attribute)), -1) for m in now], np.int64)  # type: ignore[arg-type]
    nodes = [Constraint(attribute, Op.EQ, value) for value, _ in top]
    probes, owners = here.encode_predicates(nodes, match_all=True)
    return World(
        attribute,
        here.encode_messages(now, seed),
        truth,
        tuple(value for value, _ in top),
        np.array([share for _, share in top]),
        probes[np.argsort(owners, kind="stable")],
        here.profile.hashes,
    )


def attack_all(here: Encoder, other: Encoder, sample: Sample, attribute: str) -> list[Figure]:
    """Measures (5) to (7), (10) and (11) for one attribute."""
    own = hashlib.blake2b(f"{sample.seed}/{attribute}".encode(), digest_size=32).digest()
    world = make_world(here, sample, attribute, own)
    if len(world.values) < 2:
        return []
    moved = make_world(other, replace(sample, messages=sample.messages[::-1]), attribute, own[::-1])
    same = moved.values == world.values
    pattern, guesses = attacks.pattern_attack(world)
    figures = [*attacks.rank_attack(world, sample.seed), pattern, *attacks.bayes(world, guesses)]
    figures += [*attacks.labelled_bayes(world), attacks.dictionary_attack(world)]
    if not same:  # the other epoch's sample ranks values otherwise: probe the same values there
        nodes = [Constraint(attribute, Op.EQ, value) for value in world.values]
        probes, owners = other.encode_predicates(nodes, match_all=True)
        places = {(type(v), v): i for i, v in enumerate(world.values)}
        half = sample.messages[::-1][len(sample.messages) // 2 :]
        truth = np.array([places.get((type(m.get(attribute)), m.get(attribute)), -1) for m in half], np.int64)  # type: ignore[arg-type]
        moved = replace(moved, values=world.values, probes=probes[np.argsort(owners, kind="stable")], truth=truth)
    return [*figures, attacks.link_epochs(world, moved, sample.seed)]


def measure(here: Encoder, other: Encoder, sample: Sample) -> list[Figure]:
    """All measures of one variant."""
    own = hashlib.blake2b(f"{sample.seed}/all".encode(), digest_size=32).digest()
    bits = here.encode_messages(sample.messages, own)
    names = np.array([len(m) for m in sample.messages])
    plain = [json.dumps(m, sort_keys=True) for m in sample.messages]
    state = BitState.of(bits, names)
    figures = [*structure.equality(bits, plain), state.popcount(), *state.skew(), state.dependence()]
    figures.append(attacks.frequent_sets(bits, here.profile.hashes))
    figures += _filters(here, sample, bits)
    for attribute in sample.targets:
        figures += attack_all(here, other, sample, attribute)
    return figures


def measure_corpus(encoded: Any, state: BitState) -> dict[str, list[Figure]]:
    """Measures (1) to (4) over all encoded messages, from mergeable states: classes in Spark, merged bit counts.

    By variant, because the state of the bits may be that of a sample, and then must not be called the whole.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

    def classes(column: str) -> tuple[int, int, float]:
        row = (
            encoded.groupBy(column)
            .count()
            .agg(F.count("*"), F.max("count"), F.sum("count"), F.sum(F.col("count").cast("double") ** 2))
            .first()
        )
        return int(row[0]), int(row[1]), float((row[3] - row[2]) / max(1.0, float(row[2]) * (row[2] - 1)))

    n = encoded.count()
    equal = structure.equality_figures(n, classes("bits"), classes("attributes"))
    found = {WHOLE: equal, LARGE: []}
    found[WHOLE if state.n == n else LARGE] += [state.popcount(), *state.skew(), state.dependence()]
    return found


def _filters(here: Encoder, sample: Sample, bits: Any) -> list[Figure]:
    """Measures (8) and (9): the first disjunct of each predicate of the sample."""
    nodes = sample.predicates[:FILTERS_COMPARED]
    filters, owners = here.encode_predicates(nodes, match_all=True)
    batch, wide_owners = here.tokenise_predicates(nodes, match_all=True)
    wide = batch.bits(WIDE_BITS, WIDE_HASHES)
    first, rows = np.unique(owners, return_index=True)
    wide_first, wide_rows = np.unique(wide_owners, return_index=True)
    single = first[(np.bincount(owners, minlength=len(nodes)) == 1)[first]]
    single = single[(np.bincount(wide_owners, minlength=len(nodes)) == 1)[single]]
    rows, wide_rows = rows[np.searchsorted(first, single)], wide_rows[np.searchsorted(wide_first, single)]
    if len(single) < 2:
        return []
    shown = min(2_000, len(bits))
    asked = ExactTable.build([nodes[p] for p in single[:200]], engine="pivot")
    exact = np.bincount(asked.match_predicates(sample.messages[:shown]).values, minlength=len(asked))
    return [
        *structure.covering(filters[rows], wide[wide_rows]),
        *structure.volumes(filters[rows[:200]], bits[:shown], exact),
    ]


def load_sample(messages: str, predicates: str, seed: int) -> Sample:
    """The sample that the run wrote."""
    attributes = [
        json.loads(text) for text in pq.read_table(messages, columns=["attributes"])["attributes"].to_pylist()
    ]
    nodes = [parse(text) for text in pq.read_table(predicates, columns=["predicate"])["predicate"].to_pylist()]
    return Sample(attributes, nodes, choose_targets(nodes, attributes), seed)


def numbered_encoder(profile: Profile, seed: int, *number: int) -> Encoder:
    """An encoder under a key that the seed and a number tell: for measuring only, the same for every variant."""
    source = np.random.default_rng([abs(seed), *number])
    return Encoder(profile, throwaway_token_keys(profile, random_bytes=source.bytes))


def leakage_job(key_path: str, messages: str, predicates: str, seed: int, corpus: str) -> Any:
    """A ``mapInArrow`` function over (variant, profile): the figures of each variant."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                sample = load_sample(messages, predicates, seed)
                here = encoder(key_path, row["profile"].encode())
                other = numbered_encoder(here.profile, seed, 0)
                figures = measure(here, other, sample)
                yield pa.RecordBatch.from_pylist(as_rows(figures, row["variant"], seed, corpus), schema(FIGURES))

    return run


def as_rows(figures: Sequence[Figure], variant: str, seed: int, corpus: str) -> list[dict[str, Any]]:
    """Figures as rows of the table, each with its seed and the digest of its corpus."""
    rows = [f.row(variant=variant, seed=seed, corpus=corpus) for f in figures]
    return [{part.split()[0]: row[part.split()[0]] for part in FIGURES.split(", ")} for row in rows]


def schema(columns: str) -> pa.Schema:
    """Spark's text for a table's columns, as Arrow's schema."""
    kinds = {"string": pa.string(), "double": pa.float64(), "long": pa.int64()}
    return pa.schema([(name, kinds[kind]) for name, kind in (part.split() for part in columns.split(", "))])


def run_leakage(spark: Any, profile: Profile, key_path: str, sample: tuple[str, str], seed: int, corpus: str) -> Any:
    """A DataFrame of figures, one task a variant."""
    rows = [(name, p.to_bytes().decode()) for name, p in variants(profile).items()]
    frame = spark.createDataFrame(rows, "variant string, profile string").repartition(len(rows))
    return frame.mapInArrow(leakage_job(key_path, *sample, seed, corpus), FIGURES)
