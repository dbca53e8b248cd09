"""Who wants what, network-wide, as one router keeps it: its own pages, everybody else's, and who is away. UNTRUSTED.

Belongs to the event loop; ``keeps_for`` alone is asked by the links' thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute import limits
from secroute.errors import LimitError, SecrouteError
from secroute.opaque import EncodedFilters, Scope
from secroute.overlay.adverts import OwnPages, Page, PageBook
from secroute.overlay.linkstate import router_id
from secroute.router.links_view import OriginTables
from secroute.router.logs import Log
from secroute.router.parcels import Kind
from secroute.wire._generated.overlay_pb2 import FilterPage
from secroute.wire.link_frames import PageFrame, page_from_pb, page_to_pb

ORDINARY_HOLD_S = 30.0  # messages wait so long for the ordinary subscriptions of a router that went away


class Demands:
    """Own pages out, others' pages in; the matching tables follow."""

    def __init__(self, key: Ed25519PrivateKey, tables: OriginTables, log: Log) -> None:
        self._router = router_id(key.public_key().public_bytes_raw())
        self._own = OwnPages(key)
        self._asked: dict[int, dict[int, EncodedFilters]] = {}
        """What every local endpoint asks for, by identity of the filters."""
        self._book = PageBook()
        self._tables = tables
        self._log = log
        self._away_since: dict[bytes, float] = {}
        self._writes: dict[tuple[bytes, int], bytes] = {}
        self._dropped: list[bytes] = []

    def restore(self, stored: Iterable[bytes]) -> None:
        """Others' pages from disk; all their routers are away until the network is known."""
        for data in stored:
            try:
                page = page_of(page_from_pb(FilterPage.FromString(data)))
                new, _ = self._book.take(page)
            except SecrouteError as error:
                self._log.error("page-unreadable", reason=str(error))
                continue
            if new:
                self._tables.replace(None, page)
        self._away_since = dict.fromkeys(self._book.origins(), time.monotonic())

    # --- own ---------------------------------------------------------------------------------------------------------

    def changed(self, endpoint: int, new: list[EncodedFilters], old: list[EncodedFilters] | None) -> None:
        """A local endpoint asks for other filters; ``old`` None: it gave up all."""
        durable = endpoint & 3 == Kind.DURABLE
        asked = self._asked.setdefault(endpoint, {})
        gone = list(asked.values()) if old is None else [part for part in old if id(part) in asked]
        for part in new:
            try:
                self._own.ask(part.scope, durable, part.bits)
                asked[id(part)] = part
            except LimitError as error:
                self._log.error("advertisements-full", reason=str(error))
        for part in gone:
            del asked[id(part)]
            self._own.give_up(part.scope, durable, part.bits)
        if not asked:
            del self._asked[endpoint]

    def flush(
        self, epochs: Iterable[tuple[bytes, tuple[int, ...]]], next_number: Callable[[int], int]
    ) -> list[PageFrame]:
        """Own pages that changed; ``epochs`` are (space, epochs with filters) of the durable subscriptions."""
        nothing = bytes(limits.PROFILE_DIGEST_BYTES)
        self._own.spool((Scope(space, 0, nothing), known) for space, known in set(epochs))
        return [frame_of(page) for page in self._own.flush(next_number)]

    def refresh(self) -> None:
        """Say everything again at the next flush."""
        self._own.refresh()

    # --- others ------------------------------------------------------------------------------------------------------

    def take(self, frame: PageFrame, reachable: Collection[bytes]) -> bool:
        """Whether a page is new, and must go on to other neighbours; raises if it is not valid."""
        page = page_of(frame)
        if page.origin == self._router:
            page.verify()
            self._own.heard_own(page)
            return False
        new, old = self._book.take(page)
        if new:
            self._tables.replace(old, page)
            if page.origin not in reachable:
                self._away_since.setdefault(page.origin, time.monotonic())
            self._writes[page.origin, page.index] = page_to_pb(frame).SerializeToString()
        return new

    def everything(self) -> list[PageFrame]:
        """All pages, for a new neighbour."""
        return [frame_of(page) for page in (*self._own.pages(), *self._book.pages())]

    def network_changed(self, reachable: Collection[bytes]) -> None:
        """Note who went away, and who is back."""
        now = time.monotonic()
        for origin in self._book.origins():
            if origin in reachable:
                self._away_since.pop(origin, None)
            else:
                self._away_since.setdefault(origin, now)

    def keeps_for(self, origin: bytes, durable: bool) -> bool:
        """Whether messages wait for a router that cannot be reached."""
        now = time.monotonic()
        return durable or now - self._away_since.get(origin, now) < ORDINARY_HOLD_S

    def forget(self, forget_s: float) -> list[bytes]:
        """Give up routers that have been away for too long; which."""
        now = time.monotonic()
        gone = [origin for origin, since in self._away_since.items() if now - since >= forget_s]
        for origin in gone:
            del self._away_since[origin]
            for page in self._book.drop(origin):
                self._tables.replace(page, None)
            self._writes = {key: data for key, data in self._writes.items() if key[0] != origin}
        self._dropped += gone
        return gone

    def take_writes(self) -> tuple[list[tuple[bytes, int, bytes]], list[bytes]]:
        """(pages to store, routers to drop from the store) since the last time."""
        writes, dropped = [(*key, data) for key, data in self._writes.items()], self._dropped
        self._writes, self._dropped = {}, []
        return writes, dropped

    def put_back(self, writes: list[tuple[bytes, int, bytes]], dropped: list[bytes]) -> None:
        """They were not stored after all; what has come since is newer."""
        gone = set(self._dropped)
        self._writes = {(origin, index): data for origin, index, data in writes if origin not in gone} | self._writes
        self._dropped = dropped + self._dropped

    def filters(self) -> dict[bytes, int]:
        """Every other router heard of, and how many filters it advertises."""
        return {origin: self._book.filters(origin) for origin in sorted(self._book.origins())}


def frame_of(page: Page) -> PageFrame:
    """A page as it travels."""
    head = (page.public_key, page.sequence, page.index, page.scope, page.durable)
    return PageFrame(*head, page.bits, page.epochs, page.signature)


def page_of(frame: PageFrame) -> Page:
    """A page as it came; not verified."""
    head = (frame.public_key, frame.sequence, frame.index, frame.scope, frame.durable)
    return Page(*head, frame.bits, frame.epochs, frame.signature)
