"""Payload sealing: what opens, what does not and why, and that nothing but the owner of the key learns who spoke."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from secroute import limits
from secroute.encoding.replay import ReplayGuard
from secroute.encoding.seal import Opened, Opener, Sealer, padded_length, sealed_length
from secroute.errors import (
    KeyringError,
    LimitError,
    OpaqueError,
    ProfileMismatchError,
    ReplayError,
    ReplayWindowError,
    SealError,
    SealHeaderError,
    SealLimitError,
)
from secroute.opaque import Scope
from tests.cases import cases

KEY = bytes(range(32))
SCOPE = Scope(b"s" * 16, 7, b"p" * 32)
SIGNING = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLISHER = SIGNING.public_key().public_bytes_raw()
BITS = np.arange(12, dtype=np.uint64).reshape(4, 3)
IDS = [bytes([i]) * 16 for i in range(4)]
BODIES = [b"", b"a", b"body" * 100, b"\0" * 70]


def sealer(salt: bytes = b"z" * 16, **options: object) -> Sealer:
    return Sealer(KEY, SCOPE, publisher=PUBLISHER, salt=salt, **options)  # type: ignore[arg-type]


def opener(**options: object) -> Opener:
    return Opener({SCOPE: KEY}, **options)  # type: ignore[arg-type]


SEALED = sealer().seal_batch(IDS, BITS, BODIES)


@pytest.mark.parametrize("signer", [None, SIGNING.sign])
def test_a_batch_opens_to_what_was_sealed(signer: object) -> None:
    sealed = sealer(signer=signer).seal_batch(IDS, BITS, BODIES)
    opened = opener().open_batch(SCOPE, IDS, BITS, sealed)
    signed = signer is not None
    assert opened == [Opened(PUBLISHER, b"z" * 16, i, body, signed) for i, body in enumerate(BODIES)]
    assert opened[2] == opener().open(SCOPE, IDS[2], BITS[2], sealed[2])
    assert [len(data) for data in sealed] == [sealed_length(len(body), signed=signed) for body in BODIES]


def test_sealing_is_deterministic_in_its_arguments_and_the_next_batch_goes_on_counting() -> None:
    assert sealer().seal_batch(IDS, BITS, BODIES) == SEALED
    one = sealer()
    parts = one.seal_batch(IDS[:1], BITS[:1], BODIES[:1]) + one.seal_batch(IDS[1:], BITS[1:], BODIES[1:])
    assert parts == SEALED


def test_every_flipped_bit_is_refused() -> None:
    door = opener()
    for position in range(len(SEALED[1])):
        for bit in range(8):
            data = bytearray(SEALED[1])
            data[position] ^= 1 << bit
            with pytest.raises(SealError):
                door.open(SCOPE, IDS[1], BITS[1], bytes(data))


def test_a_changed_body_and_a_foreign_header_are_different_errors() -> None:
    changed = SEALED[1][:-1] + bytes([SEALED[1][-1] ^ 1])
    with pytest.raises(SealError, match="changed on the way") as error:
        opener().open(SCOPE, IDS[1], BITS[1], changed)
    assert type(error.value) is SealError
    for message_id, row in ((IDS[2], BITS[1]), (IDS[1], BITS[2]), (IDS[2], BITS[2])):
        with pytest.raises(SealHeaderError, match="does not belong to the header"):
            opener().open(SCOPE, message_id, row, SEALED[1])


@pytest.mark.parametrize("part", ["space", "epoch", "profile"])
def test_another_scope_is_refused_with_or_without_its_key(part: str) -> None:
    other = replace(SCOPE, **{part: {"space": b"t" * 16, "epoch": 8, "profile": b"q" * 32}[part]})  # type: ignore[arg-type]
    with pytest.raises(ProfileMismatchError, match="no payload key"):
        opener().open(other, IDS[1], BITS[1], SEALED[1])
    with pytest.raises(SealHeaderError):
        Opener({other: KEY}).open(other, IDS[1], BITS[1], SEALED[1])


def test_another_key_is_refused() -> None:
    with pytest.raises(SealError):
        Opener({SCOPE: b"x" * 32}).open(SCOPE, IDS[1], BITS[1], SEALED[1])


@given(st.binary(max_size=400))
@settings(max_examples=cases(200, 2000))
def test_rubbish_never_raises_anything_but_a_seal_error(data: bytes) -> None:
    for candidate in (data, b"\x01" + data, SEALED[1][: len(data)], SEALED[1] + data + b"x"):
        with pytest.raises(SealError):
            opener().open(SCOPE, IDS[1], BITS[1], candidate)


def test_one_bad_payload_spoils_no_other() -> None:
    results = opener().open_batch(SCOPE, IDS, BITS, [SEALED[0], SEALED[0], b"", SEALED[3]])
    assert [type(result) for result in results] == [Opened, SealHeaderError, SealError, Opened]


def test_nothing_in_clear_links_two_messages_of_a_session() -> None:
    one, two = sealer().seal_batch(IDS[:2], BITS[:2], [b"same", b"same"])
    assert len(one) == len(two)
    repeated = [i for i in range(1, len(one)) if one[i : i + 4] == two[i : i + 4] and i + 4 <= len(one)]
    assert repeated == []
    assert b"z" * 16 not in one
    assert PUBLISHER not in one


def test_signatures_are_checked_and_can_be_required() -> None:
    with pytest.raises(SealError, match="no publisher's signature"):
        opener(require_signature=True).open(SCOPE, IDS[1], BITS[1], SEALED[1])
    forged = Sealer(
        KEY, SCOPE, publisher=PUBLISHER, salt=b"z" * 16, signer=Ed25519PrivateKey.from_private_bytes(b"m" * 32).sign
    ).seal_batch(IDS[:1], BITS[:1], BODIES[:1])
    with pytest.raises(SealError, match="signature is not by publisher"):
        opener().open(SCOPE, IDS[0], BITS[0], forged[0])
    with pytest.raises(SealError, match="not accepted here"):
        opener(publishers={b"o" * 32}).open(SCOPE, IDS[1], BITS[1], SEALED[1])
    assert opener(publishers={PUBLISHER}).open(SCOPE, IDS[1], BITS[1], SEALED[1]).body == b"a"


@given(st.integers(0, limits.PAYLOAD_BYTES_MAX))
@settings(max_examples=cases(300, 5000))
def test_lengths_are_padded_to_few_steps_at_bounded_cost(length: int) -> None:
    padded = padded_length(length)
    assert padded >= max(length, 1)
    assert padded <= max(64, length + 64, length * 5 // 4)
    assert padded_length(length + 1) >= padded
    assert padded_length(padded) == padded


def test_equal_steps_hide_lengths() -> None:
    lengths = {len(data) for data in sealer().seal_batch(IDS, BITS, [b"x" * n for n in (20, 30, 60, 82)])}
    assert len(lengths) <= 2
    assert len({padded_length(n) for n in range(1, limits.PAYLOAD_BYTES_MAX, 97)}) < 60


def test_a_session_ends_before_its_nonces_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEAL_SESSION_MESSAGES_MAX", 6)
    one = sealer()
    one.seal_batch(IDS, BITS, BODIES)
    with pytest.raises(SealLimitError, match="fresh salt"):
        one.seal_batch(IDS, BITS, BODIES)
    assert len(one.seal_batch(IDS[:2], BITS[:2], BODIES[:2])) == 2


def test_a_failure_while_sealing_never_gives_a_number_back() -> None:
    def broken(_: bytes) -> bytes:
        raise RuntimeError("the signer is gone")

    one = sealer(signer=broken)
    with pytest.raises(RuntimeError):
        one.seal_batch(IDS[:2], BITS[:2], BODIES[:2])
    one._signer = None
    again = one.seal_batch(IDS[2:3], BITS[2:3], BODIES[2:3])
    assert opener().open(SCOPE, IDS[2], BITS[2], again[0]).sequence == 2


def test_wrong_shapes_are_refused_before_a_number_is_used() -> None:
    one = sealer()
    with pytest.raises(OpaqueError, match="do not fit"):
        one.seal_batch(IDS[:3], BITS, BODIES)
    with pytest.raises(OpaqueError, match="message id has 16 bytes"):
        one.seal_batch([b"short", *IDS[1:]], BITS, BODIES)
    with pytest.raises(LimitError):
        one.seal_batch(IDS[:1], BITS[:1], [b"x" * limits.PAYLOAD_BYTES_MAX])
    with pytest.raises(OpaqueError, match="little-endian"):
        opener().open(SCOPE, IDS[0], BITS[0].astype(">u8"), SEALED[0])
    assert one.seal_batch(IDS, BITS, BODIES) == SEALED
    with pytest.raises(SealError, match="salt has 16 bytes"):
        sealer(salt=b"short")
    with pytest.raises(SealError, match="identity has 32 bytes"):
        Sealer(KEY, SCOPE, publisher=b"me", salt=b"z" * 16)


def test_openers_remember_a_bounded_number_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SEAL_SESSIONS_CACHED_MAX", 2)
    door = opener()
    for number in range(5):
        sealed = sealer(salt=bytes([number]) * 16).seal_batch(IDS[:1], BITS[:1], BODIES[:1])
        assert door.open(SCOPE, IDS[0], BITS[0], sealed[0]).session == bytes([number]) * 16
    assert len(door._scopes[SCOPE].sessions) == 2
    door.discard(SCOPE)
    with pytest.raises(ProfileMismatchError):
        door.open(SCOPE, IDS[0], BITS[0], SEALED[0])


@pytest.mark.parametrize("handle", [sealer(), opener()])
def test_handles_show_nothing_and_cannot_be_copied(handle: object) -> None:
    assert KEY.hex() not in repr(handle)
    assert repr(handle).startswith("<")
    for copying in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(KeyringError, match="cannot be pickled or copied"):
            copying(handle)


def test_what_was_opened_does_not_show_its_body() -> None:
    assert "body" not in repr(opener().open(SCOPE, IDS[1], BITS[1], SEALED[1]))


def message(sequence: int, publisher: bytes = b"p" * 32, session: bytes = b"s" * 16) -> Opened:
    return Opened(publisher, session, sequence, b"", signed=False)


def test_a_message_passes_once_in_any_order_within_the_window() -> None:
    guard = ReplayGuard(window=8)
    for sequence in (3, 0, 5, 4, 12, 6):
        guard.admit(message(sequence))
        with pytest.raises(ReplayError, match="came before"):
            guard.admit(message(sequence))
    with pytest.raises(ReplayWindowError, match="behind the newest"):
        guard.admit(message(4))
    guard.admit(message(0, session=b"t" * 16))
    guard.admit(message(0, publisher=b"q" * 32))
    guard.admit(message(1_000_000))
    with pytest.raises(ReplayWindowError):
        guard.admit(message(12))


@given(st.lists(st.integers(0, 40), max_size=60))
@settings(max_examples=cases(200, 2000))
def test_the_window_agrees_with_a_plain_set(sequences: list[int]) -> None:
    guard, seen, newest = ReplayGuard(window=16), set[int](), -1
    for sequence in sequences:
        expected = ReplayWindowError if newest - sequence >= 16 else ReplayError if sequence in seen else None
        if expected is None:
            guard.admit(message(sequence))
            seen.add(sequence)
            newest = max(newest, sequence)
        else:
            with pytest.raises(expected) as error:
                guard.admit(message(sequence))
            assert type(error.value) is expected


def test_the_guard_is_bounded_and_says_what_it_forgot() -> None:
    guard = ReplayGuard(sessions_max=3)
    for number in range(5):
        guard.admit(message(0, session=bytes([number]) * 16))
    assert (len(guard), guard.forgotten) == (3, 2)
