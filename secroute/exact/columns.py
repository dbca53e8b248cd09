"""Predicates as columns: what the compiled engines are built from, without one Python object per constraint.

TRUSTED, pure. A *filter* is one conjunction of a predicate's disjunctive normal form. Trees are converted with C-speed
maps over flat lists; generators and merges produce the columns directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.content.dnf import Conjunction, disjuncts
from secroute.content.model import check_value, utf8
from secroute.content.predicate import And, Constraint, Node, Not, Op, Or, Pattern
from secroute.errors import InputError
from secroute.exact.numbers import split_floats

Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Bytes: TypeAlias = npt.NDArray[np.uint8]

NONE, BOOL, NUMBER, STRING, PATTERN = range(5)
_FLOAT = 5  # a number that arrives as a Python float; becomes NUMBER once it is split

OPS: tuple[Op, ...] = tuple(Op)
OP_CODE: dict[Op, int] = {op: code for code, op in enumerate(OPS)}
_OP_CODE_BY_ID = {id(op): code for op, code in OP_CODE.items()}


class Interner(dict[Any, int]):
    """Gives each new key the next number; ``map(interner.__getitem__, keys)`` runs at C speed for known keys."""

    def __missing__(self, key: Any) -> int:
        number = len(self)
        self[key] = number
        return number


class _Kinds(dict[type, int]):
    """Type of a value to its kind; sub-classes (NumPy's floats, for example) are resolved when first seen."""

    def __missing__(self, kind: type) -> int:
        for base in (bool, int, float, str, Pattern):
            if issubclass(kind, base):
                self[kind] = self[base]
                return self[kind]
        raise InputError(f"a value is a string, a number or a boolean, not {kind.__name__}")


_KINDS = _Kinds({type(None): NONE, bool: BOOL, int: NUMBER, float: _FLOAT, str: STRING, Pattern: PATTERN})


@dataclass(frozen=True, slots=True)
class Values:
    """A column of values: kind and place of each, with the values themselves by kind."""

    kind: Bytes
    index: Int32s
    """Place in ``strings``, ``whole``/``rest`` or ``patterns``; 0 or 1 for a boolean."""
    strings: list[str]
    whole: Int64s
    rest: Floats
    patterns: list[Pattern]


def encode_values(values: Sequence[Any]) -> Values:
    """Split Python values by kind; strings and patterns are stored once, numbers exactly."""
    count = len(values)
    kind = np.fromiter(map(_KINDS.__getitem__, map(type, values)), np.uint8, count)
    index = np.zeros(count, np.int32)

    def pick(wanted: int) -> tuple[npt.NDArray[np.intp], list[Any]]:
        at = np.flatnonzero(kind == wanted)
        return at, list(values) if len(at) == count else [values[i] for i in at.tolist()]

    at, found = pick(BOOL)
    index[at] = found
    interned: dict[int, Interner] = {STRING: Interner(), PATTERN: Interner()}
    for wanted, interner in interned.items():
        at, found = pick(wanted)
        index[at] = np.fromiter(map(interner.__getitem__, found), np.int32, len(found))
    at, found = pick(NUMBER)
    try:
        whole = np.array(found, np.int64)
    except OverflowError:
        raise InputError("an integer must fit in 64 bits") from None
    index[at] = np.arange(len(at), dtype=np.int32)
    at, found = pick(_FLOAT)
    float_whole, rest = split_floats(np.array(found, np.float64))
    index[at] = np.arange(len(whole), len(whole) + len(at), dtype=np.int32)
    kind[at] = NUMBER
    return Values(
        kind,
        index,
        list(interned[STRING]),
        np.concatenate([whole, float_whole]),
        np.concatenate([np.zeros(len(whole)), rest]),
        list(interned[PATTERN]),
    )


def pack_strings(strings: Iterable[str]) -> tuple[Bytes, Int64s]:
    """One UTF-8 buffer with offsets."""
    encoded = [check_text(text) for text in strings]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def check_text(text: str) -> bytes:
    """The UTF-8 bytes of a string value within its limit."""
    check_value(text)
    return utf8(text, "a string value")


@dataclass(frozen=True, slots=True)
class Columns:
    """Filters of many predicates, constraint by constraint."""

    names: list[str]
    strings: list[str]
    whole: Int64s
    rest: Floats
    patterns: list[Pattern]
    name: Int32s
    op: Bytes
    kind: Bytes
    value: Int32s
    """Per constraint: name, operator (``OPS``), kind of value, and its place among the values of that kind."""
    offsets: Int64s
    """Constraints of filter f: ``offsets[f]:offsets[f + 1]``."""
    predicate: Int32s
    """Which predicate a filter belongs to."""

    @property
    def filters(self) -> int:
        """How many filters there are."""
        return len(self.predicate)

    @property
    def constraints(self) -> int:
        """How many constraints there are, repetitions included."""
        return len(self.name)

    def pruned(self) -> Columns:
        """The same filters without names and values that no constraint has (what was removed leaves such)."""
        value = self.value.copy()

        def keep(kind: int, count: int) -> npt.NDArray[np.intp]:
            at = self.kind == kind
            used = np.zeros(count, np.bool_)
            used[self.value[at]] = True
            value[at] = (np.cumsum(used) - 1)[self.value[at]]
            return np.flatnonzero(used)

        strings, numbers = keep(STRING, len(self.strings)), keep(NUMBER, len(self.whole))
        patterns = keep(PATTERN, len(self.patterns))
        names, name = np.unique(self.name, return_inverse=True)
        return replace(
            self,
            names=[self.names[i] for i in names.tolist()],
            strings=[self.strings[i] for i in strings.tolist()],
            whole=self.whole[numbers],
            rest=self.rest[numbers],
            patterns=[self.patterns[i] for i in patterns.tolist()],
            name=name.astype(np.int32),
            value=value,
        )


Filterable: TypeAlias = Node | Sequence[Conjunction]


def conjunctions(predicate: Filterable) -> Sequence[Conjunction]:
    """The filters of a predicate: of a tree, or of what is a sequence of conjunctions already."""
    kind = type(predicate)
    if kind is Constraint:
        return ((predicate,),)  # type: ignore[return-value]
    if kind is And:
        children = predicate.children  # type: ignore[union-attr]
        if len(children) <= limits.DISJUNCT_CONSTRAINTS_MAX and all(type(child) is Constraint for child in children):
            return (children,)  # type: ignore[return-value]
        return disjuncts(predicate)  # type: ignore[arg-type]
    if kind is Or or kind is Not:
        return disjuncts(predicate)  # type: ignore[arg-type]
    if not isinstance(predicate, Sequence) or isinstance(predicate, str):
        raise InputError(f"a predicate is a tree or a sequence of conjunctions, not {kind.__name__}")
    if not predicate or not all(isinstance(c, tuple) and c for c in predicate):
        raise InputError("a predicate has at least one conjunction, and a conjunction at least one constraint")
    return predicate


def from_predicates(predicates: Iterable[Filterable], first: int = 0) -> Columns:
    """The columns of parsed predicates, numbered from ``first``."""
    flat: list[Constraint] = []
    sizes: list[int] = []
    owners: list[int] = []
    for owner, predicate in enumerate(predicates, first):
        for conjunction in conjunctions(predicate):
            flat += conjunction
            sizes.append(len(conjunction))
            owners.append(owner)
    count = len(flat)
    names = Interner()
    name = np.fromiter(map(names.__getitem__, map(attrgetter("name"), flat)), np.int32, count)
    op = np.fromiter(map(_OP_CODE_BY_ID.__getitem__, map(id, map(attrgetter("op"), flat))), np.uint8, count)
    values = encode_values(list(map(attrgetter("value"), flat)))
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return Columns(
        list(names),
        values.strings,
        values.whole,
        values.rest,
        values.patterns,
        name,
        op,
        values.kind,
        values.index,
        offsets,
        np.array(owners, np.int32),
    )


def concat(parts: Sequence[Columns]) -> Columns:
    """The filters of all parts, in order, over one set of names and values."""
    names, strings, patterns = Interner(), Interner(), Interner()
    name, value, offsets = [], [], [np.zeros(1, np.int64)]
    numbers = constraints = 0
    for part in parts:
        maps = {
            STRING: np.fromiter(map(strings.__getitem__, part.strings), np.int32, len(part.strings)),
            PATTERN: np.fromiter(map(patterns.__getitem__, part.patterns), np.int32, len(part.patterns)),
            NUMBER: np.arange(numbers, numbers + len(part.whole), dtype=np.int32),
        }
        moved = part.value.copy()
        for kind, mapping in maps.items():
            at = part.kind == kind
            moved[at] = mapping[part.value[at]]
        value.append(moved)
        name.append(np.fromiter(map(names.__getitem__, part.names), np.int32, len(part.names))[part.name])
        offsets.append(part.offsets[1:] + constraints)
        numbers += len(part.whole)
        constraints += part.constraints
    return Columns(
        list(names),
        list(strings),
        np.concatenate([part.whole for part in parts]),
        np.concatenate([part.rest for part in parts]),
        list(patterns),
        np.concatenate(name),
        np.concatenate([part.op for part in parts]),
        np.concatenate([part.kind for part in parts]),
        np.concatenate(value),
        np.concatenate(offsets),
        np.concatenate([part.predicate for part in parts]),
    )
