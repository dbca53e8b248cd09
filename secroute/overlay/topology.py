"""Generators of networks by name: ``ring:n``, ``line:n``, ``star:n``, ``tree:n,d``, ``powerlaw:n``.

UNTRUSTED side, pure: the only randomness comes from the seed, so a name and a seed always give the same network.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from secroute import limits
from secroute.errors import OverlayError
from secroute.overlay.graph import Graph

Pairs = list[tuple[int, int]]

POWERLAW_LINKS = 2  # links that every newcomer makes; 2 gives cycles, 1 would give a tree


def _ring(n: int) -> Pairs:
    return _line(n) + ([(n - 1, 0)] if n > 2 else [])


def _line(n: int) -> Pairs:
    return [(i, i + 1) for i in range(n - 1)]


def _star(n: int) -> Pairs:
    return [(0, i) for i in range(1, n)]


def _tree(n: int, degree: int) -> Pairs:
    """A complete tree, level by level; ``degree`` is the number of children."""
    return [((i - 1) // degree, i) for i in range(1, n)]


def _powerlaw(n: int, rng: random.Random) -> Pairs:
    """Preferential attachment: a newcomer links to routers in proportion to the links they have already."""
    pairs: Pairs = [(0, 1)] if n > 1 else []
    ends = [0, 1]
    for newcomer in range(2, n):
        chosen: set[int] = set()
        while len(chosen) < POWERLAW_LINKS:
            chosen.add(rng.choice(ends))
        for old in sorted(chosen):
            pairs.append((old, newcomer))
            ends += (old, newcomer)
    return pairs


_PLAIN: dict[str, Callable[[int], Pairs]] = {"ring": _ring, "line": _line, "star": _star}
FORMS = "ring:n, line:n, star:n, tree:n,d or powerlaw:n"


def _number(text: str, spec: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= limits.OVERLAY_ROUTERS_MAX or len(text) > 9:
        raise OverlayError(f"topology {spec[:64]!r}: {what} must be 1..{limits.OVERLAY_ROUTERS_MAX}")
    return int(text)


def generate(spec: str, *, seed: int = 0, weight_max: int = 1) -> Graph:
    """The network named by ``spec``; weights are 1, or random in ``1..weight_max``."""
    kind, _, size = spec.partition(":")
    numbers = size.split(",")
    if kind not in (*_PLAIN, "tree", "powerlaw") or len(numbers) != (2 if kind == "tree" else 1):
        raise OverlayError(f"no topology {spec[:64]!r}: it must be {FORMS}")
    rng = random.Random(f"{spec}/{seed}")  # noqa: S311 - a reproducible network, not a secret
    n = _number(numbers[0], spec, "the number of routers")
    if kind == "tree":
        pairs = _tree(n, _number(numbers[1], spec, "the number of children"))
    elif kind == "powerlaw":
        pairs = _powerlaw(n, rng)
    else:
        pairs = _PLAIN[kind](n)
    return Graph.numbered(n, [(a, b, rng.randint(1, weight_max)) for a, b in pairs])
