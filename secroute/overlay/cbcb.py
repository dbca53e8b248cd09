"""CBCB over encoded filters: how PIF's tables come about by advertisements, and narrow again by requests and replies.

UNTRUSTED side, pure; one instance per router, scope and graph. A filter f of origin x travels down T_x; it stops at u
only if a live, propagated g of origin y from the same neighbour covers it *and* the subtree of u in T_x is within
that in T_y: then whoever is not told of f has been told of g, and sends the same way. Links deliver in order.
``pull.py`` is the other half: sender requests and update replies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from secroute import limits
from secroute.errors import LimitError, OverlayError
from secroute.overlay.cbcb_events import (
    Advertise,
    Arrived,
    Event,
    Filter,
    Heard,
    Key,
    Message,
    Pull,
    Reply,
    Request,
    Reset,
    Send,
    Subscribe,
    Synced,
    Unsubscribe,
    Unwanted,
    Withdraw,
)
from secroute.overlay.paths import Trees
from secroute.overlay.pull import Narrowing, PullState

UNWANTED_MAX = 16  # messages in vain from one neighbour before it is told
__all__ = [
    "Advertise",
    "Arrived",
    "Cbcb",
    "Event",
    "Filter",
    "Heard",
    "Key",
    "Message",
    "Pull",
    "Reply",
    "Request",
    "Reset",
    "Send",
    "Subscribe",
    "Synced",
    "Unsubscribe",
    "Unwanted",
    "Withdraw",
    "covers",
    "subtree_within",
]


def covers(g: Filter, f: Filter) -> bool:
    """Whatever matches f matches g."""
    return g & ~f == 0


def subtree_within(trees: Trees, node: int, origin: int, cover_origin: int) -> bool:
    """The safe rule: everybody whom ``origin`` reaches through ``node``, ``cover_origin`` reaches through it too."""
    return trees.subtree(origin, node) & ~trees.subtree(cover_origin, node) == 0


class Cbcb:
    """One router's advertisements. ``may_stop`` is there so that tests can show what a weaker rule loses."""

    def __init__(
        self,
        node: int,
        trees: Trees,
        *,
        may_stop: Callable[[Trees, int, int, int], bool] = subtree_within,
        withdrawals: bool = True,
    ) -> None:
        """Without ``withdrawals``, as in the papers, nobody hears of receivers that leave until somebody asks."""
        self.node = node
        self._trees = trees
        self._may_stop = may_stop
        self._withdrawals = withdrawals
        self._pull = PullState(node, trees)
        self._unwanted: Counter[int] = Counter()
        self._stale: dict[int, set[Key]] = {}
        """After a reset: what the neighbour said over the old link and has not repeated yet."""
        self._local: Counter[Filter] = Counter()
        self._known: dict[int, dict[Key, Key | None]] = {}
        """neighbour (or this router itself) -> advertisement -> what stopped it; None: it was propagated."""
        self._tables: dict[int, list[Filter]] = {}

    def step(self, event: Event, now: float) -> list[Send]:
        """Take one event. Advertisements need no clock: only remembered replies grow old."""
        self._pull.now = now
        match event:
            case Subscribe(filter=bits):
                self._local[bits] += 1
                return self._learn(self.node, (self.node, bits)) if self._local[bits] == 1 else []
            case Unsubscribe(filter=bits):
                return self._give_up(bits)
            case Heard(neighbour=neighbour, message=message):
                return self._heard(neighbour, message)
            case Pull():
                return self._pull.ask()
            case Reset(neighbour=neighbour):
                return self._reset(neighbour)
            case Arrived(neighbour=neighbour, wanted=wanted):
                return self._arrived(neighbour, wanted)

    def _arrived(self, neighbour: int, wanted: bool) -> list[Send]:
        self._unwanted[neighbour] = 0 if wanted else self._unwanted[neighbour] + 1
        if self._unwanted[neighbour] < UNWANTED_MAX:
            return []
        self._unwanted[neighbour] = 0
        return [Send(neighbour, Unwanted())]

    def _reset(self, neighbour: int) -> list[Send]:
        self._stale[neighbour] = set(self._known.get(neighbour, ()))
        self._pull.lost(neighbour)
        sends = []
        for known in self._known.values():
            for key, stopped_by in known.items():
                if stopped_by is None and neighbour in self._trees.children(key[0], self.node):
                    sends.append(Send(neighbour, Advertise(*key)))
        return [*sends, Send(neighbour, Synced())]

    def _give_up(self, bits: Filter) -> list[Send]:
        if not self._local[bits]:
            raise OverlayError("no local receiver asks for this filter")
        self._local[bits] -= 1
        if self._local[bits]:
            return []
        del self._local[bits]
        return self._forget(self.node, (self.node, bits))

    def _heard(self, neighbour: int, message: Message) -> list[Send]:
        match message:
            case Advertise() | Withdraw():
                self._require_on_the_way(neighbour, message.origin)
                return self._told(neighbour, message)
            case Request(issuer=issuer):
                self._require_on_the_way(neighbour, issuer)
                return self._pull.asked(message, tuple((self.node, bits) for bits in sorted(self._local)))
            case Reply():
                narrow = self._pull.answered(neighbour, message)
                own = tuple((self.node, bits) for bits in sorted(self._local))
                return self._narrow(neighbour, narrow) + self._pull.finish(message, own)
            case Unwanted():
                return self._pull.ask()
            case Synced():
                sends: list[Send] = []
                for key in self._stale.pop(neighbour, set()):
                    sends += self._forget(neighbour, key)
                return sends

    def _require_on_the_way(self, neighbour: int, origin: int) -> None:
        n = len(self._trees.graph)
        if not 0 <= origin < n or neighbour != self._trees.parent(origin, self.node):
            # Only the way back to the origin counts; this also ends loops and keeps liars to their own side.
            raise OverlayError(f"router {neighbour} is not on the way from router {origin} to {self.node}")

    def _told(self, neighbour: int, message: Advertise | Withdraw) -> list[Send]:
        key = (message.origin, message.filter)
        self._pull.passed(neighbour, key, isinstance(message, Advertise))
        self._stale.get(neighbour, set()).discard(key)
        if isinstance(message, Withdraw):
            return self._forget(neighbour, key)
        if len(self._known.get(neighbour, ())) >= limits.LINK_FILTERS_MAX:
            raise LimitError(f"more than {limits.LINK_FILTERS_MAX} filters from router {neighbour}")
        return self._learn(neighbour, key)

    def _narrow(self, neighbour: int, narrow: Narrowing) -> list[Send]:
        """Replace what is known of the origins that answered; add before remove, as always."""
        sends: list[Send] = []
        for key in narrow.entries:
            sends += self._learn(neighbour, key)
        known = self._known.get(neighbour, {})
        for key in [key for key in known if narrow.origins >> key[0] & 1 and key not in narrow.keep]:
            sends += self._forget(neighbour, key)
        return sends

    def _stopper(self, known: dict[Key, Key | None], key: Key) -> Key | None:
        origin, bits = key
        for other, stopped_by in known.items():
            live = stopped_by is None and other != key and covers(other[1], bits)
            if live and self._may_stop(self._trees, self.node, origin, other[0]):
                return other
        return None

    def _tell(self, message: Advertise | Withdraw) -> list[Send]:
        return [Send(child, message) for child in self._trees.children(message.origin, self.node)]

    def _learn(self, came_from: int, key: Key) -> list[Send]:
        known = self._known.setdefault(came_from, {})
        if key in known:
            return []
        self._tables.pop(came_from, None)
        known[key] = stopped_by = self._stopper(known, key)
        return self._tell(Advertise(*key)) if stopped_by is None else []

    def _forget(self, came_from: int, key: Key) -> list[Send]:
        known = self._known.get(came_from, {})
        if key not in known:
            return []
        self._tables.pop(came_from, None)
        if known.pop(key) is not None:
            return []  # it was stopped here: nobody downstream has heard of it
        sends: list[Send] = []
        for other in [other for other, stopped_by in known.items() if stopped_by == key]:
            known[other] = stopped_by = self._stopper(known, other)
            if stopped_by is None:
                sends += self._tell(Advertise(*other))
        # Add before remove: the link keeps the order, so at no moment is a wanted message matched by neither.
        return sends + (self._tell(Withdraw(*key)) if self._withdrawals else [])

    def table(self, neighbour: int) -> list[Filter]:
        """The match table of an interface (or of the local receivers): distinct filters that no other covers."""
        found = self._tables.get(neighbour)
        if found is None:
            found = []
            # Fewer bits first: a filter is covered only by one with fewer bits.
            for bits in sorted({bits for _, bits in self._known.get(neighbour, {})}, key=lambda f: (f.bit_count(), f)):
                if not any(covers(kept, bits) for kept in found):
                    found.append(bits)
            self._tables[neighbour] = found
        return found

    def forward(self, source: int, message: int) -> list[int]:
        """The neighbours to which a message of ``source`` goes on."""
        children = self._trees.children(source, self.node)
        return [w for w in children if any(covers(f, message) for f in self.table(w))]

    def wants(self, message: int) -> bool:
        """Whether a local receiver asks for the message."""
        return any(covers(f, message) for f in self._local)

    @property
    def stopped(self) -> int:
        """How many known advertisements were not passed on because they are covered."""
        return sum(by is not None for known in self._known.values() for by in known.values())
