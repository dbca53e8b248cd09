"""From a conjunction of constraints to the tokens it asks for.

TRUSTED, pure. All ranges on one attribute are intersected first; what is not indexed, or shorter than its first step,
degrades to existence, with the reason kept for ``secroute explain``; a conjunction that no message can satisfy is
dropped. Everything asked for is said by every message that matches: that is the law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from secroute.content.dnf import Conjunction
from secroute.content.model import Value
from secroute.content.oracle import holds, kind
from secroute.content.predicate import ORDER_OPS, Constraint, Op, Pattern
from secroute.encoding import tokens
from secroute.encoding.profile import Profile
from secroute.encoding.schema import NumberIndex, TextIndex
from secroute.encoding.tdag import Span

NamedToken = tuple[str, bytes]
"""An attribute name and one of its tokens."""


@dataclass(frozen=True)
class Piece:
    """The tokens that some constraints of one attribute became."""

    constraints: Conjunction
    alternatives: tuple[frozenset[bytes], ...]
    """The message must say all tokens of at least one of these (more than one only for an exact cover)."""
    note: str = ""
    """Why this is less than what was asked, if it is."""


@dataclass(frozen=True)
class Plan:
    """What one conjunction asks for."""

    conjunction: Conjunction
    pieces: tuple[tuple[str, tuple[Piece, ...]], ...] = ()
    never: str = ""
    """Why no message can satisfy the conjunction, if none can."""
    asks: tuple[frozenset[NamedToken], ...] = field(default=())
    """One set of tokens per alternative; empty if never."""


class _NeverError(Exception):
    """No message satisfies these constraints together."""


def plan(conjunction: Conjunction, profile: Profile) -> Plan:
    """Plan one conjunction under a profile."""
    by_name: dict[str, list[Constraint]] = {}
    for constraint in conjunction:
        by_name.setdefault(constraint.name, []).append(constraint)
    budget = profile.cover_disjuncts
    pieces: list[tuple[str, tuple[Piece, ...]]] = []
    for name, group in by_name.items():
        try:
            planned = tuple(_attribute(name, group, profile, budget))
        except _NeverError as reason:
            return Plan(conjunction, never=str(reason))
        for piece in planned:
            budget //= len(piece.alternatives)
        pieces.append((name, planned))
    return Plan(conjunction, tuple(pieces), asks=tuple(_combine(pieces, profile)))


def _combine(pieces: Sequence[tuple[str, tuple[Piece, ...]]], profile: Profile) -> list[frozenset[NamedToken]]:
    """One token set for every combination of alternatives."""
    choices = [[(name, chosen) for chosen in piece.alternatives] for name, group in pieces for piece in group]
    out = []
    for combination in product(*choices):
        asked: dict[str, set[bytes]] = {}
        for name, chosen in combination:
            asked.setdefault(name, set()).update(chosen)
        for said in asked.values():
            # Any other token of the attribute implies existence; it is added only where the profile wants it.
            if len(said) > 1 and profile.implied == "none":
                said.discard(tokens.EXISTENCE)
            elif said and profile.implied != "none":
                said.add(tokens.EXISTENCE)
        out.append(frozenset((name, token) for name, said in asked.items() for token in said))
    return list(dict.fromkeys(out))


def _attribute(name: str, group: list[Constraint], profile: Profile, budget: int) -> list[Piece]:
    """The pieces of one attribute's constraints."""
    absent = [c for c in group if c.op is Op.ABSENT]
    if absent:
        if len(absent) != len(group):
            raise _NeverError(f"{name} would have to be absent and present")
        return [Piece(tuple(group), (frozenset(),), "absence leaves nothing to ask for")]
    kinds = {kind("" if isinstance(c.value, Pattern) else c.value) for c in group if c.value is not None}
    if len(kinds) > 1:
        raise _NeverError(f"{name} would have to be of two types at once")
    exact = [c for c in group if c.op is Op.EQ]
    if exact:
        value = exact[0].value
        assert value is not None and not isinstance(value, Pattern)  # noqa: S101, PT018 - equality has a plain value
        failing = next((c for c in group if holds(c, {name: value}) is False), None)
        if failing is not None:
            raise _NeverError(f"{name} cannot satisfy all its conditions at once")
        return [_equality(name, tuple(group), value, profile)]
    pieces = []
    ordered = tuple(c for c in group if c.op in ORDER_OPS)
    if ordered:
        pieces.append(_range(name, ordered, profile, budget))
    pieces += [_text(name, c, profile) for c in group if c.op not in ORDER_OPS]
    return pieces


def _existence(constraints: Conjunction, note: str) -> Piece:
    return Piece(constraints, (frozenset([tokens.EXISTENCE]),), note)


def _equality(name: str, constraints: Conjunction, value: Value, profile: Profile) -> Piece:
    """One exact value: its equality token where there is one, else the finest things a message says of it."""
    said = tokens.value_tokens(profile.schema, name, value)
    exact = tokens.equality(value)
    if profile.implied == "coarser":
        return Piece(constraints, (frozenset(said),))
    if exact in said:
        return Piece(constraints, (frozenset([exact]),))
    rest = frozenset(said) - {tokens.EXISTENCE}
    if not rest:
        return _existence(constraints, "equality is not indexed for this attribute")
    index = profile.schema.number(name)
    if index is not None:
        rest = frozenset([tokens.number_span(index.tdag.smallest(*[index.bucket(value)] * 2))])  # type: ignore[arg-type]
    return Piece(constraints, (rest,), "equality is not indexed: the finest bucket or steps stand for it")


def _bounds(name: str, ordered: Conjunction) -> tuple[Value | None, Value | None]:
    """The tightest lower and upper bound; raises if nothing lies between them."""
    low = high = None
    for c in ordered:
        if c.op in (Op.GT, Op.GE):
            if low is None or (c.value, c.op is Op.GT) > (low.value, low.op is Op.GT):
                low = c
        elif high is None or (c.value, c.op is Op.LE) < (high.value, high.op is Op.LE):
            high = c
    if low is not None and high is not None:
        open_end = low.op is Op.GT or high.op is Op.LT
        if low.value > high.value or (low.value == high.value and open_end):  # type: ignore[operator]
            raise _NeverError(f"no value of {name} lies in the empty range asked for")
    return (low.value if low else None), (high.value if high else None)  # type: ignore[return-value]


def _range(name: str, ordered: Conjunction, profile: Profile, budget: int) -> Piece:
    """Order constraints of one attribute as covering nodes."""
    low, high = _bounds(name, ordered)
    index: NumberIndex | TextIndex | None
    if isinstance(ordered[0].value, str):
        index, token = profile.schema.text(name), tokens.text_span
        if not index.order_bytes:
            return _existence(ordered, "order of strings is not indexed for this attribute")
    else:
        index, token = profile.schema.number(name), tokens.number_span
        if index is None:
            return _existence(ordered, "ranges are not indexed for this attribute: the schema gives it no domain")
    tdag = index.tdag
    # An open bound includes its bucket: other values of the bucket may satisfy it.
    first = index.bucket(low) if low is not None else 0  # type: ignore[arg-type]
    last = index.bucket(high) if high is not None else (1 << tdag.levels) - 1  # type: ignore[arg-type]
    spans = tdag.cover(first, last, budget)
    note = _excess(spans, first, last)
    if profile.implied == "coarser":
        return Piece(
            ordered, tuple(frozenset(token(s) for s in tdag.covering(span.low, span.high)) for span in spans), note
        )
    return Piece(ordered, tuple(frozenset([token(span)]) for span in spans), note)


def _excess(spans: list[Span], first: int, last: int) -> str:
    covered = sum(span.high - span.low + 1 for span in spans)
    wanted = last - first + 1
    return f"covers {covered} buckets for the {wanted} asked for" if covered > wanted else ""


def _text(name: str, constraint: Constraint, profile: Profile) -> Piece:
    """Presence, negations and the string operators of one constraint."""
    op, value = constraint.op, constraint.value
    if op is Op.EXISTS:
        return _existence((constraint,), "")
    if op in (Op.NE, Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_SUBSTRING, Op.NOT_LIKE):
        return _existence((constraint,), "a negation cannot be asked for by bits")
    index = profile.schema.text(name)
    parts = value.parts if isinstance(value, Pattern) else _parts(op, str(value))
    asked: set[bytes] = set()
    ladders = [(parts[0], index.prefixes, tokens.prefix), (parts[-1], index.suffixes, tokens.suffix)]
    for part, ladder, token in ladders:
        fitting = [step for step in ladder if step <= len(part)]
        asked.update(token(part, step) for step in (fitting if profile.implied == "coarser" else fitting[-1:]))
    if index.qgram:
        # A fixed part at either end is a substring as well; its q-grams are said by every match.
        inner = parts if profile.implied == "coarser" or not asked else parts[1:-1]
        asked.update(gram for part in inner for gram in tokens.qgrams(part, index.qgram))
    if not asked:
        return _existence((constraint,), "no prefix, suffix or q-gram index of this attribute is short enough")
    return Piece((constraint,), (frozenset(asked),))


def _parts(op: Op, text: str) -> tuple[str, ...]:
    return {Op.PREFIX: (text, ""), Op.SUFFIX: ("", text), Op.SUBSTRING: ("", text, "")}[op]


def closure(conjunction: Conjunction, profile: Profile) -> frozenset[NamedToken]:
    """Everything that the encoder knows every message which satisfies ``conjunction`` to say: for coarsening."""
    wide = plan(conjunction, replace(profile, implied="coarser", cover_disjuncts=1))
    return frozenset.intersection(*wide.asks)
