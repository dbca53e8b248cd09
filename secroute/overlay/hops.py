"""The schemes' forwarding step for whole batches: who wants which row, by router, becomes rows per neighbour.

UNTRUSTED side, pure, column by column. The same rules as ``overlay.schemes`` (a test compares them), for live routers,
which match a batch against every origin's filters once and keep no other tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from secroute.errors import OverlayError
from secroute.overlay.paths import Trees
from secroute.overlay.schemes import SCHEMES

Wanted = npt.NDArray[np.bool_]
"""``bool[rows, routers]``: which router's receivers want which message."""


@dataclass(frozen=True, slots=True)
class Hop:
    """What goes to one neighbour."""

    neighbour: int
    rows: npt.NDArray[np.int64]
    source: int
    """The source to write into the header."""
    destinations: Wanted | None
    """DRP alone: for those rows, the routers behind this neighbour that they are for."""


class Hops:
    """One router's forwarding in one graph."""

    def __init__(self, scheme: str, trees: Trees, node: int) -> None:
        if scheme not in SCHEMES:
            raise OverlayError(f"no scheme {scheme[:32]!r}: it must be one of {', '.join(SCHEMES)}")
        self.names_destinations = scheme == "drp"
        self._scheme = scheme
        self._trees = trees
        self._node = node
        self._toward = np.array([trees.parent(x, node) for x in range(len(trees.graph))], np.int64)

    def expected_from(self, source: int, neighbour: int) -> bool:
        """Whether what ``source`` sends comes here through that neighbour."""
        return self._trees.parent(source, self._node) == neighbour

    def _behind(self, source: int, child: int) -> Wanted:
        """The routers for whose sake a message of ``source`` goes on to ``child``."""
        if self._scheme in ("pif", "drp"):
            return np.asarray(self._toward == child)
        subtree = self._trees.subtree(source, child)
        return np.array([bool(subtree >> x & 1) for x in range(len(self._toward))])

    def _out_source(self, source: int, children: tuple[int, ...]) -> int:
        if self._scheme != "ips":
            return source
        same = all(self._trees.subtree(self._node, w) == self._trees.subtree(source, w) for w in children)
        return self._node if same else source

    def next(self, source: int, wanted: Wanted) -> list[Hop]:
        """The hops of a batch; for DRP ``wanted`` are the destinations that the header names."""
        if self.names_destinations:
            children = tuple(sorted({int(w) for w in self._toward[wanted.any(0)] if w >= 0}))
        else:
            children = self._trees.children(source, self._node)
        out = self._out_source(source, children)
        hops = []
        for child in children:
            part = wanted & self._behind(source, child)
            rows = np.flatnonzero(part.any(1))
            if len(rows):
                hops.append(Hop(child, rows, out, part[rows] if self.names_destinations else None))
        return hops
