"""Encoded workloads for ``secroute bench match``: filters and messages with known statistics, made from seeds.

Tokens are numbers, and their bits come from a seeded mix instead of a keyed hash: the engine sees bits alone, and only
how often tokens are shared matters to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from secroute.engine.dedupe import store_once
from secroute.errors import InputError
from secroute.opaque import Words

TAG_WORKLOADS = ("uniform", "zipf")
VOCABULARY = 100_000
TAG_HASHES = 7
FILTER_TAGS = (3, 5)
MESSAGE_TAGS = (5, 10)
TAG_INTERFACES = 64

PAPER_NAMES = 1_000
PAPER_WORDS = 1_000
PAPER_INTS = 100
PAPER_HASHES = 4
PAPER_INTERFACES = 20
_SLOTS_A_NAME = 1 << 20  # token numbers of one attribute name

Rng = np.random.Generator
Tokens = npt.NDArray[np.int64]
Draw = Callable[[tuple[int, int]], Tokens]


@dataclass(frozen=True, slots=True)
class Workload:
    """Filters with their interfaces, and messages to match."""

    filters: Words
    interfaces: npt.NDArray[np.int64]
    messages: Words

    def one_filter_per_interface(self) -> Workload:
        """The same filters, each on an interface of its own."""
        return replace(self, interfaces=np.arange(len(self.filters)))


def tag_workload(kind: str, count: int, bits: int, messages: int, seed: int) -> Workload:
    """3-5 tags a filter out of 100 000, all filters distinct; a message is a filter's tags and more, 5-10 in all."""
    rng = np.random.default_rng(seed)
    draw = _tag_source(kind, rng)
    tags, filters = _distinct_filters(count, bits, draw, rng, seed)
    chosen = rng.integers(0, count, messages)
    own = tags[chosen]
    size = np.maximum(rng.integers(MESSAGE_TAGS[0], MESSAGE_TAGS[1] + 1, messages), (own >= 0).sum(axis=1))
    extra = draw((messages, MESSAGE_TAGS[1]))
    extra[np.arange(MESSAGE_TAGS[1]) >= (size - (own >= 0).sum(axis=1))[:, None]] = -1
    text = token_bits(np.concatenate([own, extra], axis=1), bits, TAG_HASHES, seed)
    return Workload(filters, rng.integers(0, TAG_INTERFACES, count), text)


def _tag_source(kind: str, rng: Rng) -> Draw:
    if kind == "uniform":
        return lambda shape: rng.integers(0, VOCABULARY, shape)
    weights = 1.0 / np.arange(1, VOCABULARY + 1)
    cumulative = np.cumsum(weights / weights.sum())
    return lambda shape: np.minimum(np.searchsorted(cumulative, rng.random(shape)), VOCABULARY - 1)


def _distinct_filters(count: int, bits: int, draw: Draw, rng: Rng, seed: int) -> tuple[Tokens, Words]:
    """Draw filters until ``count`` of them differ in their bits."""
    tags = np.zeros((0, FILTER_TAGS[1]), np.int64)
    filters = np.zeros((0, bits // 64), np.uint64)
    while len(filters) < count:
        more = draw((count - len(filters) + count // 8 + 64, FILTER_TAGS[1]))
        sizes = rng.integers(FILTER_TAGS[0], FILTER_TAGS[1] + 1, len(more))
        more[np.arange(FILTER_TAGS[1]) >= sizes[:, None]] = -1
        tags = np.concatenate([tags, more])
        filters = np.concatenate([filters, token_bits(more, bits, TAG_HASHES, seed)])
        keep, _ = store_once(filters, np.zeros(len(filters), np.int32))
        tags, filters = tags[keep], filters[keep]
    return tags[:count], np.ascontiguousarray(filters[:count])


def paper_workload(count: int, bits: int, fill: float, messages: int, seed: int) -> Workload:
    """The SIGCOMM workload as the default profile encodes it: wide and sparse filters, messages ``fill`` full."""
    if not 0 < fill < 1:
        raise InputError(f"fill must lie between 0 and 1, not {fill}")
    rng = np.random.default_rng(seed)
    filters = np.zeros((0, bits // 64), np.uint64)
    while len(filters) < count:
        more = token_bits(_paper_filters(count - len(filters) + 64, rng), bits, PAPER_HASHES, seed)
        filters = np.concatenate([filters, more])
        filters = filters[store_once(filters, np.zeros(len(filters), np.int32))[0]]
    filters = np.ascontiguousarray(filters[:count])
    interfaces = rng.integers(0, PAPER_INTERFACES, count)
    tokens = _paper_messages(messages, rng)
    wanted = int(np.log1p(-fill) / np.log1p(-1 / bits) / PAPER_HASHES)  # tokens of a message that is so full
    present = (tokens >= 0).sum(axis=1)
    padding = rng.integers(PAPER_NAMES * _SLOTS_A_NAME, 2**40, (messages, wanted))
    padding[np.arange(wanted) >= (wanted - present)[:, None]] = -1
    text = token_bits(np.concatenate([tokens, padding], axis=1), bits, PAPER_HASHES, seed)
    return Workload(filters, interfaces, text)


def _zipf_names(shape: tuple[int, int], rng: Rng) -> Tokens:
    weights = 1.0 / np.arange(1, PAPER_NAMES + 1)
    cumulative = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(cumulative, rng.random(shape)), PAPER_NAMES - 1)


def _paper_filters(count: int, rng: Rng) -> Tokens:
    """1-9 constraints; ints 60 % =, 40 % ranges; strings 35 % =, 45 % prefix, suffix, substring, 20 % ranges."""
    shape = (count, 9)
    names = _zipf_names(shape, rng)
    is_int = names % 2 == 0
    kind = rng.random(shape)
    value = np.where(is_int, rng.integers(0, PAPER_INTS, shape), rng.integers(0, PAPER_WORDS, shape))
    base = names * _SLOTS_A_NAME
    level = rng.integers(4, 7, shape)  # a one-sided range needs a coarse node
    ranges = base + _node(value, level)
    first = np.where(is_int, np.where(kind < 0.6, base + value, ranges), base + value)
    step = rng.integers(1, 4, shape)
    first = np.where(~is_int & (kind >= 0.35) & (kind < 0.5), base + _ladder(value, step, 3), first)
    first = np.where(~is_int & (kind >= 0.5) & (kind < 0.65), base + _ladder(_reverse(value), step, 4), first)
    grams = ~is_int & (kind >= 0.65) & (kind < 0.8)
    first = np.where(grams, base + _gram(value, 0), first)
    first = np.where(~is_int & (kind >= 0.8), ranges, first)
    exists = base + 5 * 4096
    second = np.where(grams, base + _gram(value, 1), exists)
    unused = np.arange(9) >= rng.integers(1, 10, count)[:, None]
    tokens = np.stack([first, second], axis=2)
    tokens[unused] = -1
    return tokens.reshape(count, 18)


def _paper_messages(count: int, rng: Rng) -> Tokens:
    """1-18 attributes with every index of the schema: value, existence, nodes, prefixes, suffixes, q-grams."""
    shape = (count, 18)
    names = _zipf_names(shape, rng)
    is_int = (names % 2 == 0)[:, :, None]
    value = np.where(names % 2 == 0, rng.integers(0, PAPER_INTS, shape), rng.integers(0, PAPER_WORDS, shape))
    nodes = np.stack([_node(value, np.full(shape, level)) for level in range(7)], axis=2)
    ladders = [_ladder(way, np.full(shape, step), slot) for way, slot in ((value, 3), (_reverse(value), 4))
               for step in (1, 2, 3)]  # fmt: skip
    text = np.stack([*ladders, *(_gram(value, place) for place in range(6))], axis=2)
    tokens = np.concatenate([value[:, :, None], np.full((*shape, 1), 5 * 4096), nodes, text], axis=2)
    tokens = tokens + (names * _SLOTS_A_NAME)[:, :, None]
    tokens[:, :, 9:][np.broadcast_to(is_int, (*shape, 12))] = -1
    tokens[np.arange(18) >= rng.integers(1, 19, count)[:, None]] = -1
    return tokens.reshape(count, -1)


def _node(value: Tokens, level: Tokens) -> Tokens:
    return 4096 + level * 4096 * 16 + (value >> level)


def _ladder(value: Tokens, step: Tokens, slot: int) -> Tokens:
    return slot * 131_072 + step * 4096 + value // 10 ** (3 - step)


def _reverse(value: Tokens) -> Tokens:
    return (value * 387 + 11) % PAPER_WORDS


def _gram(value: Tokens, place: int) -> Tokens:
    return 900_000 + (value * 7_919 + place * 104_729) % 3_000


def token_bits(tokens: Tokens, bits: int, hashes: int, seed: int) -> Words:
    """The Bloom filters of rows of tokens (-1: no token), ``uint64[n, bits / 64]``."""
    if bits % 64 or not 64 <= bits <= 8192:
        raise InputError(f"bits must be a multiple of 64 from 64 to 8192, not {bits}")
    words = np.zeros((len(tokens), bits // 64), np.uint64)
    rows = np.arange(len(tokens))
    for column in range(tokens.shape[1]):
        token = tokens[:, column].astype(np.uint64)
        used = tokens[:, column] >= 0
        for index in range(hashes):
            position = (_mix(token * np.uint64(16) + np.uint64(index), seed) >> np.uint64(32)) * np.uint64(bits)
            position >>= np.uint64(32)
            bit = np.where(used, np.uint64(1) << (position & np.uint64(63)), np.uint64(0))
            words[rows, (position >> np.uint64(6)).astype(np.int64)] |= bit
    return words


def _mix(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """A 64-bit finaliser: equal numbers, equal hashes; everything else looks random."""
    mixed = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
