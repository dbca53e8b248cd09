"""Signed pages: nothing is lost in a change, old and foreign pages are worth nothing, bounds hold."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute import limits
from secroute.errors import LimitError, OverlayError
from secroute.opaque import Scope, Words
from secroute.overlay.adverts import PAGE_ROWS, OwnPages, Page, PageBook, sign_page

SCOPE = Scope(b"s" * 16, 3, b"p" * 32)
KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)


def rows(*numbers: int) -> Words:
    return np.array(numbers, np.uint64).reshape(-1, 1)


class Numbers:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, above: int) -> int:
        self.count = max(self.count, above) + 1
        return self.count


def asked(book: PageBook) -> set[int]:
    return {int(row[0]) for page in book.pages() for row in page.bits}


def test_a_book_holds_what_its_origin_asks_for_through_any_churn() -> None:
    rng, own, book, numbers = random.Random(1), OwnPages(KEY), PageBook(), Numbers()
    wanted: list[int] = []
    for _ in range(400):
        if wanted and rng.random() < 0.4:
            gone = wanted.pop(rng.randrange(len(wanted)))
            own.give_up(SCOPE, False, rows(gone))
        else:
            wanted.append(rng.randrange(600))
            own.ask(SCOPE, False, rows(wanted[-1]))
        if rng.random() < 0.3:
            for page in own.flush(numbers):
                book.take(page)
            assert asked(book) == set(wanted)


def test_what_is_new_comes_before_what_is_old_goes() -> None:
    own, book, numbers = OwnPages(KEY), PageBook(), Numbers()
    own.ask(SCOPE, False, rows(*range(1, 2 * PAGE_ROWS)))
    for page in own.flush(numbers):
        book.take(page)
    own.ask(SCOPE, False, rows(7000))
    own.give_up(SCOPE, False, rows(1, 2 * PAGE_ROWS - 1))
    seen = []
    for page in own.flush(numbers):
        book.take(page)
        seen.append(asked(book))
    both = {1, 2 * PAGE_ROWS - 1}
    first_new = next(i for i, now in enumerate(seen) if 7000 in now)
    assert all(both <= now for now in seen[: first_new + 1])
    assert not both & seen[-1]


def test_after_a_restart_the_origin_speaks_louder_than_its_old_words() -> None:
    before, after, book = OwnPages(KEY), OwnPages(KEY), PageBook()
    before.ask(SCOPE, False, rows(1, 2, 3))
    old = before.flush(Numbers())
    for page in old:
        book.take(page)
    after.ask(SCOPE, True, rows(9))
    numbers = Numbers()
    after.flush(numbers)
    for page in old:
        after.heard_own(page)
    for page in after.flush(numbers):
        book.take(page)
    assert asked(book) == {9}


def test_old_changed_and_foreign_pages_are_worth_nothing() -> None:
    own, book, numbers = OwnPages(KEY), PageBook(), Numbers()
    own.ask(SCOPE, False, rows(1))
    first = own.flush(numbers)[0]
    own.ask(SCOPE, False, rows(2))
    second = own.flush(numbers)[0]
    assert book.take(second) == (True, None)
    assert book.take(first) == (False, None)
    other = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
    flipped = replace(second, sequence=99, bits=rows(1))
    stolen = sign_page(other, replace(second, sequence=99))
    for bad in (flipped, replace(second, sequence=99), stolen, replace(second, sequence=99, durable=True)):
        with pytest.raises(OverlayError, match="not signed by it"):
            book.take(bad)
    assert asked(book) == {1, 2}


def test_bounds() -> None:
    public = KEY.public_key().public_bytes_raw()
    long = Page(public, 1, 0, SCOPE, False, rows(*range(1, limits.PAGE_FILTERS_MAX + 2)))
    for page in (
        long,
        Page(public, 1, limits.ORIGIN_PAGES_MAX, SCOPE, False, rows(1)),
        Page(public, 0, 0, SCOPE, False, rows(1)),
    ):
        with pytest.raises(LimitError):
            PageBook().take(sign_page(KEY, page))


def test_a_subscription_offline_through_a_rotation_wants_all_of_later_epochs() -> None:
    own, numbers = OwnPages(KEY), Numbers()
    nowhere = Scope(SCOPE.space, 0, bytes(32))
    own.spool([(nowhere, (3, 4))])
    (page,) = own.flush(numbers)
    page.verify()
    epochs = {epoch: page.wants_all(replace(SCOPE, epoch=epoch)) for epoch in range(2, 7)}
    assert epochs == {2: False, 3: False, 4: False, 5: True, 6: True}
    assert not page.wants_all(Scope(b"x" * 16, 5, b"p" * 32))
    own.spool([(nowhere, (3, 4, 5))])
    newer = own.flush(numbers)
    assert [each.epochs for each in newer] == [(3, 4, 5), ()]
    assert list(itertools.chain(*(each.bits for each in newer))) == []
