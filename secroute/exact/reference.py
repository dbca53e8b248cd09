"""The forwarding function of the paper in plain Python, step by step: what the counting kernel does, readable.

TRUSTED, pure. It stands beside the compiled engine for tests and explanations; it looks at every constraint of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from secroute.content.dnf import Conjunction
from secroute.content.model import Value
from secroute.content.oracle import holds
from secroute.content.predicate import Op
from secroute.errors import InputError

ForwardingTable = Mapping[int, Sequence[Conjunction]]
FilterId = tuple[int, int]
"""Interface, and place of the filter within its predicate."""


@dataclass(frozen=True, slots=True)
class Step:
    """The state after one attribute (the first step: after the selectivity rounds)."""

    attribute: str | None
    counters: dict[FilterId, int]
    excluded: frozenset[int]
    output: tuple[int, ...]


def selectivity_table(table: ForwardingTable) -> list[tuple[str, frozenset[int]]]:
    """Determinants: names with the interfaces whose every filter constrains them, most interfaces first."""
    by_name: dict[str, set[int]] = {}
    for interface, filters in table.items():
        needed = [{c.name for c in conjunction if c.op is not Op.ABSENT} for conjunction in filters]
        for name in sorted(set.intersection(*needed)):
            by_name.setdefault(name, set()).add(interface)
    ranked = sorted(by_name.items(), key=lambda entry: -len(entry[1]))
    return [(name, frozenset(interfaces)) for name, interfaces in ranked]


def forward(
    attributes: Mapping[str, Value], allowed: frozenset[int], table: ForwardingTable, rounds: int = 10
) -> list[Step]:
    """``CBF(m, B, T)`` with both short cuts, without absence constraints; the last step has the output."""
    if any(c.op is Op.ABSENT for filters in table.values() for conjunction in filters for c in conjunction):
        raise InputError("the paper's algorithm has no absence constraint")
    excluded = set(table) - allowed
    for name, interfaces in selectivity_table(table)[:rounds]:
        if name not in attributes:
            excluded |= interfaces
    counters: dict[FilterId, int] = {}
    output: list[int] = []
    steps = [Step(None, {}, frozenset(excluded), ())]
    for attribute in attributes:
        if excluded >= set(table):
            break
        for interface, filters in table.items():
            for place, conjunction in enumerate(filters):
                for constraint in dict.fromkeys(conjunction):
                    if constraint.name != attribute or interface in excluded or not holds(constraint, attributes):
                        continue
                    counters[interface, place] = counters.get((interface, place), 0) + 1
                    if counters[interface, place] == len(set(conjunction)):
                        output.append(interface)
                        excluded.add(interface)
        steps.append(Step(attribute, dict(counters), frozenset(excluded), tuple(output)))
    return steps
