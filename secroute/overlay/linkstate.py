"""Link states: every router signs whom it is linked to, and floods it; everybody builds the same graph from them.

UNTRUSTED side, pure. A router's id is derived from its public key, so nobody can speak for another. An edge counts
only if both ends name it. Links deliver in order and without loss while they are up; sequence numbers are handed out
for saving before anything signed with them is sent, so that they survive a restart.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from secroute import limits
from secroute.errors import LimitError, LinkStateError
from secroute.overlay.graph import Graph


def router_id(public_key: bytes) -> bytes:
    """The id that belongs to a raw Ed25519 public key."""
    digest = hashlib.blake2b(public_key, digest_size=limits.ROUTER_ID_BYTES, person=b"secroute-router")
    return digest.digest()


@dataclass(frozen=True, slots=True)
class LinkState:
    """What one router says about its links; made by :func:`sign`, to be trusted only after :meth:`verify`."""

    public_key: bytes
    sequence: int
    links: tuple[tuple[bytes, int], ...]
    """(neighbour's id, weight), ids ascending."""
    changed: int
    """The sequence number with which the links last changed: a mere refresh does not make another network."""
    signature: bytes

    @property
    def router(self) -> bytes:
        """The id of the router that speaks."""
        return router_id(self.public_key)

    def verify(self) -> None:
        """Raise unless the record is within bounds, well-formed, and signed by the router that it is about."""
        if len(self.links) > limits.ROUTER_LINKS_MAX:
            raise LimitError(f"{len(self.links)} links of one router, at most {limits.ROUTER_LINKS_MAX}")
        if not 1 <= self.sequence <= limits.SEQUENCE_MAX:
            raise LinkStateError(f"sequence number {self.sequence} is outside 1..{limits.SEQUENCE_MAX}")
        if not 1 <= self.changed <= self.sequence:
            raise LinkStateError(f"links that changed at {self.changed} cannot be told of at {self.sequence}")
        ids = [neighbour for neighbour, _ in self.links]
        if ids != sorted(set(ids)) or any(len(i) != limits.ROUTER_ID_BYTES for i in ids):
            raise LinkStateError("the links of a router must name different ids of the right length, ascending")
        if any(not 1 <= weight <= limits.LINK_WEIGHT_MAX for _, weight in self.links):
            raise LinkStateError(f"weights must be 1..{limits.LINK_WEIGHT_MAX}")
        try:
            key = Ed25519PublicKey.from_public_bytes(self.public_key)
            key.verify(self.signature, _signed_bytes(self.public_key, self.sequence, self.changed, self.links))
        except (InvalidSignature, ValueError):
            raise LinkStateError(f"link state of router {self.router.hex()} is not signed by it") from None


def _signed_bytes(public_key: bytes, sequence: int, changed: int, links: tuple[tuple[bytes, int], ...]) -> bytes:
    body = b"".join(neighbour + struct.pack("<I", weight) for neighbour, weight in links)
    return b"secroute/link-state/1" + public_key + struct.pack("<QQI", sequence, changed, len(links)) + body


def sign(key: Ed25519PrivateKey, sequence: int, links: dict[bytes, int], changed: int = 0) -> LinkState:
    """A signed link state; ``changed`` is the present sequence number unless it only refreshes an older one."""
    public = key.public_key().public_bytes_raw()
    ordered = tuple(sorted(links.items()))
    changed = changed or sequence
    signature = key.sign(_signed_bytes(public, sequence, changed, ordered))
    return LinkState(public, sequence, ordered, changed, signature)


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A neighbour is connected, and was authenticated as this id."""

    neighbour: bytes
    weight: int = 1


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The connection to a neighbour is gone."""

    neighbour: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """A link state came in from a neighbour."""

    neighbour: bytes
    state: LinkState


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class SaveSequence:
    """Must be durable before any :class:`Send` after it is carried out."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send a link state to a neighbour."""

    neighbour: bytes
    state: LinkState


@dataclass(frozen=True, slots=True)
class GraphChanged:
    """The graph is another one now; trees must be computed again."""


Event = LinkUp | LinkDown | Heard | Tick
Effect = SaveSequence | Send | GraphChanged


class LinkStates:
    """One router's view of the network. Not thread-safe; the same events always give the same effects."""

    def __init__(
        self, key: Ed25519PrivateKey, *, saved_sequence: int = 0, refresh_s: float = 60.0, expiry_s: float = 200.0
    ) -> None:
        if not refresh_s < expiry_s:
            raise LinkStateError(f"link states must be refreshed ({refresh_s} s) before they expire ({expiry_s} s)")
        self._key = key
        self.router = router_id(key.public_key().public_bytes_raw())
        self._sequence = saved_sequence
        self._refresh_s, self._expiry_s = refresh_s, expiry_s
        self._links: dict[bytes, int] = {}
        self._states: dict[bytes, tuple[LinkState, float]] = {}
        # The highest number seen of every router; it outlives the record, so that an old one is not taken for new.
        self._seen: dict[bytes, int] = {}
        self._edges_of: dict[bytes, dict[bytes, int]] = {}
        self._edges: dict[tuple[bytes, bytes], int] = {}
        self._changed = False

    def step(self, event: Event, now: float) -> list[Effect]:
        """Take one event; raises on a link state that is not valid (the caller isolates the neighbour)."""
        effects: list[Effect]
        match event:
            case LinkUp(neighbour, weight):
                effects = self._link_up(neighbour, weight, now)
            case LinkDown(neighbour):
                self._links.pop(neighbour, None)
                effects = self._originate(now)
            case Heard(neighbour, state):
                effects = self._heard(neighbour, state, now)
            case Tick():
                effects = self._tick(now)
        if self._changed:
            self._changed = False
            effects.append(GraphChanged())
        return effects

    def _record(self, router: bytes, state: LinkState, now: float) -> None:
        self._states[router] = (state, now)
        self._seen[router] = state.sequence
        self._changed |= self._said(router, state)

    def _originate(self, now: float) -> list[Effect]:
        self._sequence += 1
        before = self._states.get(self.router)
        same = before is not None and dict(before[0].links) == self._links
        state = sign(self._key, self._sequence, self._links, before[0].changed if before and same else 0)
        self._record(self.router, state, now)
        return [SaveSequence(self._sequence), *(Send(to, state) for to in sorted(self._links))]

    def _link_up(self, neighbour: bytes, weight: int, now: float) -> list[Effect]:
        if neighbour == self.router:
            raise LinkStateError("a router is not its own neighbour")
        if len(self._links) >= limits.ROUTER_LINKS_MAX and neighbour not in self._links:
            raise LimitError(f"a router has at most {limits.ROUTER_LINKS_MAX} links")
        self._links[neighbour] = weight
        effects = self._originate(now)
        others = sorted(router for router in self._states if router != self.router)
        return effects + [Send(neighbour, self._states[router][0]) for router in others]

    def _heard(self, neighbour: bytes, state: LinkState, now: float) -> list[Effect]:
        if neighbour not in self._links:
            raise LinkStateError(f"{neighbour.hex()} is not a neighbour")
        router = state.router
        if state.sequence <= self._seen.get(router, 0):
            return []  # a duplicate or an old one: the usual end of a flood
        state.verify()
        if router == self.router:
            # Our own words from before a restart that lost its numbers: speak louder than them.
            self._sequence = state.sequence
            return self._originate(now)
        if router not in self._seen and len(self._seen) >= limits.OVERLAY_ROUTERS_MAX:
            raise LimitError(f"more than {limits.OVERLAY_ROUTERS_MAX} routers in the overlay")
        self._record(router, state, now)
        return [Send(to, state) for to in sorted(self._links) if to != neighbour]

    def _tick(self, now: float) -> list[Effect]:
        for router, (_, since) in list(self._states.items()):
            if router != self.router and now - since >= self._expiry_s:
                del self._states[router]
                self._changed |= self._said(router, None)
        own = self._states.get(self.router)
        return self._originate(now) if own is None or now - own[1] >= self._refresh_s else []

    def _said(self, router: bytes, state: LinkState | None) -> bool:
        """A router's word is another one now, or gone: keep edges that both ends name; whether any changed.

        Where the ends disagree about the weight, the higher one counts at both.
        """
        before = self._edges_of.pop(router, {})
        now = dict(state.links) if state is not None else {}
        if state is not None:
            self._edges_of[router] = now
        changed = False
        for other in before.keys() | now.keys():
            pair = (router, other) if router < other else (other, router)
            back = self._edges_of.get(other, {}).get(router)
            weight = max(now[other], back) if other in now and back is not None else None
            if self._edges.get(pair) != weight:
                changed = True
                if weight is None:
                    del self._edges[pair]
                else:
                    self._edges[pair] = weight
        return changed

    def states(self) -> list[LinkState]:
        """Every live record, this router's own among them."""
        return [state for state, _ in self._states.values()]

    def reachable(self) -> frozenset[bytes]:
        """This router, and whoever can be reached over edges that both ends name."""
        around: dict[bytes, list[bytes]] = {}
        for a, b in self._edges:
            around.setdefault(a, []).append(b)
            around.setdefault(b, []).append(a)
        found, pending = {self.router}, [self.router]
        while pending:
            for other in around.get(pending.pop(), ()):
                if other not in found:
                    found.add(other)
                    pending.append(other)
        return frozenset(found)

    def stamp(self) -> bytes:
        """Names this network: two routers with the same stamp have the same trees. No stamp ever comes again."""
        told = sorted((router, self._states[router][0].changed) for router in self.reachable() & self._states.keys())
        body = b"".join(router + struct.pack("<Q", changed) for router, changed in told)
        return hashlib.blake2b(body, digest_size=limits.STAMP_BYTES, person=b"secroute-stamp").digest()

    def component(self) -> Graph:
        """The part of the network that can be reached: routers with the same stamp number it the same way."""
        return self._graph_of(self.reachable())

    def graph(self) -> Graph:
        """The network as far as this router knows it: routers with a live record, edges that both ends name."""
        return self._graph_of({self.router, *self._states})

    def _graph_of(self, routers: Collection[bytes]) -> Graph:
        ids = tuple(sorted(routers))
        number = {router: i for i, router in enumerate(ids)}
        return Graph(ids, {(number[a], number[b]): w for (a, b), w in sorted(self._edges.items()) if a in number})
