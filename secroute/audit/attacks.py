"""Attacks on encoded traffic by a router that knows the profile and how often values occur, but no key.

TRUSTED side, pure. Every attack returns its success beside chance and ceiling; the attacker is adaptive: he knows the
declared hardening and corrects for it. ``World`` holds what he sees, and apart from it the truth he is judged by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute.audit.bitstate import unpack
from secroute.audit.figures import Figure
from secroute.audit.intervals import wilson
from secroute.content import Value
from secroute.opaque import Words

Bools = npt.NDArray[np.bool_]
VALUES_ATTACKED = 32


@dataclass(frozen=True)
class World:
    """Messages on the wire, one probe filter a value (``attribute = value``), and what the attacker knows before."""

    attribute: str
    bits: Words
    truth: npt.NDArray[np.int64]
    """Which value each message has: a place in ``values``, or -1."""
    values: tuple[Value, ...]
    known: npt.NDArray[np.float64]
    """How often each value occurs, from other messages than these."""
    probes: Words
    hashes: int = 4
    """k of the profile, which is no secret."""

    def __len__(self) -> int:
        return len(self.bits)


def included(filters: Words, bits: Words) -> Bools:
    """``bool[f, n]``: which filters are in which messages."""
    out = np.ones((len(filters), len(bits)), bool)
    for word in range(bits.shape[1]):
        out &= (filters[:, word][:, None] & ~bits[:, word][None, :]) == 0
    return out


def top_values(
    known: Sequence[Mapping[str, Value]], attribute: str, most: int = VALUES_ATTACKED
) -> list[tuple[Value, float]]:
    """The most frequent values of an attribute with their shares, in an order that depends on nothing secret."""
    seen = Counter(m[attribute] for m in known if attribute in m)
    ranked = sorted(seen.items(), key=lambda item: (-item[1], str(item[0])))[:most]
    return [(value, count / max(1, len(known))) for value, count in ranked]


def _share(measure: str, hits: int, trials: int, chance: float, attribute: str, ceiling: float = 1.0) -> Figure:
    low, high = wilson(hits, trials)
    return Figure(measure, hits / max(1, trials), low, high, chance, ceiling, attribute, samples=trials)


def _by_rank(score: npt.NDArray[np.float64], known: npt.NDArray[np.float64], shuffle: npt.NDArray[np.int64]) -> int:
    """How many probes are named right if the i-th busiest is taken for the i-th most frequent value."""
    # The attacker sees probes in an order that says nothing; ties must not fall back to the order of values.
    seen = shuffle[np.argsort(-score[shuffle], kind="stable")]
    guess = np.argsort(-known, kind="stable")
    return int((seen == guess).sum())


def true_shares(world: World) -> npt.NDArray[np.float64]:
    """Each probe's match volume without its expected false positives.

    A value of share s sets its probe's bits in s of the messages; in the others each bit is set as often as the rest of
    its frequency tells. So the volume is ``s + (1 - s) * prod((q - s) / (1 - s))``, which is solved for s by halving.
    Frequencies are those on the wire, so declared noise and padding are corrected for, too.
    """
    volume = included(world.probes, world.bits).mean(axis=1)
    q = unpack(world.bits).mean(axis=0)
    out = np.zeros(len(volume))
    for at, row in enumerate(unpack(world.probes).astype(bool)):
        low, high = 0.0, float(volume[at])
        for _ in range(40):
            s = (low + high) / 2
            rest = float(np.prod(np.clip((q[row] - s) / max(1e-12, 1 - s), 0.0, 1.0)))
            low, high = (low, s) if s + (1 - s) * rest > volume[at] else (s, high)
        out[at] = (low + high) / 2
    return out


def rank_attack(world: World, seed: int) -> list[Figure]:
    """(5) Name each subscription by the rank of its match volume: as counted, and corrected for false positives."""
    n, count = len(world), len(world.values)
    shuffle = np.random.default_rng(seed).permutation(count)
    volume = included(world.probes, world.bits).mean(axis=1)
    plain = np.bincount(world.truth[world.truth >= 0], minlength=count) / max(1, n)
    # Where plain text itself ranks no better than chance, there is nothing to leak by rank.
    ceiling = max(1 / count, _by_rank(plain, world.known, shuffle) / count)
    return [
        _share(f"rank_{kind}", _by_rank(score, world.known, shuffle), count, 1 / count, world.attribute, ceiling)
        for kind, score in (("naive", volume), ("corrected", true_shares(world)))
    ]


def bit_groups(bits: Words, hashes: int, least: float = 0.3) -> tuple[Bools, npt.NDArray[np.float64]]:
    """Bits that look like one token: for each bit, the ``k - 1`` others most correlated with it. One row a set.

    Correlation and not mere co-occurrence: other tokens and declared noise set the same bits at random, which lowers
    both sides alike, so the attack adapts to any background without knowing it.
    """
    flags = unpack(bits).astype(np.float32)
    n = len(flags)
    q = flags.mean(axis=0)
    live = np.flatnonzero((q > 5 / n) & (q < 0.98))
    if len(live) < 2:
        return np.zeros((0, flags.shape[1]), bool), np.zeros(0)
    centred = (flags[:, live] - q[live]) / np.sqrt(q[live] * (1 - q[live]))
    phi = (centred.T @ centred) / n
    np.fill_diagonal(phi, 1.0)
    best = np.argsort(-phi, axis=1, kind="stable")[:, : max(2, hashes)]
    rows = np.zeros((len(live), flags.shape[1]), bool)
    strong = np.take_along_axis(phi, best, axis=1) >= least
    for at in range(len(live)):
        rows[at, live[best[at][strong[at]]]] = True
    sets = np.unique(rows[rows.sum(axis=1) >= 2], axis=0)
    return sets, np.array([flags[:, row].all(axis=1).mean() for row in sets])


def frequent_sets(bits: Words, hashes: int) -> Figure:
    """(4) Share of bits that belong to a set which occurs together more often than independent bits would."""
    sets, support = bit_groups(bits, hashes)
    flags = unpack(bits)
    q, n = flags.mean(axis=0), len(flags)
    null = np.array([q[row].prod() for row in sets])
    # Beyond five standard deviations of the null: mining looks at many sets.
    strong = support > null + 5 * np.sqrt(np.maximum(null, 1 / n) / n) if len(sets) else np.zeros(0, bool)
    inside, live = int(sets[strong].any(axis=0).sum()) if len(sets) else 0, int((q > 0).sum())
    return _share("bits_in_frequent_sets", inside, live, 0.0, "")


def pattern_attack(world: World) -> tuple[Figure, npt.NDArray[np.int64]]:
    """(6) Reconstruct tokens from co-occurring bits and name them by a known distribution (Christen et al.).

    Returns the figure and, for each message, the value the attacker reads from it (-1: he cannot say).
    """
    sets, support = bit_groups(world.bits, world.hashes)
    flags = unpack(world.bits).astype(bool)
    guesses = np.full(len(world), -1)
    hits, free = 0, np.ones(len(sets), bool)
    correct = np.zeros((len(sets), len(world.values)), bool)
    holds = [flags[:, row].all(axis=1) for row in sets]
    for v in range(len(world.values)):
        has = world.truth == v
        for s, rows in enumerate(holds):
            union = (rows | has).sum()
            correct[s, v] = union > 0 and (rows & has).sum() / union >= 0.8
    for v in np.argsort(-world.known, kind="stable"):
        tolerance = 3 * np.sqrt(max(world.known[v], 1 / len(world)) / len(world)) + 1e-9
        gap = np.where(free, np.abs(support - world.known[v]), np.inf)
        if not len(gap) or gap.min() > tolerance:
            continue
        # Several sets may fit equally well; the larger one says more.
        near = np.flatnonzero(gap <= gap.min() + tolerance / 10)
        best = int(near[np.argmax(sets[near].sum(axis=1))])
        free[best] = False
        hits += bool(correct[best, v])
        guesses[holds[best] & (guesses < 0)] = v
    chance = float(correct.mean()) if correct.size else 0.0
    figure = _share("pattern_mining", hits, len(world.values), max(chance, 1 / len(world.values)), world.attribute)
    return figure, guesses


def bayes(world: World, guesses: npt.NDArray[np.int64]) -> list[Figure]:
    """(7) Bayes vulnerability: one guess a message by a router alone, and its ratio to guessing the commonest value.

    Vulnerability is that of the best strategy, and to guess the commonest value is always one: an attack that misleads
    the attacker is not counted as protection below chance.
    """
    mode = int(np.argmax(world.known))
    blind = int((world.truth == mode).sum())
    said = np.where(guesses >= 0, guesses, mode)
    hits = max(blind, int((said == world.truth).sum()))
    figure = _share("bayes_vulnerability", hits, len(world), blind / len(world), world.attribute)
    return [figure, _multiplied("multiplicative_leakage", figure)]


def _multiplied(measure: str, figure: Figure) -> Figure:
    """Multiplicative leakage: how many times as often the guess is right as without looking."""
    scale = max(figure.chance, 1e-9)
    times = (figure.value / scale, figure.low / scale, figure.high / scale)
    return Figure(measure, *times, 1.0, 1 / scale, figure.attribute, "ratio", figure.samples)


def labelled_bayes(world: World) -> list[Figure]:
    """(7b) The same for a router helped by a member: half the messages come with their values, the rest is guessed."""
    flags = unpack(world.bits).astype(np.float64)
    half = len(world) // 2
    classes = world.truth[:half] + 1
    count = len(world.values) + 1
    sums = np.zeros((count, flags.shape[1]))
    np.add.at(sums, classes, flags[:half])
    sizes = np.bincount(classes, minlength=count).astype(np.float64)
    p = (sums + 0.5) / (sizes + 1.0)[:, None]
    score = flags[half:] @ (np.log(p) - np.log1p(-p)).T + np.log1p(-p).sum(axis=1) + np.log(sizes + 0.5)
    score[:, sizes == 0] = -np.inf
    test = world.truth[half:] + 1
    prior = float((test == int(np.argmax(sizes))).mean())
    hits = int((score.argmax(axis=1) == test).sum())
    figure = _share("bayes_with_member", hits, len(test), prior, world.attribute)
    return [figure, _multiplied("multiplicative_with_member", figure)]


def dictionary_attack(world: World) -> Figure:
    """(10) Whoever has the key tries every value of a dictionary and takes the likeliest that fits the message."""
    found = included(world.probes, world.bits)
    guess = np.where(found, world.known[:, None], -1.0).argmax(axis=0)
    known = world.truth >= 0
    right = known & (guess == world.truth)
    prior = float((world.truth[known] == int(np.argmax(world.known))).mean()) if known.any() else 0.0
    return _share("dictionary_with_key", int(right.sum()), int(known.sum()), prior, world.attribute)


def link_epochs(first: World, second: World, seed: int) -> Figure:
    """(11) Recognise subscriptions after a rotation by how much they match."""
    count = len(first.values)
    shuffle = np.random.default_rng(seed).permutation(count)
    before = included(first.probes, first.bits).mean(axis=1)
    after = included(second.probes, second.bits).mean(axis=1)
    plain = [np.bincount(w.truth[w.truth >= 0], minlength=count) / max(1, len(w)) for w in (first, second)]
    hits, most = _by_rank(after, before, shuffle), _by_rank(plain[1], plain[0], shuffle)
    return _share("linked_across_epochs", hits, count, 1 / count, first.attribute, max(1, most) / count)
