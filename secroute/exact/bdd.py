"""The shared BDD table: any boolean subscriptions, each common sub-expression evaluated once (ICSE 2001).

TRUSTED, pure. Atoms are variables of one BDD kept by CUDD; each subscription is restricted by what its own atoms say
about each other (``x = 5`` implies ``x < 9``), then the nodes are exported and evaluated by a compiled loop. Under the
``open`` semantics NOT is pushed to the atoms and a variable means *this atom is true*, which is three-valued logic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from dd import cudd

from secroute import limits
from secroute.content.model import Message, Value
from secroute.content.predicate import And, Constraint, Node, Not, Op, constraints
from secroute.errors import InputError, LimitError
from secroute.exact.atoms import Atoms, Attributes, Dictionary, compile_atoms
from secroute.exact.batch import MessageBatch
from secroute.exact.bdd_eval import Nodes, Planes, adequacy, atom_planes, match_words
from secroute.exact.columns import BOOL, NUMBER, STRING, Int64s, Interner, from_predicates
from secroute.exact.csr import Csr
from secroute.exact.implication import excludes, implies
from secroute.exact.semantics import EventSchema, Semantics

_NEGATIVE = frozenset({Op.NE, Op.GE, Op.GT, Op.NOT_PREFIX, Op.NOT_SUFFIX, Op.NOT_SUBSTRING, Op.NOT_LIKE, Op.ABSENT})
_CHUNK = 4096  # messages whose planes are held at once: the planes of 100 000 sets of names take 50 MB
_KIND_CODE = {"bool": BOOL, "number": NUMBER, "string": STRING}


class BddTable:
    """Subscriptions, numbered in the order they were added, in one BDD."""

    def __init__(
        self, semantics: Semantics = "open", schema: EventSchema | None = None, *, restrict: bool = True
    ) -> None:
        if semantics not in ("simple", "strict", "default", "open"):
            raise InputError(f"no semantics {semantics!r}; there are simple, strict, default and open")
        if (schema is None) != (semantics == "open"):
            raise InputError("the open semantics takes no schema, the others need one")
        if semantics == "default" and schema is not None and set(schema.defaults) != set(schema.kinds):
            missing = min(set(schema.kinds) - set(schema.defaults))
            raise InputError(f"the default semantics needs a default for every attribute; {missing!r} has none")
        self._semantics, self._schema, self._restrict = semantics, schema, restrict
        self._bdd = cudd.BDD()
        self._bdd.configure(reordering=False)
        self._variables: dict[Constraint, int] = {}
        self._clauses: dict[tuple[int, int], Any] = {}
        self._roots: list[Any] = []
        self._export = _Export(self._bdd)
        self._mentions = Interner()
        self._mention: list[int] = []
        self._compiled: _Compiled | None = None

    @classmethod
    def build(
        cls,
        predicates: Sequence[Node],
        semantics: Semantics = "open",
        schema: EventSchema | None = None,
        *,
        ids: Sequence[str] | None = None,
        restrict: bool = True,
    ) -> BddTable:
        """A table of many subscriptions; variables stand by attribute, then by value."""
        table = cls(semantics, schema, restrict=restrict)
        atoms = {table._positive(c)[0] for p in predicates for c in constraints(p)}
        if semantics == "open":
            atoms |= {c.negated() for p in predicates for c in constraints(p) if _under_not(p)}
        table._declare(sorted(atoms, key=lambda c: (c.name, str(type(c.value)), repr(c.value), c.op.value)))
        table.add(predicates, ids)
        return table

    def __len__(self) -> int:
        return len(self._roots)

    @property
    def nodes(self) -> int:
        """Nodes of the shared BDD, the terminal included."""
        return len(self._compile().low)

    @property
    def nbytes(self) -> int:
        """Bytes of the node array and of the roots."""
        compiled = self._compile()
        return sum(part.nbytes for part in (*compiled.nodes, compiled.roots, compiled.need))

    def add(self, predicates: Sequence[Node], ids: Sequence[str] | None = None) -> range:
        """Add subscriptions on line. If one is refused nothing is added; the error names it."""
        if ids is not None and len(ids) != len(predicates):
            raise InputError(f"{len(predicates)} subscriptions but {len(ids)} ids; each has one")
        built, mentions, known = [], [], len(self._variables)
        for i, predicate in enumerate(predicates):
            name = ids[i] if ids is not None else str(len(self._roots) + i)
            try:
                if self._schema is not None:
                    self._schema.check_predicate(predicate)
                built.append(self._restricted(predicate, self._function(predicate, negate=False)))
            except InputError as error:
                self._forget(known)
                raise type(error)(f"subscription {name}: {error}") from None
            mentions.append(frozenset(constraint.name for constraint in constraints(predicate)))
        first = len(self._roots)
        self._roots += built
        self._mention += map(self._mentions.__getitem__, mentions)
        self._compiled = None
        return range(first, first + len(built))

    def match(self, messages: MessageBatch | Sequence[Message | Mapping[str, Value]] | Any) -> Csr:
        """For each message the numbers of the subscriptions that match it."""
        batch, compiled = MessageBatch.of(messages), self._compile()
        if self._schema is not None:
            self._check(batch, self._schema)
        partial = self._semantics == "strict"
        order = _by_attributes(batch) if partial else np.arange(len(batch))
        attributes = compiled.resolve(batch)
        filled = compiled.filled(self._schema) if self._schema and self._semantics == "default" else None
        sizes, values = [np.zeros(1, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            truth, known, adequate = compiled.planes(attributes, chunk, filled)
            ends, found = match_words(
                compiled.nodes,
                len(compiled.low),
                compiled.roots,
                truth,
                known,
                adequate,
                compiled.need,
                partial,
                len(chunk),
            )
            sizes.append(np.diff(ends))
            values.append(found)
        whole = values[1] if len(values) == 2 else np.concatenate(values)
        return _in_order(Csr(np.cumsum(np.concatenate(sizes)), whole), order)

    def _positive(self, constraint: Constraint) -> tuple[Constraint, bool]:
        """The variable's atom, and whether it is negated: of ``x > 5`` and ``x <= 5`` one is the other's negation.

        The open semantics keeps every atom as it is, and so does a table without restriction, as in the paper.
        """
        if self._restrict and self._semantics != "open" and constraint.op in _NEGATIVE:
            return constraint.negated(), True
        return constraint, False

    def _declare(self, atoms: Iterable[Constraint]) -> None:
        for atom in atoms:
            if atom not in self._variables:
                self._bdd.declare(f"v{len(self._variables)}")
                self._variables[atom] = len(self._variables)

    def _forget(self, known: int) -> None:
        """Give back the variables after the first ``known``; CUDD keeps them for the next that are declared."""
        for atom in list(self._variables)[known:]:
            del self._variables[atom]
        self._clauses = {pair: clause for pair, clause in self._clauses.items() if max(pair) < known}

    def _function(self, node: Node, negate: bool) -> Any:
        """The BDD of a tree. Its size is checked as it grows, and before any step that could explode."""
        if isinstance(node, Not):
            return self._function(node.child, not negate)
        if isinstance(node, Constraint):
            # Under the open semantics the negation of an atom is another atom: both are untrue where it is unknown.
            atom, flipped = self._positive(node.negated() if negate and self._semantics == "open" else node)
            self._declare((atom,))
            variable = self._bdd.var(f"v{self._variables[atom]}")
            return ~variable if flipped != (negate and self._semantics != "open") else variable
        conjunction = isinstance(node, And) is not negate
        result = None
        for child in node.children:
            part = self._function(child, negate)
            if result is None:
                result = part
                continue
            size = result.dag_size
            if size > limits.BDD_NODES_MAX or size * part.dag_size > limits.BDD_STEP_NODES_MAX:
                raise LimitError(
                    f"its BDD grows beyond {limits.BDD_NODES_MAX} nodes or {limits.BDD_STEP_NODES_MAX} in one step; "
                    "split it into several subscriptions"
                )
            result = result & part if conjunction else result | part
        return result

    def _restricted(self, predicate: Node, function: Any) -> Any:
        """The function restricted to what can happen, given what its own atoms imply about each other."""
        if not self._restrict:
            return function
        care = None
        for one, other in combinations(self._atoms(predicate), 2):
            if one.name == other.name:
                clause = self._clause(one, other)
                if clause is not None:
                    care = clause if care is None else care & clause
                    if care.dag_size > limits.BDD_NODES_MAX // 100:
                        break
        if care is None or function in (self._bdd.true, self._bdd.false):
            return function
        smaller = cudd.restrict(function, care)
        return smaller if smaller.dag_size <= function.dag_size else function

    def _atoms(self, predicate: Node) -> list[Constraint]:
        found = dict.fromkeys(self._positive(constraint)[0] for constraint in constraints(predicate))
        if self._semantics == "open":
            found |= dict.fromkeys(c.negated() for c in found if c.negated() in self._variables)
        return [atom for atom in found if atom in self._variables]

    def _clause(self, one: Constraint, other: Constraint) -> Any:
        """What two atoms on one attribute say about each other, or None."""
        key = (self._variables[one], self._variables[other])
        if key not in self._clauses:
            a, b = (self._bdd.var(f"v{variable}") for variable in key)
            clause = self._bdd.true
            if implies(one, other):
                clause &= ~a | b
            if implies(other, one):
                clause &= a | ~b
            if excludes(one, other):
                clause &= ~a | ~b
            if self._semantics != "open" and (implies(one.negated(), other) or implies(other.negated(), one)):
                clause &= a | b
            self._clauses[key] = None if clause == self._bdd.true else clause
        return self._clauses[key]

    def _check(self, batch: MessageBatch, schema: EventSchema) -> None:
        unknown = [name for name in batch.names if name not in schema.kinds]
        if unknown:
            raise InputError(f"unknown attribute {unknown[0]!r}; the schema has {', '.join(schema.kinds)}")
        wanted = np.array([_KIND_CODE[schema.kinds[name]] for name in batch.names], np.uint8)
        wrong = np.flatnonzero(wanted[batch.name] != batch.kind)
        if len(wrong):
            name = batch.names[batch.name[wrong[0]]]
            raise InputError(f"attribute {name!r} is a {schema.kinds[name]}, a message has another kind of value")
        if self._semantics == "simple" and (np.diff(batch.offsets) < len(schema.kinds)).any():
            row = int(np.flatnonzero(np.diff(batch.offsets) < len(schema.kinds))[0])
            raise InputError(f"the simple semantics takes total messages; message {row} misses an attribute")

    def _compile(self) -> _Compiled:
        if self._compiled is None:
            names = {name for mention in self._mentions for name in mention}
            for root in self._roots[len(self._export.roots) :]:
                self._export.add(root)
            self._compiled = _Compiled(self._export, list(self._variables), self._mention, list(self._mentions), names)
        return self._compiled


def _under_not(node: Node) -> bool:
    """Whether a tree has a NOT at all."""
    if isinstance(node, Constraint):
        return False
    return isinstance(node, Not) or any(map(_under_not, node.children))


class _Export:
    """Nodes taken out of the BDD: variable, low and high of each, children first.

    A node's address names it as long as it is alive, and what a kept root reaches is; so earlier work stays valid.
    """

    def __init__(self, bdd: Any) -> None:
        self._place = {int(bdd.true) & ~1: 0}
        self.variable, self.low, self.high = [-1], [0], [0]
        self.roots: list[int] = []

    def _reference(self, node: Any) -> int:
        return 2 * self._place[int(node) & ~1] + (int(node) & 1)

    def add(self, root: Any) -> None:
        """Take out what a root reaches."""
        stack = [root]
        while stack:
            node = stack[-1]
            key = int(node) & ~1
            if key in self._place:
                stack.pop()
                continue
            low, high = node.low, node.high
            below = [child for child in (low, high) if int(child) & ~1 not in self._place]
            if below:
                stack += below
                continue
            stack.pop()
            self._place[key] = len(self.variable)
            self.variable.append(int(node.var[1:]))
            self.low.append(self._reference(low))
            self.high.append(self._reference(high))
        self.roots.append(self._reference(root))


class _Compiled:
    """The node array of a table, sorted so that nodes of one variable are neighbours, and how to find its atoms."""

    def __init__(
        self,
        exported: _Export,
        atoms: list[Constraint],
        mention: list[int],
        mentions: list[frozenset[str]],
        names: set[str],
    ) -> None:
        variable, low, high, roots = (
            np.array(part, np.int32) for part in (exported.variable, exported.low, exported.high, exported.roots)
        )
        # Variables are declared in the order of the BDD: a child's variable always has the larger number.
        order = np.concatenate([[0], 1 + np.argsort(-variable[1:], kind="stable")])
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self.low, self.high, self.roots = (
            2 * place[part >> 1] + (part & 1) for part in (low[order], high[order], roots)
        )
        ordered = variable[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=-2))[1:]
        self.nodes = Nodes(ordered[starts], np.append(starts, len(order)).astype(np.int32), self.low, self.high)
        self.need = np.array(mention, np.int32)
        # Names are asked of the batch through an atom each, so that all that is mentioned is in the dictionary.
        asked = [*atoms, *(Constraint(name, Op.EXISTS) for name in sorted(names))]
        self._dictionary: Dictionary
        self._atoms: Atoms
        self._dictionary, self._atoms, atom = compile_atoms(from_predicates(asked))
        self._atom = atom[: len(atoms)]
        ids = self._dictionary.names
        self._owner = np.array([ids[atom.name] for atom in atoms], np.int64)
        self._mentioned = np.array([ids[name] for mention in mentions for name in mention], np.int32)
        self._mentions = np.zeros(len(mentions) + 1, np.int64)
        np.cumsum([len(mention) for mention in mentions], out=self._mentions[1:])

    def resolve(self, batch: MessageBatch) -> Attributes:
        """A batch as this table sees it."""
        return self._dictionary.resolve(batch)

    def filled(self, schema: EventSchema) -> Planes:
        """Truth of each variable under the defaults, as a whole word."""
        attributes = self.resolve(MessageBatch.of([schema.defaults]))
        truth, _ = atom_planes(attributes, self._atoms, self._atom, len(self._dictionary.names), np.zeros(1, np.int64))
        return np.where(truth & np.uint64(1), ~np.uint64(0), np.uint64(0))

    def planes(self, attributes: Attributes, order: Int64s, filled: Planes | None) -> tuple[Planes, Planes, Planes]:
        """Truth and definedness of each variable, and adequacy for each set of mentioned names."""
        truth, defined = atom_planes(attributes, self._atoms, self._atom, len(self._dictionary.names), order)
        known = defined[self._owner]
        if filled is not None:
            truth = truth & known | filled & ~known
        return truth, known, adequacy(defined, self._mentions, self._mentioned)


def _by_attributes(batch: MessageBatch) -> Int64s:
    """An order of messages in which those that define the same attributes are neighbours."""
    mixed = np.random.default_rng(0).integers(0, 2**63, len(batch.names), np.int64)
    signature = np.zeros(len(batch), np.int64)
    np.add.at(signature, np.repeat(np.arange(len(batch)), np.diff(batch.offsets)), mixed[batch.name])
    return np.argsort(signature, kind="stable")


def _in_order(found: Csr, order: Int64s) -> Csr:
    """The rows moved back to where their messages were."""
    if np.array_equal(order, np.arange(len(order))):
        return found
    sizes = np.empty(len(order), np.int64)
    sizes[order] = np.diff(found.offsets)
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    start = np.empty(len(order), np.int64)
    start[order] = found.offsets[:-1]
    source = np.repeat(start - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Csr(offsets, found.values[source])
