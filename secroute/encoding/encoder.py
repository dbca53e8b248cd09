"""The encoder: messages and predicates of one (space, epoch) become opaque bits, batch first.

TRUSTED, pure. Work is done once for every distinct value of a batch, not once a message: each distinct value's tokens
are found and each distinct token is hashed a single time, then rows are OR-ed together column-wise.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.content.dnf import disjuncts
from secroute.content.model import Message, Value
from secroute.content.predicate import Node
from secroute.encoding import tokens
from secroute.encoding.bloom import TokenBatch, as_digests, digest_tokens, or_groups
from secroute.encoding.coarsen import coarsen
from secroute.encoding.hardening import apply_side
from secroute.encoding.plan import NamedToken, Plan, closure, plan
from secroute.encoding.profile import Profile
from secroute.encoding.schema import NumberIndex, TextIndex
from secroute.encoding.tdag import Tdag
from secroute.encoding.values import Attributes, Rows, ValueTable, as_rows
from secroute.errors import EmptyFilterError, HardeningError
from secroute.opaque import EncodedFilters, Scope, Words

SEED_BYTES = 32


class CoarsenedPredicateWarning(UserWarning):
    """A predicate had more alternatives than the wire takes; its encoded form is wider than what was asked."""


class TokenKeys(Protocol):
    """What the encoder needs of an epoch's keys."""

    @property
    def scope(self) -> Scope:
        """The space, epoch and profile digest these keys belong to."""

    def token_key(self, name: str) -> bytes:
        """The 32-byte key under which the tokens of one attribute are hashed."""

    def hardening_key(self) -> bytes:
        """The 32-byte key of the PRF that drops filter bits."""


class _TokenTable:
    """Distinct tokens of a batch, hashed once each, attribute by attribute."""

    def __init__(self, keys: TokenKeys) -> None:
        self._keys = keys
        self._digests: list[bytes] = []
        self.count = 0

    def add(self, name: str, distinct: Sequence[bytes]) -> int:
        """Hash tokens of one attribute; returns the id of the first, the others follow."""
        first = self.count
        self._digests.append(digest_tokens(self._keys.token_key(name), distinct))
        self.count += len(distinct)
        return first

    def batch(self, members: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], records: Rows) -> TokenBatch:
        """As a TokenBatch: ``members[i]`` is a token of group ``groups[i]``, a record is a list of groups."""
        order = np.argsort(groups, kind="stable")
        flat, offsets = records
        group_count = int(max(groups.max(initial=-1), flat.max(initial=-1))) + 1
        return TokenBatch(
            digests=as_digests(b"".join(self._digests)),
            group_tokens=members[order],
            group_offsets=np.searchsorted(groups[order], np.arange(group_count + 1)).astype(np.int64),
            record_groups=flat,
            record_offsets=offsets,
        )


class _Found:
    """Which tokens which values have, gathered piece by piece."""

    def __init__(self) -> None:
        self.members = [np.zeros(0, np.int64)]
        self.groups = [np.zeros(0, np.int64)]

    def add(self, tokens_of: npt.NDArray[np.int64], values: npt.NDArray[np.int64]) -> None:
        """Token ``tokens_of[i]`` is said by value ``values[i]``."""
        self.members.append(tokens_of)
        self.groups.append(values)


class Encoder:
    """Encodes for one epoch of one space."""

    def __init__(self, profile: Profile, keys: TokenKeys) -> None:
        keys.scope.require(Scope(keys.scope.space, keys.scope.epoch, profile.digest))
        self.profile = profile
        self.scope = keys.scope
        self._keys = keys
        self._lock = threading.Lock()
        self._known = ValueTable(profile.words)
        self._randomised = any(h.transform.side == "message" for h in profile.hardening)

    def __repr__(self) -> str:
        return f"<Encoder space={self.scope.space.hex()[:8]} epoch={self.scope.epoch}>"

    # --- messages ---

    def encode_messages(self, messages: Sequence[Message | Attributes], seed: bytes = b"") -> Words:
        """``uint64[n, W]``. ``seed``: 32 fresh random bytes, needed if the profile adds noise or padding."""
        if self._randomised and len(seed) != SEED_BYTES:
            raise HardeningError(f"this profile hardens messages at random: pass {SEED_BYTES} fresh random bytes")
        out = np.zeros((len(messages), self.profile.words), np.uint64)
        for at in range(0, len(messages), limits.ENCODE_CHUNK_MESSAGES):
            chunk = slice(at, at + limits.ENCODE_CHUNK_MESSAGES)
            out[chunk] = self._encode_chunk(messages[chunk])
        if self._randomised:
            # By smaller chunks than encoding: hardening unpacks every bit.
            for number, at in enumerate(range(0, len(messages), limits.HARDEN_CHUNK_MESSAGES)):
                chunk = slice(at, at + limits.HARDEN_CHUNK_MESSAGES)
                own = hashlib.blake2b(number.to_bytes(4, "big"), key=seed, digest_size=SEED_BYTES).digest()
                out[chunk] = apply_side(self.profile.hardening, "message", np.ascontiguousarray(out[chunk]), own)
        return out

    def _encode_chunk(self, messages: Sequence[Message | Attributes]) -> Words:
        """OR together the masks of the values each message has; masks of recent values are remembered."""
        with self._lock:
            try:
                ids, fresh = self._known.collect(messages)
                if fresh:
                    members, groups, table = self._value_tokens(fresh)
                    each = np.arange(len(fresh) + 1)
                    batch = table.batch(members, groups, (each[:-1], each))
                    self._known.learn(batch.bits(self.profile.bits, self.profile.hashes))
                encoded = or_groups(self._known.masks, *ids)
                self._known.trim()
                return encoded
            except BaseException:
                # A value that was named but got no mask must not be taken for a known one.
                self._known.forget()
                raise

    def tokenise_messages(self, messages: Sequence[Message | Attributes]) -> TokenBatch:
        """Messages as hashed tokens, for any width and number of hashes (no hardening applied)."""
        ids, values = ValueTable(self.profile.words).collect(messages)
        members, groups, table = self._value_tokens(values)
        return table.batch(members, groups, ids)

    def _value_tokens(
        self, values: list[tuple[str, Value]]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], _TokenTable]:
        """The tokens of every distinct value: parallel arrays (token, value) and the table that hashed them."""
        by_name: dict[str, list[int]] = {}
        for position, (name, _) in enumerate(values):
            by_name.setdefault(name, []).append(position)
        table, found = _TokenTable(self._keys), _Found()
        for name, places in by_name.items():
            index = self.profile.schema.attributes.get(name)
            wanted = str if isinstance(index, TextIndex) else int | float
            indexed: list[int] = []
            plain: list[int] = places
            if index is not None:
                plain = []
                for place in places:
                    value = values[place][1]
                    fits = isinstance(value, wanted) and not isinstance(value, bool)
                    (indexed if fits else plain).append(place)
            if plain:
                _exact_tokens(table, name, [values[p][1] for p in plain], plain, found)
            if indexed and isinstance(index, NumberIndex):
                _number_tokens(index, table, name, [values[p][1] for p in indexed], indexed, found)
            elif indexed and isinstance(index, TextIndex):
                _text_tokens(index, table, name, [str(values[p][1]) for p in indexed], indexed, found)
        return np.concatenate(found.members), np.concatenate(found.groups), table

    # --- predicates ---

    def plans(self, predicate: Node) -> list[Plan]:
        """How each disjunct of a predicate is encoded (for ``explain``)."""
        return [plan(conjunction, self.profile) for conjunction in disjuncts(predicate)]

    def encode_predicate(self, predicate: Node, *, match_all: bool = False) -> EncodedFilters:
        """One predicate as encoded disjuncts; a disjunct without bits is refused unless ``match_all``."""
        bits, _ = self.encode_predicates([predicate], match_all=match_all)
        return EncodedFilters(self.scope, bits)

    def encode_predicates(
        self, predicates: Sequence[Node], *, match_all: bool = False
    ) -> tuple[Words, npt.NDArray[np.int64]]:
        """``uint64[r, W]`` and ``int64[r]``: all encoded disjuncts, and the predicate each one came from."""
        batch, owners = self.tokenise_predicates(predicates, match_all=match_all)
        bits = batch.bits(self.profile.bits, self.profile.hashes)
        bits = apply_side(self.profile.hardening, "filter", bits, self._keys.hardening_key())
        return _drop_covered(bits, owners)

    def tokenise_predicates(
        self, predicates: Sequence[Node], *, match_all: bool = False
    ) -> tuple[TokenBatch, npt.NDArray[np.int64]]:
        """Predicates as hashed tokens, one record a disjunct, and the predicate each record came from."""
        asks: list[frozenset[NamedToken]] = []
        owners: list[int] = []
        for position, predicate in enumerate(predicates):
            mine = self._asks(predicate)
            if not match_all and not all(mine):
                raise EmptyFilterError(
                    "an alternative of this predicate leaves no bits, so a router would send every message; "
                    "add a condition on a present attribute, or ask for match_all"
                )
            asks += mine
            owners += [position] * len(mine)
        ids: dict[NamedToken, int] = {}
        flat = [ids.setdefault(token, len(ids)) for asked in asks for token in sorted(asked)]
        records = as_rows(flat, [len(asked) for asked in asks])
        by_name: dict[str, list[tuple[int, bytes]]] = {}
        for (name, token), place in ids.items():
            by_name.setdefault(name, []).append((place, token))
        table = _TokenTable(self._keys)
        members = np.zeros(len(ids), np.int64)
        for name, entries in by_name.items():
            first = table.add(name, [token for _, token in entries])
            members[[place for place, _ in entries]] = np.arange(first, first + len(entries))
        return table.batch(members, np.arange(len(ids)), records), np.asarray(owners, np.int64)

    def _asks(self, predicate: Node) -> list[frozenset[NamedToken]]:
        """The token sets of a predicate's disjuncts, coarsened if they are too many for the wire."""
        plans = self.plans(predicate)
        asks = list(dict.fromkeys(asked for each in plans for asked in each.asks))
        most = limits.SUBSCRIPTION_FILTERS_MAX
        if len(asks) <= most:
            return asks
        warnings.warn(
            f"{len(asks)} encoded alternatives are coarsened to at most {most}; more false positives will be paid",
            CoarsenedPredicateWarning,
            stacklevel=4,
        )
        return coarsen([closure(each.conjunction, self.profile) for each in plans if each.asks], most)


def _exact_tokens(table: _TokenTable, name: str, values: list[Value], places: list[int], found: _Found) -> None:
    """Existence and equality: one shared token, and one token for each distinct value."""
    where = np.asarray(places, np.int64)
    first = table.add(name, [tokens.EXISTENCE, *map(tokens.equality, values)])
    found.add(np.full(len(values), first, np.int64), where)
    found.add(np.arange(first + 1, first + 1 + len(values)), where)


def _known_tokens(
    equality: bool, table: _TokenTable, name: str, values: list[Value], places: list[int], found: _Found
) -> None:
    """What an indexed attribute says besides its index: existence, and equality unless its schema leaves that out."""
    if equality:
        _exact_tokens(table, name, values, places, found)
    else:
        first = table.add(name, [tokens.EXISTENCE])
        found.add(np.full(len(values), first, np.int64), np.asarray(places, np.int64))


def _text_tokens(
    index: TextIndex, table: _TokenTable, name: str, values: list[str], places: list[int], found: _Found
) -> None:
    """Tokens of strings with an index: step by step over all distinct values at once."""
    where = np.asarray(places, np.int64)
    _known_tokens(index.equality, table, name, list(values), places, found)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    for make, ladder in ((tokens.prefix, index.prefixes), (tokens.suffix, index.suffixes)):
        for step in ladder:
            long = np.flatnonzero(lengths >= step)
            cuts = [values[i][:step] if make is tokens.prefix else values[i][-step:] for i in long.tolist()]
            ids = {cut: number for number, cut in enumerate(dict.fromkeys(cuts))}
            first = table.add(name, [make(cut, step) for cut in ids])
            found.add(np.fromiter((ids[cut] for cut in cuts), np.int64, len(cuts)) + first, where[long])
    if index.qgram:
        grams: dict[bytes, int] = {}
        said = [[grams.setdefault(g, len(grams)) for g in tokens.qgrams(value, index.qgram)] for value in values]
        first = table.add(name, list(grams))
        flat, offsets = as_rows(list(chain.from_iterable(said)), [len(each) for each in said])
        found.add(flat + first, np.repeat(where, np.diff(offsets)))
    if index.order_bytes:
        buckets = np.asarray([index.bucket(value) for value in values], np.int64)
        _span_tokens(index.tdag, tokens.text_spans, table, name, buckets, where, found)


def _number_tokens(
    index: NumberIndex, table: _TokenTable, name: str, values: list[Value], places: list[int], found: _Found
) -> None:
    """Tokens of numbers with a domain."""
    _known_tokens(index.equality, table, name, values, places, found)
    buckets = np.asarray([index.bucket(value) for value in values], np.int64)  # type: ignore[arg-type]
    _span_tokens(index.tdag, tokens.number_spans, table, name, buckets, np.asarray(places, np.int64), found)


def _span_tokens(
    tdag: Tdag,
    make: Callable[[int, bool, npt.NDArray[np.int64]], list[bytes]],
    table: _TokenTable,
    name: str,
    buckets: npt.NDArray[np.int64],
    where: npt.NDArray[np.int64],
    found: _Found,
) -> None:
    """Every node of a TDAG that contains a bucket: level by level over all buckets at once."""
    top = tdag.levels
    for level in tdag.used:
        half = (1 << level) >> 1
        inside = (buckets >= half) & (buckets < (1 << top) - half)
        for shifted in (False, True) if 0 < level < top else (False,):
            chosen = inside if shifted else slice(None)
            spans, inverse = np.unique((buckets[chosen] - (half if shifted else 0)) >> level, return_inverse=True)
            if len(spans):
                first = table.add(name, make(level, shifted, spans))
                found.add(inverse + first, where[chosen])


def _drop_covered(bits: Words, owners: npt.NDArray[np.int64]) -> tuple[Words, npt.NDArray[np.int64]]:
    """Within each predicate, drop a disjunct whose bits include another's: that other one matches whenever it does."""
    keep = np.ones(len(bits), bool)
    edges = [*np.flatnonzero(np.diff(owners, prepend=-1)), len(owners)]
    for start, end in pairwise(edges):
        if end - start < 2:
            continue
        rows = bits[start:end]
        order = np.argsort(np.bitwise_count(rows).sum(axis=1), kind="stable")
        kept: list[int] = []
        for row in order:
            if kept and not (rows[kept] & ~rows[row]).any(axis=1).all():
                keep[start + row] = False
            else:
                kept.append(int(row))
    return np.ascontiguousarray(bits[keep]), owners[keep]
