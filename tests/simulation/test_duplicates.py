"""The fourth rule: duplicates are judged per copy and outgoing link. Per message alone, a rerouted message is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute.opaque import EncodedBatch, Scope
from secroute.overlay import linkstate
from secroute.overlay.adverts import OwnPages
from secroute.overlay.linkstate import LinkStates
from secroute.router.guard import DuplicateGuard
from secroute.router.links_forward import Forwarder, Item, Routed
from secroute.router.links_store import LinkStore, LinkUnit, Numbers
from secroute.router.links_view import OriginTables, View
from secroute.wire.frames import Mode
from secroute.wire.link_frames import Header

SCOPE = Scope(b"s" * 16, 1, b"p" * 32)
KEYS = [Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2, 3)]
A, B, C = (linkstate.router_id(key.public_key().public_bytes_raw()) for key in KEYS)


class RouterB:
    """B of the triangle A, B, C. C wants everything; B is not on the way from A to C while A and C are linked."""

    def __init__(self, folder: Path) -> None:
        store = LinkStore(folder / "links.db", "normal")
        self.tables = OriginTables("auto")
        guard = DuplicateGuard(folder, window_s=600, keys_max=1000, load=store.seen_keys)
        self.forwarder = Forwarder(store, Numbers(store), self.tables, guard, B, 2**30)
        self.forwarder.synced = True
        pages = OwnPages(KEYS[2])
        pages.ask(SCOPE, True, np.array([[1]], np.uint64))
        numbers = iter(range(1, 100))
        for page in pages.flush(lambda above: next(numbers)):
            self.tables.replace(None, page)
        self.states = LinkStates(KEYS[1])
        self.states.step(linkstate.LinkUp(A), 0)
        self.states.step(linkstate.LinkUp(C), 0)
        self.history: list[bytes] = []
        self.hear(1, {B: 1, C: 1}, {A: 1, B: 1})
        self.view = View.of(self.states, "pif", None, self.history)

    def hear(self, sequence: int, of_a: dict[bytes, int], of_c: dict[bytes, int]) -> None:
        self.states.step(linkstate.Heard(A, linkstate.sign(KEYS[0], sequence, of_a)), 0)
        self.states.step(linkstate.Heard(C, linkstate.sign(KEYS[2], sequence, of_c)), 0)

    def lose_link_between_a_and_c(self) -> None:
        self.hear(2, {B: 1}, {B: 1})
        self.view = View.of(self.states, "pif", self.view, self.history)

    def comes_from_a(self, injection: int, stamp: bytes | None = None) -> Routed:
        batch = EncodedBatch.of(SCOPE, np.array([[3]], np.uint64), [b"m" * 16], [b"x" * 40])
        header = Header(A, injection, A, stamp or self.view.stamp)
        item = Item(batch, Mode.AT_LEAST_ONCE, float("inf"), header, neighbour=A)
        (routed,) = self.forwarder.process(self.view, [item], LinkUnit())
        return routed


def rerouted(router: RouterB) -> list[bytes]:
    """A's message reaches B; then A's link to C breaks, and A sends the message again, for C, by way of B."""
    assert router.comes_from_a(1).outgoing == []
    router.lose_link_between_a_and_c()
    return [outgoing.neighbour for outgoing in router.comes_from_a(2).outgoing]


def test_a_rerouted_copy_reaches_new_children(tmp_path: Path) -> None:
    assert rerouted(RouterB(tmp_path)) == [C]


def test_judged_per_message_it_would_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first_time = Forwarder._first_time

    def per_message(self: Forwarder, keys: object, *rest: object) -> object:
        return first_time(self, np.full((1, 32), 7, np.uint8), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Forwarder, "_first_time", per_message)
    assert rerouted(RouterB(tmp_path)) == []


def test_the_same_copy_again_goes_nowhere(tmp_path: Path) -> None:
    router = RouterB(tmp_path)
    router.lose_link_between_a_and_c()
    assert [out.neighbour for out in router.comes_from_a(1).outgoing] == [C]
    again = router.comes_from_a(1)
    assert (again.outgoing, again.duplicates) == ([], 1)


def test_a_copy_from_a_state_left_behind_is_brought_in_anew_once_per_view(tmp_path: Path) -> None:
    router = RouterB(tmp_path)
    old = router.view.stamp
    router.lose_link_between_a_and_c()
    (outgoing,) = router.comes_from_a(1, old).outgoing
    assert (outgoing.neighbour, outgoing.header.injector, outgoing.header.source) == (C, B, B)
    assert router.comes_from_a(2, old).outgoing == []


def test_a_copy_from_a_state_to_come_waits(tmp_path: Path) -> None:
    assert RouterB(tmp_path).comes_from_a(1, b"?" * 16).parked
