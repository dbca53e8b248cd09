"""Derivation keeps purposes apart; the timeline never leaves a subscriber deaf to a publisher."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secroute.encoding.profile import Profile
from secroute.errors import EpochError, KeyringError, LimitError
from secroute.keyring import EpochKeys, OwnerKeyring, Timeline, TokenKeys
from tests.cases import cases
from tests.unit.keyring.conftest import NOW

SPACE = b"s" * 16
PROFILE = Profile.default()


def epoch(
    number: int = 1, *, space: bytes = SPACE, secret: bytes = b"e" * 32, at: int = 0, overlap: int = 0
) -> EpochKeys:
    return EpochKeys(space, number, PROFILE, secret=secret, durable_secret=b"d" * 32, activates_s=at, overlap_s=overlap)


def test_every_purpose_space_epoch_and_attribute_has_its_own_key() -> None:
    handles = [epoch(), epoch(2), epoch(space=b"t" * 16), epoch(secret=b"f" * 32)]
    keys = [
        key
        for keys in handles
        for key in (
            keys.token_key("dest"),
            keys.token_key("des"),
            keys.token_key("dest.x"),
            keys.hardening_key(),
            keys.payload_key(),
            keys.token_only().export_token_root(),
        )
    ]
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32}


def test_durable_names_outlive_rotations_and_differ_between_spaces() -> None:
    assert epoch().durable_name("desk-7") == epoch(2, secret=b"f" * 32).durable_name("desk-7")
    assert epoch().durable_name("desk-7") != epoch(space=b"t" * 16).durable_name("desk-7")
    assert epoch().durable_name("desk-7") != epoch().durable_name("desk-8")
    assert len(epoch().durable_name("desk-7")) == 16
    with pytest.raises(LimitError):
        epoch().durable_name("")


def test_token_keys_encode_alike_and_hold_nothing_else() -> None:
    full, tokens = epoch(), epoch().token_only()
    assert type(tokens) is TokenKeys
    assert tokens.token_key("a") == full.token_key("a")
    assert tokens.hardening_key() == full.hardening_key()
    assert tokens.scope == full.scope
    assert tokens.profile == full.profile
    assert not hasattr(tokens, "payload_key")
    held = [getattr(tokens, slot) for slot in TokenKeys.__slots__]
    assert b"e" * 32 not in held
    assert full.payload_key() not in held


def test_names_are_bounded() -> None:
    for name in ("", "x" * 256):
        with pytest.raises(LimitError, match="an attribute name has"):
            epoch().token_key(name)


def test_handles_show_nothing_and_cannot_be_copied(owner: OwnerKeyring) -> None:
    handles = [epoch(), epoch().token_only(), owner, owner.identity, owner.timeline]
    for handle in handles:
        for secret in (b"e" * 32, epoch().token_only().export_token_root()):
            assert secret.hex() not in repr(handle)
            assert repr(secret)[2:-1] not in repr(handle)
        for copying in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(KeyringError, match="cannot be pickled or copied"):
                copying(handle)


def test_secrets_have_their_size() -> None:
    with pytest.raises(KeyringError, match="32 bytes"):
        epoch(secret=b"short")


def timeline(*activations: int, overlap: int = 10) -> Timeline:
    return Timeline(epoch(i + 1, at=at, overlap=overlap) for i, at in enumerate(activations))


def numbers(epochs: tuple[EpochKeys, ...]) -> list[int]:
    return [one.number for one in epochs]


def test_publishers_switch_at_activation_and_subscribers_overlap_on_both_sides() -> None:
    line = timeline(100, 200)
    assert [line.publishing(now).number for now in (100, 199.9, 200, 1e9)] == [1, 1, 2, 2]
    expected = {90: [1], 189: [1], 190: [1, 2], 209.9: [1, 2], 210: [2]}
    assert {now: numbers(line.subscribing(now)) for now in expected} == expected
    assert numbers(line.ended(209)) == []
    assert numbers(line.ended(210)) == [1]


def test_before_the_first_activation_nobody_publishes() -> None:
    with pytest.raises(EpochError, match="no epoch is active yet"):
        timeline(100).publishing(99)
    with pytest.raises(EpochError, match="accept a grant"):
        Timeline(()).publishing(0)
    with pytest.raises(EpochError, match="accept a grant"):
        Timeline(()).subscribing(0)
    with pytest.raises(EpochError, match="holds no epoch 9; it holds 1, 2"):
        timeline(1, 2).epoch(9)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=5), st.integers(0, 40), st.data())
@settings(max_examples=cases(300, 5000))
def test_with_clocks_apart_by_less_than_the_overlap_a_publisher_is_always_heard(
    gaps: list[int], overlap: int, data: st.DataObject
) -> None:
    at, activations = 1000, []
    for gap in gaps:
        at += gap
        activations.append(at)
    line = timeline(*activations, overlap=overlap)
    now = data.draw(st.integers(activations[0], activations[-1] + 100))
    skew = data.draw(st.integers(-overlap, max(overlap - 1, 0)))
    heard = numbers(line.subscribing(max(now + skew, activations[0] - overlap)))
    assert line.publishing(now).number in heard


def test_a_revocation_that_overtakes_a_scheduled_epoch_leaves_nobody_deaf() -> None:
    # Epoch 2 was scheduled for 300; epoch 3 overtakes it at 200. A publisher who missed that goes on to 2.
    line = timeline(100, 300, 200)
    assert [line.publishing(now).number for now in (199, 200, 300)] == [1, 3, 3]
    assert numbers(line.subscribing(305)) == [1, 2, 3]
    assert numbers(line.subscribing(311)) == [3]


def test_only_ended_epochs_are_forgotten(owner: OwnerKeyring) -> None:
    owner.rotate(now=NOW, activates_s=NOW + 10, overlap_s=5)
    with pytest.raises(EpochError, match="still serves"):
        owner.forget(1, NOW + 14)
    with pytest.raises(EpochError, match="no epoch 9"):
        owner.forget(9, NOW + 15)
    owner.forget(1, NOW + 15)
    assert numbers(owner.timeline.epochs) == [2]
