"""Grants: only the owner makes them, only the recipient opens them, only newer ones count; revocation is complete."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secroute import limits
from secroute.encoding.profile import Profile
from secroute.errors import (
    EpochError,
    GrantError,
    GrantExpiredError,
    GrantRecipientError,
    GrantRollbackError,
    GrantSignatureError,
    KeyringDamagedError,
    KeyringError,
)
from secroute.keyring import MemberKeyring, OwnerKeyring, PublicIdentity
from secroute.keyring.grants import read_header
from tests.cases import cases
from tests.unit.keyring.conftest import NOW, seeded

DAY = 86_400


def member(seed: str) -> MemberKeyring:
    return MemberKeyring.new(random_bytes=seeded(seed))


def test_owner_and_member_derive_the_same_keys(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    owner.rotate(now=NOW, activates_s=NOW + 100, overlap_s=10)
    desk.accept(owner.grant("desk", desk.identity.public, now=NOW), now=NOW)
    assert (desk.space, desk.name, desk.owner) == (owner.space, "flights", owner.owner)
    for number in (1, 2):
        mine, theirs = desk.epoch(number), owner.epoch(number)
        assert mine.same_as(theirs)
        assert mine.token_key("dest") == theirs.token_key("dest")
        assert mine.payload_key() == theirs.payload_key()
        assert mine.durable_name("d") == theirs.durable_name("d")
    assert desk.publishing(NOW + 100).number == 2
    assert [epoch.number for epoch in desk.subscribing(NOW + 95)] == [1, 2]


def test_a_grant_for_somebody_else_is_refused(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    grant = owner.grant("desk", desk.identity.public, now=NOW)
    other = member("other")
    with pytest.raises(GrantRecipientError, match="this grant is for identity"):
        other.accept(grant, now=NOW)
    assert not other.owner


def test_the_first_owner_is_pinned(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    mallory = OwnerKeyring.new("flights", Profile.default(), now=NOW, random_bytes=seeded("mallory"))
    forged = mallory.grant("desk", desk.identity.public, now=NOW + 9)
    with pytest.raises(GrantSignatureError, match="the owner expected is"):
        desk.accept(forged, now=NOW + 9, owner=owner.owner)
    desk.accept(owner.grant("desk", desk.identity.public, now=NOW), now=NOW, owner=owner.owner)
    with pytest.raises(GrantSignatureError, match="the owner expected is"):
        desk.accept(forged, now=NOW + 9)
    with pytest.raises(GrantSignatureError, match="pinned another owner"):
        desk.accept(forged, now=NOW + 9, owner=mallory.owner)


def test_older_and_repeated_grants_are_refused(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    first = owner.grant("desk", desk.identity.public, now=NOW)
    second = owner.grant("desk", now=NOW)
    desk.accept(second, now=NOW)
    for old in (first, second):
        with pytest.raises(GrantRollbackError, match="is already accepted"):
            desk.accept(old, now=NOW)


def test_the_sequence_rises_even_after_an_old_backup(owner: OwnerKeyring) -> None:
    one, two = member("one"), member("two")
    owner.grant("one", one.identity.public, now=NOW)
    before = owner.sequence
    owner.sequence = 0  # as a restored backup would have it
    owner.grant("two", two.identity.public, now=NOW + 60)
    assert owner.sequence > before


def test_grants_expire_for_accepting_and_for_new_work_but_not_for_opening(
    owner: OwnerKeyring, desk: MemberKeyring
) -> None:
    grant = owner.grant("desk", desk.identity.public, now=NOW, valid_s=DAY)
    for now, words in ((NOW + DAY, "has expired"), (NOW - 301, "not valid yet")):
        with pytest.raises(GrantExpiredError, match=words):
            desk.accept(grant, now=now)
    desk.accept(grant, now=NOW - 300)
    assert desk.publishing(NOW + DAY - 1).number == 1
    with pytest.raises(GrantExpiredError):
        desk.publishing(NOW + DAY)
    with pytest.raises(GrantExpiredError):
        desk.subscribing(NOW + DAY)
    assert desk.epoch(1).payload_key() == owner.epoch(1).payload_key()


@pytest.mark.parametrize("field", ["header", "sealed", "signature"])
def test_an_altered_grant_is_refused(owner: OwnerKeyring, desk: MemberKeyring, field: str) -> None:
    envelope = json.loads(owner.grant("desk", desk.identity.public, now=NOW))
    other = json.loads(owner.grant("desk", now=NOW, valid_s=DAY))
    envelope[field] = other[field]
    with pytest.raises(GrantSignatureError, match="altered"):
        desk.accept(json.dumps(envelope).encode(), now=NOW)


def test_a_truncated_grant_is_damaged(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    grant = owner.grant("desk", desk.identity.public, now=NOW)
    for cut in (0, 1, len(grant) // 2, len(grant) - 2):
        with pytest.raises(KeyringDamagedError):
            desk.accept(grant[:cut], now=NOW)


@given(st.data())
@settings(max_examples=cases(150, 3000))
def test_no_flipped_bit_gets_through(data: st.DataObject) -> None:
    owner = OwnerKeyring.new("flights", Profile.default(), now=NOW, random_bytes=seeded("owner"))
    desk = member("desk")
    grant = bytearray(owner.grant("desk", desk.identity.public, now=NOW))
    position = data.draw(st.integers(0, len(grant) - 2))
    grant[position] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(KeyringError):
        desk.accept(bytes(grant), now=NOW)
    assert not desk.owner


def test_a_second_space_needs_a_second_identity(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    desk.accept(owner.grant("desk", desk.identity.public, now=NOW), now=NOW)
    twin = OwnerKeyring.new("hotels", Profile.default(), now=NOW, random_bytes=seeded("twin"))
    twin._owner_key = owner._owner_key
    with pytest.raises(GrantError, match="another space"):
        desk.accept(twin.grant("desk", desk.identity.public, now=NOW + 5), now=NOW + 5)


def test_an_epoch_never_changes(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    backup = OwnerKeyring.new("flights", Profile.default(), now=NOW, random_bytes=seeded("owner"))
    owner.rotate(now=NOW, activates_s=NOW + 1)
    desk.accept(owner.grant("desk", desk.identity.public, now=NOW), now=NOW)
    backup.rotate(now=NOW + 9, activates_s=NOW + 9)  # the restored owner has forgotten epoch 2 and makes another
    with pytest.raises(GrantError, match="an epoch never changes"):
        desk.accept(backup.grant("desk", desk.identity.public, now=NOW + 9), now=NOW + 9)
    assert desk.epoch(2).same_as(owner.epoch(2))
    backup.rotate(now=NOW + 9, activates_s=NOW + 9, number=7)
    backup.timeline = type(backup.timeline)(epoch for epoch in backup.timeline.epochs if epoch.number != 2)
    desk.accept(backup.grant("desk", now=NOW + 10), now=NOW + 10)
    assert desk.publishing(NOW + 10).number == 7


def test_rotation_waits_for_the_scheduled_epoch_and_never_goes_back(owner: OwnerKeyring) -> None:
    owner.rotate(now=NOW, activates_s=NOW + 100)
    with pytest.raises(EpochError, match="epoch 2 is already scheduled"):
        owner.rotate(now=NOW + 1, activates_s=NOW + 200)
    with pytest.raises(EpochError, match="in the past"):
        owner.rotate(now=NOW + 100, activates_s=NOW + 99)
    with pytest.raises(EpochError, match="not above 2"):
        owner.rotate(now=NOW + 100, activates_s=NOW + 100, number=2)


def test_the_registry_keeps_names_and_identities_apart(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    with pytest.raises(GrantError, match="no member 'desk'; give its identity"):
        owner.grant("desk", now=NOW)
    owner.grant("desk", desk.identity.public, now=NOW)
    with pytest.raises(GrantError, match="registered with another identity"):
        owner.grant("desk", member("other").identity.public, now=NOW)
    with pytest.raises(GrantError, match="already a member, as 'desk'"):
        owner.grant("desk2", desk.identity.public, now=NOW)
    for name in ("", " x", "a\nb", "x" * 256):
        with pytest.raises(KeyringError, match="a member's name is"):
            owner.grant(name, desk.identity.public, now=NOW)


def test_revoking_rotates_and_grants_to_the_rest(owner: OwnerKeyring) -> None:
    ann, bob, eve = member("ann"), member("bob"), member("eve")
    for name, keyring in (("ann", ann), ("bob", bob), ("eve", eve)):
        keyring.accept(owner.grant(name, keyring.identity.public, now=NOW), now=NOW)
    revocation = owner.revoke(["eve"], now=NOW + 1, activates_s=NOW + 60, overlap_s=30)
    assert set(revocation.grants) == {"ann", "bob"}
    assert revocation.epoch.number == 2
    [(number, window)] = revocation.exposed["eve"]
    assert window is not None
    assert (number, window.end_s) == (1, NOW + 90)
    ann.accept(revocation.grants["ann"], now=NOW + 1)
    assert ann.publishing(NOW + 60).payload_key() == owner.epoch(2).payload_key()
    for grant in revocation.grants.values():
        with pytest.raises(GrantRecipientError):
            eve.accept(grant, now=NOW + 1)
    with pytest.raises(GrantError, match="already revoked"):
        owner.revoke(["eve"], now=NOW + 2, activates_s=NOW + 60)
    with pytest.raises(GrantError, match="was revoked; give its identity"):
        owner.grant("eve", now=NOW + 2)
    with pytest.raises(GrantError, match="no member 'zoe'"):
        owner.revoke(["zoe"], now=NOW + 2, activates_s=NOW + 60)


def test_a_failed_revocation_changes_nothing(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    owner.grant("desk", desk.identity.public, now=NOW)
    before = owner.to_record()
    with pytest.raises(GrantError, match="no member 'zoe'"):
        owner.revoke(["desk", "zoe"], now=NOW, activates_s=NOW)
    with pytest.raises(GrantError, match="nobody"):
        owner.revoke([], now=NOW, activates_s=NOW)
    assert owner.to_record() == before


def test_a_revoked_member_who_holds_the_scheduled_epoch_is_overtaken(owner: OwnerKeyring) -> None:
    ann, eve = member("ann"), member("eve")
    owner.rotate(now=NOW, activates_s=NOW + 50)
    for name, keyring in (("ann", ann), ("eve", eve)):
        keyring.accept(owner.grant(name, keyring.identity.public, now=NOW), now=NOW)
    revocation = owner.revoke(["eve"], now=NOW, activates_s=NOW + 500)
    assert revocation.epoch.activates_s == NOW + 50
    ann.accept(revocation.grants["ann"], now=NOW)
    assert ann.publishing(NOW + 50).number == 3
    assert [number for number, _ in revocation.exposed["eve"]] == [1, 2]


def test_a_burst_of_revocations_still_makes_grants(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    count = limits.GRANT_EPOCHS_MAX + 3
    owner.grant("desk", desk.identity.public, now=NOW)
    for i in range(count):
        owner.grant(f"m{i}", member(f"m{i}").identity.public, now=NOW)
    for i in range(count):
        revocation = owner.revoke([f"m{i}"], now=NOW, activates_s=NOW + 60)
    desk.accept(revocation.grants["desk"], now=NOW)
    assert desk.publishing(NOW + 60).number == count + 1
    assert desk.publishing(NOW).number == 1


def test_the_clear_header_names_no_secret(owner: OwnerKeyring, desk: MemberKeyring) -> None:
    grant = owner.grant("desk", desk.identity.public, now=NOW)
    header = read_header(grant)
    assert header.recipient == desk.identity.public.fingerprint
    assert header.epochs == ((1, owner.epoch(1).scope.profile),)
    assert b"flights" not in grant


def test_identities_survive_text_and_typing_errors_do_not(desk: MemberKeyring) -> None:
    text = str(desk.identity.public)
    assert PublicIdentity.parse(f" {text}\n") == desk.identity.public
    for i in range(6, len(text)):
        wrong = text[:i] + ("a" if text[i] != "a" else "b") + text[i + 1 :]
        with pytest.raises(KeyringError):
            PublicIdentity.parse(wrong)
    for wrong in ("", "srid1-", text[:-1], text + "a", "age1xyz", text.replace("srid1", "srid2"), "srid1-é"):
        with pytest.raises(KeyringError):
            PublicIdentity.parse(wrong)
