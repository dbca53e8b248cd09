"""Sender requests and update replies: how CBCB's tables become narrow again.

UNTRUSTED side, pure. A request floods its issuer's tree; every router answers with what its receivers and all routers
behind it want, by origin. The reply of a link replaces what was known of those origins there, except for what was
advertised or withdrawn on that link since the request passed: replies wait for one another and may be overtaken. A
reply that does not come narrows nothing. A reply is reused while it is young and nothing has passed on its link.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from secroute import limits
from secroute.errors import LimitError, OverlayError
from secroute.overlay.cbcb_events import Key, Reply, Request, Send
from secroute.overlay.paths import Trees

CACHE_AGE = 60.0  # receivers may leave silently, so that no remembered reply stays right for ever


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a reply means for one link."""

    origins: int
    """The routers (bit mask) of which everything is known now."""
    entries: tuple[Key, ...] = ()
    keep: frozenset[Key] = frozenset()


@dataclass(slots=True)
class _Open:
    """A request that has passed here and is not answered yet."""

    waiting: set[int]
    entries: list[Key] = field(default_factory=list)
    since: dict[int, dict[Key, bool]] = field(default_factory=dict)
    """Link -> what was advertised (True) or withdrawn (False) there since the request passed."""


class PullState:
    """One router's open requests and remembered replies."""

    def __init__(self, node: int, trees: Trees) -> None:
        self._node = node
        self._trees = trees
        self._number = 0
        self._open: dict[tuple[int, int], _Open] = {}
        self._newest: dict[int, int] = {}
        self._cache: dict[int, tuple[int, tuple[Key, ...], float]] = {}
        """Link -> (the routers behind it, what they want, since when this is known)."""
        self.now = 0.0
        self.reused = 0

    @property
    def waiting(self) -> bool:
        """Whether a request of this router is under way."""
        return any(issuer == self._node for issuer, _ in self._open)

    def ask(self) -> list[Send]:
        """Begin a request, unless one is under way."""
        if self.waiting:
            return []
        self._number += 1
        return self._flood(Request(self._node, self._number), ())

    def asked(self, request: Request, own: tuple[Key, ...]) -> list[Send]:
        """A request of another router; ``own`` is what the receivers here want."""
        if request.number <= self._newest.get(request.issuer, 0):
            return []
        self._newest[request.issuer] = request.number
        for issuer, number in list(self._open):
            if issuer == request.issuer:
                del self._open[issuer, number]  # the issuer has given that one up
        return self._flood(request, own)

    def _flood(self, request: Request, own: tuple[Key, ...]) -> list[Send]:
        children = self._trees.children(request.issuer, self._node)
        now = _Open(set(children))
        self._open[request.issuer, request.number] = now
        sends = []
        for child in children:
            behind = self._trees.subtree(request.issuer, child)
            cached = self._cache.get(child)
            if cached is not None and cached[0] == behind and self.now - cached[2] < CACHE_AGE:
                self.reused += 1
                now.waiting.discard(child)
                now.entries += cached[1]
            else:
                sends.append(Send(child, request))
        return sends + self._answer(request.issuer, request.number, own)

    def _answer(self, issuer: int, number: int, own: tuple[Key, ...]) -> list[Send]:
        now = self._open[issuer, number]
        if now.waiting:
            return []
        del self._open[issuer, number]
        if issuer == self._node:
            return []
        return [Send(self._trees.parent(issuer, self._node), Reply(issuer, number, (*own, *now.entries)))]

    def passed(self, neighbour: int, key: Key, advertised: bool) -> None:
        """An advertisement or withdrawal came over a link."""
        self._cache.pop(neighbour, None)
        for now in self._open.values():
            if neighbour in now.waiting:
                now.since.setdefault(neighbour, {})[key] = advertised

    def answered(self, neighbour: int, reply: Reply) -> Narrowing:
        """A reply came; raises if it speaks for routers that are not behind that link."""
        if len(reply.entries) > limits.LINK_FILTERS_MAX:
            raise LimitError(f"a reply of {len(reply.entries)} filters, at most {limits.LINK_FILTERS_MAX}")
        now = self._open.get((reply.issuer, reply.number))
        if now is None or neighbour not in now.waiting:
            return Narrowing(0)  # given up, or answered already
        behind = self._trees.subtree(reply.issuer, neighbour)
        if any(not behind >> origin & 1 for origin, _ in reply.entries):
            raise OverlayError(f"router {neighbour} answers for routers that are not behind it")
        since = now.since.get(neighbour, {})
        entries = tuple(key for key in reply.entries if since.get(key, True))
        now.waiting.discard(neighbour)
        now.entries += entries
        if not since:
            self._cache[neighbour] = (behind, entries, self.now)
        return Narrowing(behind, entries, frozenset(entries) | {key for key, there in since.items() if there})

    def finish(self, reply: Reply, own: tuple[Key, ...]) -> list[Send]:
        """After :meth:`answered`: the answer to whoever asked, if this was the last reply."""
        return self._answer(reply.issuer, reply.number, own) if (reply.issuer, reply.number) in self._open else []

    def lost(self, neighbour: int) -> None:
        """A link broke: what is not answered over it will not be, and narrows nothing."""
        self._cache.pop(neighbour, None)
        for key, now in list(self._open.items()):
            if neighbour in now.waiting:
                del self._open[key]
