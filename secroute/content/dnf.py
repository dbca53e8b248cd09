"""Disjunctive normal form: NOT pushed to the constraints, then AND distributed over OR.

TRUSTED, pure. Both steps are exact in three-valued logic (De Morgan and distribution hold there), so the DNF is true
of the same messages as the tree. The number of disjuncts is counted before anything is expanded.
"""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

from secroute import limits
from secroute.content.predicate import And, Constraint, Node, Not, check_size
from secroute.errors import LimitError

Conjunction: TypeAlias = tuple[Constraint, ...]


def _expand(node: Node, negate: bool) -> tuple[Conjunction, ...]:
    if isinstance(node, Not):
        return _expand(node.child, not negate)
    if isinstance(node, Constraint):
        return ((node.negated() if negate else node,),)
    parts = [_expand(child, negate) for child in node.children]
    if isinstance(node, And) is negate:  # an OR, or an AND under a NOT
        joined = [conjunction for part in parts for conjunction in part]
        _check(len(joined))
        return tuple(dict.fromkeys(joined))
    total = 1
    for part in parts:
        total *= len(part)
        _check(total)
    return tuple(dict.fromkeys(_merge(combination) for combination in product(*parts)))


def _check(count: int) -> None:
    if count > limits.PREDICATE_DISJUNCTS_MAX:
        raise LimitError(
            f"the predicate expands to more than {limits.PREDICATE_DISJUNCTS_MAX} alternatives; "
            "split it into several subscriptions"
        )


def _merge(conjunctions: tuple[Conjunction, ...]) -> Conjunction:
    merged = tuple(dict.fromkeys(c for conjunction in conjunctions for c in conjunction))
    if len(merged) > limits.DISJUNCT_CONSTRAINTS_MAX:
        raise LimitError(f"{len(merged)} conditions in one alternative, at most {limits.DISJUNCT_CONSTRAINTS_MAX}")
    return merged


def disjuncts(node: Node) -> tuple[Conjunction, ...]:
    """The alternatives of a predicate, each a tuple of constraints that must all be true."""
    return _expand(check_size(node), negate=False)
