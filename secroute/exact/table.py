"""The exact table: predicates in, for each message the predicates or interfaces that match it out.

TRUSTED, pure. One interface over the engines (``counting``, ``pivot``, the plain ``oracle``; ``auto`` takes the oracle
for a handful of conditions and pivots otherwise). Changes go to small segments that are merged as they grow, so adding
costs no full rebuild; removing only marks. A table is not to be changed while another thread matches with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from secroute.content.model import Message, Value
from secroute.content.oracle import matches
from secroute.content.predicate import And, Constraint, Node, Not, Or, constraints
from secroute.errors import InputError
from secroute.exact.batch import MessageBatch
from secroute.exact.columns import Columns, Filterable, Int32s, Int64s, concat, from_predicates
from secroute.exact.counting import CountingEngine
from secroute.exact.csr import Csr
from secroute.exact.filters import build_filters
from secroute.exact.labels import Labels
from secroute.exact.pivot import SHARED, SINGLE, PivotEngine
from secroute.exact.selectivity import Determinants

Engine: TypeAlias = Literal["auto", "counting", "pivot", "oracle"]
Messages: TypeAlias = "MessageBatch | Sequence[Message | Mapping[str, Value]] | Any"
"""A batch, a sequence of messages or mappings, or an Arrow table whose columns are attributes."""

_NEVER = np.int32(2**31 - 1)
# Measured: the oracle takes about 0.4 us for a condition, a compiled call 250 us and 4 us for each message.
_ORACLE_CONDITIONS_MAX = 1_000
_ORACLE_CONDITION_US = 0.4
_COMPILED_CALL_US = 250.0
_COMPILED_MESSAGE_US = 4.0


@dataclass(slots=True)
class _View:
    """A segment's filters grouped by owner: predicates or interfaces."""

    owner: Int32s
    done: Int32s
    """Template: 0 for an owner that has filters here, ``_NEVER`` for any other; empty if nobody looks at it."""
    left: int
    determinants: Determinants | None


class _Segment:
    """Filters that were compiled together."""

    def __init__(self, columns: Columns, engine: str, rounds: int, masks: bool, sample: MessageBatch | None) -> None:
        filters = build_filters(columns, sample)
        kind = CountingEngine if engine == "counting" else PivotEngine
        self.engine: CountingEngine | PivotEngine = kind.build(filters, rounds=rounds, masks=masks)
        self.views: dict[str, _View] = {}
        self.dead = 0

    def drop(self, gone: Int64s) -> None:
        """Strike out the filters of removed predicates (``gone`` is sorted).

        Everything else in a view stays valid: a determinant of all filters is one of those that are left.
        """
        predicate = self.engine.filters.predicate
        place = np.minimum(np.searchsorted(gone, predicate), len(gone) - 1)
        struck = np.flatnonzero(gone[place] == predicate)
        for view in self.views.values():
            view.owner[struck] = -1
        self.dead += len(struck)

    def view(self, key: str, owner_of: Int32s, alive: npt.NDArray[np.bool_], owners: int) -> _View:
        """The filters by owner, given who owns each predicate and which predicates are still there."""
        if key not in self.views:
            predicate = self.engine.filters.predicate
            owner = np.where(alive[predicate], owner_of[predicate], np.int32(-1)).astype(np.int32)
            counts = np.bincount(owner[owner >= 0], minlength=owners)
            done = np.where(counts > 0, np.int32(0), _NEVER).astype(np.int32)
            if isinstance(self.engine, CountingEngine):
                self.views[key] = _View(owner, done, int((counts > 0).sum()), self.engine.determinants(owner))
            else:
                # Who has one filter needs no look at ``done``, unless the caller may not want it at all.
                shared = (owner >= 0) & ((counts[owner] > 1) | key.endswith("?"))
                owner[shared] |= SHARED
                owner[(owner >= 0) & (np.diff(self.engine.filters.first) == 1)] |= SINGLE
                self.views[key] = _View(owner, done if shared.any() else done[:0], int((counts > 0).sum()), None)
        return self.views[key]

    def match(self, batch: MessageBatch, view: _View, allowed: npt.NDArray[np.bool_] | None) -> tuple[Any, Any]:
        done, left = view.done.copy(), view.left
        if allowed is not None:
            done = np.where(allowed[: len(done)], done, _NEVER)
            left = int((done == 0).sum())
        attributes = self.engine.filters.dictionary.resolve(batch)
        if isinstance(self.engine, CountingEngine):
            return self.engine.match(attributes, view.owner, done, left, view.determinants)
        return self.engine.match(attributes, view.owner, done, left)

    @property
    def nbytes(self) -> int:
        filters = self.engine.filters
        dictionary = filters.dictionary
        arrays: list[Any] = [*filters.atoms, filters.first, filters.atom, filters.mask, filters.predicate]
        arrays += [*dictionary.strings, dictionary.whole, dictionary.rest]
        for view in self.views.values():
            arrays += [view.owner, view.done, *(view.determinants or ())]
        return int(self.engine.nbytes + sum(array.nbytes for array in arrays))


class ExactTable:
    """Predicates, numbered in the order they were added, each with an interface (its own number unless given)."""

    def __init__(self, engine: Engine = "auto", *, rounds: int = 10, masks: bool = True) -> None:
        if engine not in ("auto", "counting", "pivot", "oracle"):
            raise InputError(f"no engine {engine!r}; there are auto, counting, pivot and oracle")
        self._engine, self._rounds, self._masks = engine, rounds, masks
        self._labels = Labels()
        self._interface = np.empty(0, np.int32)
        self._alive = np.empty(0, np.bool_)
        self._segments: list[_Segment] = []
        self._pending: list[Columns] = []
        self._kept: dict[int, Node] | None = {}
        """The trees themselves, while there are few enough for the oracle."""
        self._conditions = 0

    @classmethod
    def build(
        cls,
        predicates: Iterable[Filterable] | Columns,
        interfaces: Sequence[int] | None = None,
        engine: Engine = "auto",
        *,
        rounds: int = 10,
        masks: bool = True,
        sample: Messages | None = None,
    ) -> ExactTable:
        """A table of many predicates at once; a ``sample`` of messages helps to choose the pivots."""
        table = cls(engine, rounds=rounds, masks=masks)
        batch = None if sample is None else MessageBatch.of(sample)
        if isinstance(predicates, Columns):
            count = int(predicates.predicate.max()) + 1 if predicates.filters else 0
            table._admit(count, interfaces)
            table._kept = None
            table._push(predicates, batch)
        else:
            table.add(list(predicates), interfaces)
            table._flush(batch)
        return table

    def __len__(self) -> int:
        return int(self._alive.sum())

    def add(self, predicates: Sequence[Filterable], interfaces: Sequence[int] | None = None) -> range:
        """Add predicates; returns their numbers. If one is refused none is added."""
        columns = None if self._engine == "oracle" else from_predicates(predicates, len(self._alive))
        numbers = self._admit(len(predicates), interfaces)
        if columns is not None and columns.filters:
            self._pending.append(columns)
        if self._kept is not None:
            for number, predicate in zip(numbers, predicates, strict=True):
                if self._engine != "oracle" and self._conditions > _ORACLE_CONDITIONS_MAX:
                    self._kept = None
                    break
                node = predicate if isinstance(predicate, Constraint | And | Or | Not) else _tree(predicate)
                self._kept[number] = node
                self._conditions += sum(1 for _ in constraints(node))
        return numbers

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove predicates by number."""
        gone = np.unique(np.fromiter(numbers, np.int64))
        if not len(gone):
            return
        outside = gone[(gone < 0) | (gone >= len(self._alive))]
        if len(outside):
            raise InputError(f"no predicate {int(outside[0])}; there are {len(self._alive)}")
        if not self._alive[gone].all():
            raise InputError(f"predicate {int(gone[~self._alive[gone]][0])} was removed before")
        self._alive[gone] = False
        if self._kept is not None:
            for number in gone.tolist():
                self._conditions -= sum(1 for _ in constraints(self._kept.pop(number)))
        for segment in self._segments:
            segment.drop(gone)

    def match(self, messages: Messages, allowed: Iterable[int] | None = None) -> Csr:
        """For each message the interfaces (of those ``allowed``, if given) with a predicate that matches it."""
        labels = self._labels.values
        chosen = None if allowed is None else np.isin(labels, np.fromiter(allowed, np.int64))
        key = "interface" if chosen is None else "interface?"
        found = self._match(messages, key, self._interface, len(labels), chosen)
        return found if self._labels.plain else Csr(found.offsets, labels[found.values])

    def match_predicates(self, messages: Messages) -> Csr:
        """For each message the numbers of the predicates that match it."""
        return self._match(messages, "predicate", np.arange(len(self._alive), dtype=np.int32), len(self._alive), None)

    @property
    def constraints(self) -> int:
        """Constraints of the compiled filters, repetitions included."""
        self._flush(None)
        return sum(segment.engine.filters.constraints for segment in self._segments)

    @property
    def nbytes(self) -> int:
        """Bytes of the compiled tables."""
        self._flush(None)
        own = self._interface.nbytes + self._alive.nbytes + self._labels.nbytes
        return sum(segment.nbytes for segment in self._segments) + own

    def _admit(self, count: int, interfaces: Sequence[int] | None) -> range:
        first = len(self._alive)
        labels = range(first, first + count) if interfaces is None else interfaces
        if len(labels) != count:
            raise InputError(f"{count} predicates but {len(labels)} interfaces; each predicate has one")
        self._interface = np.concatenate([self._interface, self._labels.take(labels)])
        self._alive = np.concatenate([self._alive, np.ones(count, np.bool_)])
        return range(first, first + count)

    def _flush(self, sample: MessageBatch | None) -> None:
        """Compile what was added since, and again what is mostly dead."""
        if self._pending:
            columns = concat(self._pending) if len(self._pending) > 1 else self._pending[0]
            self._pending = []
            self._push(columns, sample)
        for segment in [s for s in self._segments if 2 * s.dead > len(s.engine.filters)]:
            self._segments.remove(segment)
            filters = segment.engine.filters
            alive = self._alive[filters.predicate]
            if alive.any():
                rebuilt = _Segment(filters.columns(alive), self._engine, self._rounds, self._masks, sample)
                self._segments.append(rebuilt)

    def _push(self, columns: Columns, sample: MessageBatch | None) -> None:
        """Make a segment; one before it that is not much larger is merged into it."""
        parts = [columns]
        while self._segments and self._segments[-1].engine.filters.constraints <= 2 * sum(p.constraints for p in parts):
            filters = self._segments.pop().engine.filters
            parts.insert(0, filters.columns(self._alive[filters.predicate]))
        merged = concat(parts) if len(parts) > 1 else columns
        if merged.filters:
            self._segments.append(_Segment(merged, self._engine, self._rounds, self._masks, sample))

    def _match(
        self, messages: Messages, key: str, owner_of: Int32s, owners: int, allowed: npt.NDArray[np.bool_] | None
    ) -> Csr:
        if self._kept is not None and self._prefers_oracle(messages):
            return self._ask_oracle(messages, owner_of, allowed)
        self._flush(None)
        batch = MessageBatch.of(messages)
        results = []
        for segment in self._segments:
            results.append(segment.match(batch, segment.view(key, owner_of, self._alive, owners), allowed))
        if len(results) == 1:
            return Csr(results[0][0], results[0][1].astype(np.int64))
        rows = [Csr(offsets, values).rows() for offsets, values in results]
        values = [values.astype(np.int64) for _, values in results]
        nothing = np.empty(0, np.int64)
        return Csr.from_pairs(np.concatenate([nothing, *rows]), np.concatenate([nothing, *values]), len(batch))

    def _prefers_oracle(self, messages: Messages) -> bool:
        if self._engine != "auto":
            return self._engine == "oracle"
        if isinstance(messages, MessageBatch) or not isinstance(messages, Sequence):
            return False
        cost = _ORACLE_CONDITION_US * self._conditions * len(messages)
        return cost < _COMPILED_CALL_US + _COMPILED_MESSAGE_US * len(messages)

    def _ask_oracle(self, messages: Messages, owner_of: Int32s, allowed: npt.NDArray[np.bool_] | None) -> Csr:
        if isinstance(messages, MessageBatch) or not isinstance(messages, Sequence):
            raise InputError("the oracle takes a sequence of messages or mappings")
        asked = [
            (int(owner_of[number]), node)
            for number, node in (self._kept or {}).items()
            if allowed is None or allowed[owner_of[number]]
        ]
        offsets = np.zeros(len(messages) + 1, np.int64)
        values: list[int] = []
        for i, message in enumerate(messages):
            attributes = (message if isinstance(message, Message) else Message(message)).attributes
            values += dict.fromkeys(owner for owner, node in asked if matches(node, attributes))
            offsets[i + 1] = len(values)
        return Csr(offsets, np.array(values, np.int64))


def _tree(predicate: Filterable) -> Node:
    """The tree of a sequence of conjunctions."""
    parts: list[Node] = [conj[0] if len(conj) == 1 else And(tuple(conj)) for conj in predicate]  # type: ignore[union-attr]
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


class CountingTable(ExactTable):
    """An exact table that always counts, as the paper does."""

    def __init__(self, engine: Engine = "counting", *, rounds: int = 10, masks: bool = True) -> None:
        super().__init__("counting", rounds=rounds, masks=masks)


class PivotTable(ExactTable):
    """An exact table that always pivots."""

    def __init__(self, engine: Engine = "pivot", *, rounds: int = 10, masks: bool = True) -> None:
        super().__init__("pivot", rounds=rounds, masks=masks)
