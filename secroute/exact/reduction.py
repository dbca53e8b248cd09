"""Smaller predicates with the same meaning, and covering between predicates: the technical report's reduction.

TRUSTED, pure. Within a conjunction, a constraint that another implies is dropped; within a predicate, a conjunction
that another one covers is dropped. ``covers`` is what this decides: *yes* is certain, *no* may mean *not proven*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

from secroute.content.dnf import Conjunction, disjuncts
from secroute.content.predicate import And, Node, Or
from secroute.exact.implication import implies

_SUBSETS_NAMES_MAX = 10  # up to here the subsets of a conjunction's names are looked up; beyond, all are tried


def reduce_conjunction(conjunction: Conjunction) -> Conjunction:
    """The conjunction without constraints that another of its constraints implies; of two equals the first stays."""
    kept = list(conjunction)
    for constraint in reversed(conjunction):
        if any(other is not constraint and implies(other, constraint) for other in kept):
            kept.remove(constraint)
    return tuple(kept)


def conjunction_covers(wide: Conjunction, narrow: Conjunction) -> bool:
    """Whether each constraint of ``wide`` follows from one of ``narrow``."""
    return all(any(implies(given, wanted) for given in narrow) for wanted in wide)


class _Kept:
    """Conjunctions found by their set of names: only those over a subset of names can cover another."""

    def __init__(self) -> None:
        self._by_names: defaultdict[frozenset[str], list[Conjunction]] = defaultdict(list)

    def _candidates(self, names: frozenset[str]) -> Iterable[frozenset[str]]:
        if len(names) > _SUBSETS_NAMES_MAX or 2 ** len(names) > len(self._by_names):
            return [key for key in self._by_names if key <= names]
        every = (frozenset(c) for size in range(1, len(names) + 1) for c in combinations(sorted(names), size))
        return [key for key in every if key in self._by_names]

    def take(self, conjunction: Conjunction) -> None:
        """Keep a conjunction unless one kept covers it; drop those over the same names that it covers."""
        names = frozenset(constraint.name for constraint in conjunction)
        for key in self._candidates(names):
            if any(conjunction_covers(wide, conjunction) for wide in self._by_names[key]):
                return
        same = self._by_names[names]
        same[:] = [other for other in same if not conjunction_covers(conjunction, other)]
        same.append(conjunction)

    def all(self) -> set[Conjunction]:
        return {conjunction for kept in self._by_names.values() for conjunction in kept}


def reduce_conjunctions(conjunctions: Sequence[Conjunction]) -> list[Conjunction]:
    """The reduced disjunction of any number of conjunctions, in their order."""
    reduced = list(dict.fromkeys(map(reduce_conjunction, conjunctions)))
    kept = _Kept()
    # Fewer names first: what is over a subset of names is then there before anything it may cover.
    for conjunction in sorted(reduced, key=lambda c: len({constraint.name for constraint in c})):
        kept.take(conjunction)
    left = kept.all()
    return [conjunction for conjunction in reduced if conjunction in left]


def reduce(predicate: Node) -> Node:
    """An equivalent predicate in disjunctive form without redundant constraints and conjunctions."""
    parts: list[Node] = [
        conjunction[0] if len(conjunction) == 1 else And(conjunction)
        for conjunction in reduce_conjunctions(disjuncts(predicate))
    ]
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def covers(wide: Node, narrow: Node) -> bool:
    """Whether every message that matches ``narrow`` provably matches ``wide``."""
    kept = disjuncts(wide)
    return all(any(conjunction_covers(one, other) for one in kept) for other in disjuncts(narrow))
