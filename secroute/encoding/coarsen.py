"""Coarsening: fewer, wider alternatives for a predicate that has too many for the wire.

TRUSTED, pure. The law holds because a merged set is what all the sets it replaces have in common.
"""

from __future__ import annotations

from secroute.encoding.plan import NamedToken


def coarsen(wide: list[frozenset[NamedToken]], most: int) -> list[frozenset[NamedToken]]:
    """At most so many token sets, each implied by every set it replaces.

    Sets are merged into what they share, the ones that share an attribute first, so that nothing becomes empty (and
    thereby everything) as long as the attributes asked for are not too many themselves.
    """
    merged = sorted(set(wide), key=sorted)
    size = 2
    while len(merged) > most:
        by_name: dict[str, list[frozenset[NamedToken]]] = {}
        for asked in merged:
            by_name.setdefault(min(name for name, _ in asked) if asked else "", []).append(asked)
        # The names with the most alternatives first, and no more merging than is needed.
        surplus, out = len(merged) - most, []
        for group in sorted(by_name.values(), key=len, reverse=True):
            joined: list[frozenset[NamedToken]] = []
            at = 0
            while at < len(group):
                width = min(size, len(group) - at, surplus + 1)
                joined.append(frozenset.intersection(*group[at : at + width]))
                surplus -= width - 1
                at += width
            out += joined
        fewer = sorted(set(out), key=sorted)
        if len(fewer) == len(merged):
            # One alternative a name, and still too many names: neighbours are joined whatever they share.
            size = -(-len(fewer) // most)
            fewer = [frozenset.intersection(*fewer[at : at + size]) for at in range(0, len(fewer), size)]
        merged = list(dict.fromkeys(fewer))
        size *= 2
    return merged
