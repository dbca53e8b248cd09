"""Static evaluation of a scheme: messages walk over finished tables, and every hop is compared with the ideal tree.

UNTRUSTED side, pure. Nothing is lost or late here; what is measured is the scheme itself: deliveries, wasted hops and
memory. The traffic is synthetic, of random tokens with random bits; a Bloom false positive counts as a match.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from secroute.opaque import Words
from secroute.overlay.paths import Trees, path
from secroute.overlay.predicates import Hits, Predicates
from secroute.overlay.schemes import Scheme


@dataclass(frozen=True, slots=True)
class Traffic:
    """Receivers' filters per router, and messages with the router where each enters."""

    predicates: list[Words]
    messages: Words
    sources: list[int]


@dataclass(slots=True)
class Tally:
    """Sums over all messages."""

    deliveries: int = 0
    false_negatives: int = 0
    duplicates: int = 0
    """Arrivals of a message at a router that has had it."""
    hops: int = 0
    ideal_hops: int = 0
    false_positive_hops: int = 0
    """Hops over edges that are not on the way to any interested router."""


def synthetic(
    routers: int, receivers: int, messages: int, *, seed: int, bits: int = 192, vocabulary: int = 400
) -> Traffic:
    """Filters of 1-3 tokens and messages of 10, tokens drawn by Zipf's law, each token 4 random bits."""
    rng = np.random.default_rng(seed)
    tokens = np.zeros((vocabulary, bits // 64), np.uint64)
    for row, places in zip(tokens, rng.integers(0, bits, (vocabulary, 4)), strict=True):
        for place in places:
            row[place // 64] |= np.uint64(1) << np.uint64(place % 64)
    weights = 1.0 / np.arange(1, vocabulary + 1)
    weights /= weights.sum()

    def draw(count: int) -> Words:
        chosen = rng.choice(vocabulary, count, replace=False, p=weights)
        return np.asarray(np.bitwise_or.reduce(tokens[chosen], axis=0), np.uint64)

    homes = rng.integers(0, routers, receivers)
    filters = [draw(int(rng.integers(1, 4))) for _ in range(receivers)]
    empty = np.zeros((0, bits // 64), np.uint64)
    predicates = [
        np.array([f for f, home in zip(filters, homes, strict=True) if home == u]).reshape(-1, bits // 64)
        if (homes == u).any()
        else empty
        for u in range(routers)
    ]
    sent = np.array([draw(10) for _ in range(messages)], np.uint64).reshape(-1, bits // 64)
    return Traffic(predicates, sent, [int(v) for v in rng.integers(0, routers, messages)])


def carry(scheme: Scheme, source: int, hits: Hits, *, hops_max: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Walk one message to its end: the routers it arrived at (in order, repeats included) and the edges it took."""
    arrived, edges = [source], []
    pending = [(source, scheme.init(source, hits))]
    while pending:
        node, header = pending.pop()
        out = scheme.header(node, header)
        for hop in scheme.forward(node, header, hits):
            arrived.append(hop)
            edges.append((node, hop))
            pending.append((hop, out))
        if len(edges) > hops_max:  # a loop: the tally shows it as duplicates
            break
    return arrived, edges


def evaluate(scheme: Scheme, trees: Trees, predicates: Predicates, messages: Words, sources: Sequence[int]) -> Tally:
    """Send all messages and compare each with the union of the paths to its interested routers."""
    tally = Tally()
    everything = predicates.hits(messages)
    hops_max = 4 * len(trees.graph)
    for source, hits in zip(sources, everything, strict=True):
        wanted = predicates.receivers(hits)
        arrived, edges = carry(scheme, source, hits, hops_max=hops_max)
        ideal: set[tuple[int, int]] = set()
        for target in range(len(trees.graph)):
            if wanted >> target & 1:
                way = path(trees, source, target)
                ideal.update(pairwise(way))
                tally.deliveries += target in arrived
                tally.false_negatives += bool(way) and target not in arrived
        tally.duplicates += len(arrived) - len(set(arrived))
        tally.hops += len(edges)
        tally.ideal_hops += len(ideal)
        tally.false_positive_hops += sum(edge not in ideal for edge in edges)
    return tally
