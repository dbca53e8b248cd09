"""Live advertisements: what a router's own receivers ask for, in signed pages that every router keeps.

UNTRUSTED side, pure. A page is replaced as a whole, the highest sequence number wins, and only its origin can sign it:
a neighbour can neither widen nor take away what another router asks for. Pages do not depend on the graph, so a change
of paths leaves no moment with half-built tables; every scheme's tables are computed from them where they are needed.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from secroute import limits
from secroute.errors import LimitError, OverlayError
from secroute.opaque import Scope, Words, check_words
from secroute.overlay.linkstate import router_id

PAGE_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """Some filters of one origin in one scope; to be trusted only after :meth:`verify`."""

    public_key: bytes
    sequence: int
    index: int
    scope: Scope
    durable: bool
    """Asked for by durable subscriptions: messages wait for them while their router cannot be reached."""
    bits: Words
    epochs: tuple[int, ...] = ()
    """Not empty: a durable subscription of this space has filters in these epochs only, and must get everything of
    any other epoch later than the first of them."""
    signature: bytes = b""

    @property
    def origin(self) -> bytes:
        """The router that speaks."""
        return router_id(self.public_key)

    def signed_bytes(self) -> bytes:
        """What the signature is over."""
        scope, (count, words) = self.scope, self.bits.shape
        numbers = (self.sequence, self.index, scope.epoch, self.durable, words, count, len(self.epochs))
        head = struct.pack("<QIIBIII", *numbers) + scope.space + scope.profile
        epochs = struct.pack(f"<{len(self.epochs)}I", *self.epochs)
        return b"secroute/page/1" + self.public_key + head + epochs + self.bits.tobytes()

    def verify(self) -> None:
        """Raise unless the page is within bounds and signed by its origin."""
        check_words(self.bits, "page bits")
        if len(self.bits) > limits.PAGE_FILTERS_MAX or len(self.epochs) > limits.PAGE_FILTERS_MAX:
            raise LimitError(f"a page of {len(self.bits)} filters, at most {limits.PAGE_FILTERS_MAX}")
        if not 0 <= self.index < limits.ORIGIN_PAGES_MAX or not 1 <= self.sequence <= limits.SEQUENCE_MAX:
            raise LimitError(f"page {self.index}, sequence number {self.sequence}: out of range")
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(self.signature, self.signed_bytes())
        except (InvalidSignature, ValueError):
            raise OverlayError(f"page {self.index} of router {self.origin.hex()} is not signed by it") from None

    def wants_all(self, scope: Scope) -> bool:
        """Whether everything of a scope must go to the origin, unmatched."""
        later = bool(self.epochs) and scope.epoch > min(self.epochs) and scope.epoch not in self.epochs
        return later and scope.space == self.scope.space


def sign_page(key: Ed25519PrivateKey, page: Page) -> Page:
    """The page with its signature."""
    body = (page.public_key, page.sequence, page.index, page.scope, page.durable, page.bits, page.epochs)
    return Page(*body, key.sign(page.signed_bytes()))


Kind = tuple[Scope, int, bool, tuple[int, ...]]  # scope, words, durable, epochs


@dataclass(slots=True)
class _Sheet:
    """One of our own pages: what it says, and what it is about to say."""

    kind: Kind
    rows: dict[bytes, None] = field(default_factory=dict)
    gone: set[bytes] = field(default_factory=set)
    gained: bool = False
    lost: bool = False
    sequence: int = 0


class OwnPages:
    """This router's own advertisements. Changes are collected; :meth:`flush` makes the pages to send."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self._public = key.public_key().public_bytes_raw()
        self._asked: dict[Kind, Counter[bytes]] = {}
        self._place: dict[tuple[Kind, bytes], int] = {}
        self._open: dict[Kind, int] = {}
        """The page with room that takes the next filter of its kind."""
        self._sheets: list[_Sheet] = []
        self._pages: dict[int, Page] = {}

    def ask(self, scope: Scope, durable: bool, bits: Words) -> None:
        """Local receivers ask for filters (each row counts once more)."""
        kind: Kind = (scope, bits.shape[1], durable, ())
        asked = self._asked.setdefault(kind, Counter())
        for row in _rows(bits):
            asked[row] += 1
            if asked[row] == 1:
                self._write(kind, row)

    def give_up(self, scope: Scope, durable: bool, bits: Words) -> None:
        """Local receivers give filters up; one that nobody asks for is left alone."""
        kind: Kind = (scope, bits.shape[1], durable, ())
        asked = self._asked.get(kind, Counter())
        for row in _rows(bits):
            if asked[row] == 1:
                self._strike(kind, row)
            asked[row] = max(0, asked[row] - 1)

    def spool(self, spaces: Iterable[tuple[Scope, tuple[int, ...]]]) -> None:
        """All (space, epochs with filters) of the durable subscriptions here, whatever they were before."""
        wanted: set[Kind] = {(scope, 1, True, epochs) for scope, epochs in spaces}
        there = {sheet.kind for sheet in self._sheets if sheet.kind[3] and b"" in sheet.rows}
        for kind in wanted - there:
            self._write(kind, b"")
        for kind in there - wanted:
            self._strike(kind, b"")

    def _write(self, kind: Kind, row: bytes) -> None:
        place = self._place.get((kind, row))
        if place is None:
            place = self._open.get(kind)
        if place is None or len(self._sheets[place].rows) >= PAGE_ROWS:
            if len(self._sheets) >= limits.ORIGIN_PAGES_MAX:
                raise LimitError(f"more than {limits.ORIGIN_PAGES_MAX} pages of filters")
            place = len(self._sheets)
            self._sheets.append(_Sheet(kind))
            self._open[kind] = place
        sheet = self._sheets[place]
        self._place[kind, row] = place
        sheet.rows[row] = None
        sheet.gone.discard(row)
        sheet.gained = True

    def _strike(self, kind: Kind, row: bytes) -> None:
        self._open[kind] = place = self._place.pop((kind, row))
        sheet = self._sheets[place]
        del sheet.rows[row]
        sheet.gone.add(row)
        sheet.lost = True

    def heard_own(self, page: Page) -> None:
        """A page of ours from before a restart: say it again, louder, as it is now."""
        while page.index >= len(self._sheets):
            self._sheets.append(_Sheet((page.scope, page.bits.shape[1], page.durable, page.epochs)))
        sheet, said = self._sheets[page.index], self._pages.get(page.index)
        if page.sequence >= sheet.sequence and (said is None or page.signature != said.signature):
            sheet.sequence = page.sequence
            sheet.lost = True

    def refresh(self) -> None:
        """Say everything again at the next flush."""
        for sheet in self._sheets:
            sheet.lost = True

    def flush(self, next_sequence: Callable[[int], int]) -> list[Page]:
        """Pages to send, in this order. First everything gained, nothing lost; then what is lost: no moment without."""
        made: list[Page] = []
        for gaining in (True, False):
            for index, sheet in enumerate(self._sheets):
                if sheet.gained if gaining else sheet.lost:
                    rows = [*sheet.rows, *(sheet.gone if gaining else ())]
                    sheet.sequence = next_sequence(sheet.sequence)
                    self._pages[index] = self._page(index, sheet, rows)
                    made.append(self._pages[index])
        for sheet in self._sheets:
            sheet.gained = sheet.lost = False
            sheet.gone.clear()
        return made

    def _page(self, index: int, sheet: _Sheet, rows: list[bytes]) -> Page:
        scope, words, durable, epochs = sheet.kind
        bits = np.frombuffer(b"".join(rows), "<u8").reshape(-1, words)
        said = epochs if b"" in rows else ()
        return sign_page(self._key, Page(self._public, sheet.sequence, index, scope, durable, bits, said))

    def pages(self) -> list[Page]:
        """The newest version of every page, content before empty pages."""
        return sorted(self._pages.values(), key=lambda page: not (len(page.bits) or page.epochs))


def _rows(bits: Words) -> Iterator[bytes]:
    data, width = bits.tobytes(), bits.shape[1] * 8
    return (data[at : at + width] for at in range(0, len(data), width))


class PageBook:
    """What all other routers advertise, as far as it has come here."""

    def __init__(self) -> None:
        self._pages: dict[bytes, dict[int, Page]] = {}

    def take(self, page: Page) -> tuple[bool, Page | None]:
        """(whether the page is new, the page that it replaces); raises if it is not valid."""
        known = self._pages.get(page.origin, {})
        old = known.get(page.index)
        if old is not None and page.sequence <= old.sequence:
            return False, None
        page.verify()
        if not known and len(self._pages) >= limits.OVERLAY_ROUTERS_MAX:
            raise LimitError(f"advertisements of more than {limits.OVERLAY_ROUTERS_MAX} routers")
        total = sum(len(p.bits) for p in known.values()) - (len(old.bits) if old else 0) + len(page.bits)
        if total > limits.LINK_FILTERS_MAX:
            raise LimitError(f"router {page.origin.hex()} advertises more than {limits.LINK_FILTERS_MAX} filters")
        self._pages.setdefault(page.origin, {})[page.index] = page
        return True, old

    def drop(self, origin: bytes) -> list[Page]:
        """Forget a router; what it advertised."""
        return list(self._pages.pop(origin, {}).values())

    def origins(self) -> list[bytes]:
        """Every router heard of."""
        return list(self._pages)

    def pages(self) -> list[Page]:
        """Every page."""
        return [page for known in self._pages.values() for page in known.values()]

    def filters(self, origin: bytes) -> int:
        """How many filters a router advertises; may be asked from another thread."""
        return sum(len(page.bits) for page in list(self._pages.get(origin, {}).values()))
