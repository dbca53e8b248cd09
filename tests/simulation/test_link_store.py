"""What links must not forget: numbers never come again, keys stay, kept messages survive; and configurations."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from secroute.errors import ConfigError, StoreError
from secroute.opaque import EncodedBatch, Scope
from secroute.router.config import parse_config
from secroute.router.links_store import KeptRow, LinkStore, LinkUnit, Numbers, signing_key
from secroute.wire.columns import batch_to_pb

SCOPE = Scope(b"s" * 16, 1, b"p" * 32)


def test_numbers_never_come_again_not_even_after_a_crash(tmp_path: Path) -> None:
    used: set[int] = set()
    for _ in range(3):
        store = LinkStore(tmp_path / "links.db", "normal")
        numbers = Numbers(store)
        fresh = {numbers.next() for _ in range(5)} | {numbers.next(above=10**6)}
        assert not fresh & used
        used |= fresh
        store.close()  # a crash: nothing else is written


def test_the_signing_key_is_made_once_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    first = signing_key(path).public_key().public_bytes_raw()
    assert signing_key(path).public_key().public_bytes_raw() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_bytes(b"short")
    with pytest.raises(ConfigError, match="32 bytes, not 5"):
        signing_key(path)


def test_kept_messages_survive_and_go_when_they_are_done(tmp_path: Path) -> None:
    batch = EncodedBatch.of(SCOPE, np.array([[7]], np.uint64), [b"m" * 16], [b"payload"])
    store = LinkStore(tmp_path / "links.db", "full")
    data = batch_to_pb(batch).SerializeToString()
    store.commit(LinkUnit(kept=[KeptRow(1, None, 0, data), KeptRow(2, b"r" * 16, 99, data)]))
    store.close()
    store = LinkStore(tmp_path / "links.db", "full")
    assert [(number, held, expires) for number, held, expires, _ in store.kept()] == [(1, None, 0), (2, b"r" * 16, 99)]
    assert store.load(2).payload(0) == b"payload"
    store.commit(LinkUnit(done=[1]))
    assert [row[0] for row in store.kept()] == [2]
    with pytest.raises(StoreError, match="no row 1"):
        store.load(1)
    with pytest.raises(StoreError, match="nothing of it was taken"):
        store.commit(LinkUnit(kept=[KeptRow(3, None, 0, data), KeptRow(2, None, 0, data)]))
    assert [row[0] for row in store.kept()] == [2]
    store.close()


@pytest.mark.parametrize(
    "data",
    [
        {"neighbour": [{"name": "b"}]},
        {"overlay": {"name": "b"}, "neighbour": [{"name": "b"}]},
        {"overlay": {"name": "a"}, "neighbour": [{"name": "b"}, {"name": "b"}]},
        {"overlay": {"name": "a"}, "neighbour": [{"name": "b", "address": "nowhere"}]},
        {"overlay": {"name": "a"}, "neighbour": [{"name": "b", "weight": 0}]},
        {"overlay": {"scheme": "rip"}},
    ],
)
def test_a_wrong_configuration_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        parse_config(data, Path())
