"""Atoms: the distinct constraints of a table, in a form where every test compares small integers.

TRUSTED, pure. Constants are replaced by ranks among the table's sorted constants, so exactness costs nothing at
matching time: ``a < c`` becomes *rank below key*, ``a = c`` becomes *rank equals key*. Atoms are sorted by name, group
and key, which makes each sub-index of the paper a contiguous range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import numpy.typing as npt

from secroute.content.predicate import Op, Pattern
from secroute.errors import LimitError
from secroute.exact.batch import MessageBatch
from secroute.exact.columns import (
    BOOL,
    NONE,
    NUMBER,
    OP_CODE,
    PATTERN,
    STRING,
    Bytes,
    Columns,
    Floats,
    Int32s,
    Int64s,
)
from secroute.exact.numbers import rank_numbers, sort_numbers
from secroute.exact.strings import PREFIX, SUBSTRING, SUFFIX, StringIndex, build_strings, longest_part, resolve_strings

# Groups: what an atom asks. EQ and NE keys are exact ranks (odd); BELOW is "rank < key", FROM is "rank >= key".
IS, NUM_EQ, STR_EQ, TEXT, NUM_BELOW, NUM_FROM, STR_BELOW, STR_FROM, NUM_NE, STR_NE, TEXT_NOT, EXISTS, ABSENT = range(13)
GROUPS = 13

_TEXT_OP = {Op.PREFIX: PREFIX, Op.SUFFIX: SUFFIX, Op.SUBSTRING: SUBSTRING}
_TEXT_NOT_OP = {Op.NOT_PREFIX: PREFIX, Op.NOT_SUFFIX: SUFFIX, Op.NOT_SUBSTRING: SUBSTRING}
# Per comparison: group on numbers, group on strings, and what is added to twice the constant's place.
_COMPARE: dict[Op, tuple[int, int, int]] = {
    Op.EQ: (NUM_EQ, STR_EQ, 1),
    Op.NE: (NUM_NE, STR_NE, 1),
    Op.LT: (NUM_BELOW, STR_BELOW, 1),
    Op.LE: (NUM_BELOW, STR_BELOW, 2),
    Op.GT: (NUM_FROM, STR_FROM, 2),
    Op.GE: (NUM_FROM, STR_FROM, 1),
}


class Atoms(NamedTuple):
    """Distinct constraints sorted by (name, group, key)."""

    name: Int32s
    group: Bytes
    key: Int32s


class Attributes(NamedTuple):
    """A batch as one table sees it; ``name`` is -1 where no constraint of the table has it."""

    offsets: Int64s
    name: Int32s
    kind: Bytes
    rank: Int32s
    text: Int32s
    """Row of the string's text keys, for strings."""
    key_offsets: Int64s
    keys: Int32s


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The names and constants of a table."""

    names: dict[str, int]
    strings: StringIndex
    whole: Int64s
    rest: Floats
    patterns: list[Pattern]

    def resolve(self, batch: MessageBatch) -> Attributes:
        """Look up each distinct name and value of a batch once."""
        known = self.names
        name_map = np.array([known.get(name, -1) for name in batch.names], np.int32)
        text_ranks, key_offsets, keys = resolve_strings(self.strings, batch.text, batch.text_offsets)
        number_ranks = rank_numbers(self.whole, self.rest, batch.whole, batch.rest)
        name, rank, text = place_attributes(batch.name, batch.kind, batch.value, name_map, number_ranks, text_ranks)
        return Attributes(batch.offsets, name, batch.kind, rank, text, key_offsets, keys)


@nb.njit(nogil=True, cache=True)
def place_attributes(name: Any, kind: Any, value: Any, names: Any, numbers: Any, strings: Any) -> Any:
    """Gather the looked-up names and ranks back to the attributes."""
    count = len(name)
    out_name, rank, text = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    for i in range(count):
        out_name[i] = names[name[i]]
        v = value[i]
        text[i] = v
        rank[i] = numbers[v] if kind[i] == NUMBER else strings[v] if kind[i] == STRING else v
    return out_name, rank, text


def _text_keys(columns: Columns, place: Int32s, constants: int) -> tuple[Bytes, Int64s, npt.NDArray[np.bool_]]:
    """Group and key of the text constraints, and which rows those are."""
    group, key = np.zeros(columns.constraints, np.uint8), np.zeros(columns.constraints, np.int64)
    rows = np.zeros(columns.constraints, np.bool_)
    for ops, number in ((_TEXT_OP, TEXT), (_TEXT_NOT_OP, TEXT_NOT)):
        for op, text_op in ops.items():
            at = columns.op == OP_CODE[op]
            group[at], key[at] = number, 3 * place[columns.value[at]].astype(np.int64) + text_op
            rows |= at
    for op, number in ((Op.LIKE, TEXT), (Op.NOT_LIKE, TEXT_NOT)):
        at = columns.op == OP_CODE[op]
        group[at], key[at] = number, 3 * constants + columns.value[at]
        rows |= at
    return group, key, rows


def _group_and_key(columns: Columns, strings: Int32s, numbers: Int32s, constants: int) -> tuple[Bytes, Int64s]:
    """The canonical form of every constraint."""
    group, key, text = _text_keys(columns, strings, constants)
    for op, (on_numbers, on_strings, shift) in _COMPARE.items():
        same = (columns.op == OP_CODE[op]) & ~text
        for kind, number, place in ((NUMBER, on_numbers, numbers), (STRING, on_strings, strings)):
            at = same & (columns.kind == kind)
            group[at], key[at] = number, 2 * place[columns.value[at]].astype(np.int64) + shift
        at = same & (columns.kind == BOOL)
        group[at], key[at] = IS, columns.value[at] ^ (1 if op is Op.NE else 0)  # not true is false, and back
    group[columns.op == OP_CODE[Op.EXISTS]] = EXISTS
    group[columns.op == OP_CODE[Op.ABSENT]] = ABSENT
    return group, key


def compile_atoms(columns: Columns) -> tuple[Dictionary, Atoms, Int32s]:
    """The dictionary and the sorted distinct atoms of columns, and which atom each constraint is."""
    strings = list(dict.fromkeys([*columns.strings, *map(longest_part, columns.patterns)]))
    encoded = [text.encode() for text in strings]
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    whole, rest, number_place = sort_numbers(columns.whole, columns.rest)
    group, key = _group_and_key(columns, place, number_place, len(order))
    if len(columns.names) >= 2**26 or (len(key) and key.max() >= 2**31):
        raise LimitError("more names or constants in one table than its 32-bit keys can hold")
    packed = columns.name.astype(np.int64) << 36 | group.astype(np.int64) << 32 | key
    distinct, atom = np.unique(packed, return_inverse=True)
    atoms = Atoms(
        (distinct >> 36).astype(np.int32),
        ((distinct >> 32) & 15).astype(np.uint8),
        (distinct & 0xFFFFFFFF).astype(np.int32),
    )
    asked = np.zeros(len(order), np.uint8)
    text_keys = atoms.key[((atoms.group == TEXT) | (atoms.group == TEXT_NOT)) & (atoms.key < 3 * len(order))]
    np.bitwise_or.at(asked, text_keys // 3, (1 << (text_keys % 3)).astype(np.uint8))
    index = build_strings([encoded[i] for i in order], asked, columns.patterns)
    names = {name: i for i, name in enumerate(columns.names)}
    return Dictionary(names, index, whole, rest, columns.patterns), atoms, atom.astype(np.int32)


def decode_atoms(dictionary: Dictionary, atoms: Atoms) -> tuple[Bytes, Bytes, Int32s]:
    """Operator, kind and value of each atom over the dictionary's sorted constants (back from the canonical form)."""
    count = len(atoms.name)
    op, kind, value = np.zeros(count, np.uint8), np.full(count, NONE, np.uint8), np.zeros(count, np.int32)
    constants = len(dictionary.strings.parent)
    for operator, (on_numbers, on_strings, shift) in _COMPARE.items():
        for number, value_kind in ((on_numbers, NUMBER), (on_strings, STRING)):
            at = (atoms.group == number) & (atoms.key % 2 == shift % 2)
            op[at], kind[at], value[at] = OP_CODE[operator], value_kind, (atoms.key[at] - shift) // 2
    for ops, number, like in ((_TEXT_OP, TEXT, Op.LIKE), (_TEXT_NOT_OP, TEXT_NOT, Op.NOT_LIKE)):
        for operator, text_op in ops.items():
            at = (atoms.group == number) & (atoms.key < 3 * constants) & (atoms.key % 3 == text_op)
            op[at], kind[at], value[at] = OP_CODE[operator], STRING, atoms.key[at] // 3
        at = (atoms.group == number) & (atoms.key >= 3 * constants)
        op[at], kind[at], value[at] = OP_CODE[like], PATTERN, atoms.key[at] - 3 * constants
    at = atoms.group == IS
    op[at], kind[at], value[at] = OP_CODE[Op.EQ], BOOL, atoms.key[at]
    op[atoms.group == EXISTS] = OP_CODE[Op.EXISTS]
    op[atoms.group == ABSENT] = OP_CODE[Op.ABSENT]
    return op, kind, value


def constants_of(dictionary: Dictionary) -> list[str]:
    """The string constants in their sorted order."""
    data, offsets = dictionary.strings.text.tobytes(), dictionary.strings.offsets
    return [data[offsets[i] : offsets[i + 1]].decode() for i in range(len(offsets) - 1)]
