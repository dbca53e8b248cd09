"""What a routing scheme is: three local functions, and an account of what it stores.

UNTRUSTED side, pure. ``forward`` and ``header`` both read the header as it came in; what ``header`` returns goes out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from secroute.overlay.predicates import Hits

# PSF, iPS and PIF carry a source; DRP carries, for every next hop, the destinations behind it as a bit mask.
Header = int | Mapping[int, int]


@dataclass(frozen=True, slots=True)
class TableSize:
    """What one router stores for a scheme."""

    filters: int
    entries: int
    """Predicates: one per interface (PIF), per source or class and edge (PSF, iPS), per receiver router (DRP)."""
    path_bits: int
    """Bits for trees, classes and next hops."""

    def bits(self, filter_bits: int) -> int:
        """All of it in bits."""
        return self.filters * filter_bits + self.path_bits


class Scheme(Protocol):
    """Routers are numbers; ``hits`` says which distinct filters the message includes (see ``Predicates.hits``)."""

    def init(self, source: int, hits: Hits) -> Header:
        """The first header of a message that enters the overlay at ``source``."""

    def header(self, node: int, header: Header) -> Header:
        """The header with which ``node`` sends on what came with ``header``."""

    def forward(self, node: int, header: Header, hits: Hits) -> tuple[int, ...]:
        """The neighbours to which ``node`` sends what came with ``header``."""

    def table_size(self, node: int) -> TableSize:
        """What ``node`` stores."""


def id_bits(routers: int) -> int:
    """Bits that tell one of so many routers from the others: the ``log n`` of the formulas."""
    return max(1, (routers - 1).bit_length())


def source_of(header: Header) -> int:
    """The header of a scheme that carries a source."""
    if not isinstance(header, int):
        raise TypeError("this scheme's header is a source, not a set of destinations")
    return header
