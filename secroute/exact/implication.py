"""Implication between single constraints: does every message that makes the one true make the other true?

TRUSTED, pure. Sound everywhere; it decides every pair of comparisons and positive text operators, and answers *no* for
the few pairs where a proof would need more than one rule.
"""

from __future__ import annotations

from secroute.content.oracle import holds, kind
from secroute.content.predicate import Constraint, Op, Pattern

_GAP = "\ud800"  # stands for "anything" in a witness; a lone surrogate occurs in no valid string
_TEXT = frozenset({Op.PREFIX, Op.SUFFIX, Op.SUBSTRING, Op.LIKE})
_NOT_TEXT = frozenset({Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_SUBSTRING, Op.NOT_LIKE})
_PRESENCE = frozenset({Op.EXISTS, Op.ABSENT})


def _kind(constraint: Constraint) -> type:
    return str if isinstance(constraint.value, Pattern) else kind(constraint.value)


def _parts(constraint: Constraint) -> tuple[str, ...]:
    """A positive text constraint as fixed parts with gaps between."""
    value = constraint.value
    if isinstance(value, Pattern):
        return value.parts
    text = str(value)
    return {Op.PREFIX: (text, ""), Op.SUFFIX: ("", text), Op.SUBSTRING: ("", text, "")}[constraint.op]


def implies(given: Constraint, wanted: Constraint) -> bool:
    """Whether ``given`` true makes ``wanted`` true, as far as it can be decided."""
    if given.name != wanted.name:
        return False
    if given == wanted:
        return True
    if wanted.op is Op.EXISTS:
        return given.op is not Op.ABSENT
    if wanted.op in _PRESENCE or given.op in _PRESENCE or _kind(given) is not _kind(wanted):
        return False
    if isinstance(given.value, bool):
        given = _as_equality(given)
    if given.op is Op.EQ:
        assert given.value is not None and not isinstance(given.value, Pattern)  # noqa: S101, PT018 - EQ has a plain value
        return holds(wanted, {given.name: given.value}) is True
    if wanted.op is Op.NE:
        assert wanted.value is not None and not isinstance(wanted.value, Pattern)  # noqa: S101, PT018 - as above
        return holds(given, {given.name: wanted.value}) is False
    if wanted.op is Op.PREFIX and wanted.value == "":
        return True  # whatever compares as a string is one
    if wanted.op in _NOT_TEXT:
        return _excludes(given, wanted.negated())
    if wanted.op in _TEXT:
        # The parts of a text constraint with gaps between them: what accepts that accepts every filling.
        return given.op in _TEXT and holds(wanted, {given.name: _GAP.join(_parts(given))}) is True
    return wanted.op is not Op.EQ and _bounds(given, wanted)


def _as_equality(constraint: Constraint) -> Constraint:
    """A boolean constraint as an equality: not true is false."""
    return Constraint(constraint.name, Op.EQ, bool(constraint.value) is (constraint.op is Op.EQ))


def _bounds(given: Constraint, wanted: Constraint) -> bool:
    """Whether a bound follows from a bound, or from the fixed beginning of a text."""
    limit = wanted.value
    if given.op in _TEXT:
        head = _parts(given)[0]
        assert isinstance(limit, str)  # noqa: S101 - the kinds agree
        if wanted.op in (Op.LT, Op.LE):
            return limit > head and not limit.startswith(head)
        return limit <= head if wanted.op is Op.GE else limit < head
    if given.op in (Op.LT, Op.LE) and wanted.op in (Op.LT, Op.LE):
        strict = given.op is Op.LE and wanted.op is Op.LT
        return given.value < limit if strict else given.value <= limit  # type: ignore[operator]
    if given.op in (Op.GT, Op.GE) and wanted.op in (Op.GT, Op.GE):
        strict = given.op is Op.GE and wanted.op is Op.GT
        return given.value > limit if strict else given.value >= limit  # type: ignore[operator]
    return False


def _excludes(given: Constraint, text: Constraint) -> bool:
    """Whether no string satisfies both ``given`` and the positive text constraint ``text``."""
    if given.op in _NOT_TEXT:
        return implies(text, given.negated())
    parts = _parts(text)
    if given.op in _TEXT:
        mine = _parts(given)
        heads = mine[0].startswith(parts[0]) or parts[0].startswith(mine[0])
        tails = mine[-1].endswith(parts[-1]) or parts[-1].endswith(mine[-1])
        return not (heads and tails)
    if given.op in (Op.LT, Op.LE, Op.GT, Op.GE):
        return _bounds(text, given.negated())
    return False


def excludes(one: Constraint, other: Constraint) -> bool:
    """Whether no message makes both true, as far as it can be decided."""
    if one.name != other.name:
        return False
    if one.op in _PRESENCE or other.op in _PRESENCE:
        return {one.op, other.op} != {Op.EXISTS} and Op.ABSENT in (one.op, other.op) and one.op is not other.op
    return _kind(one) is not _kind(other) or implies(one, other.negated()) or implies(other, one.negated())
