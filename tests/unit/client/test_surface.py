"""What the package offers, and the small pure parts behind it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import secroute.client
from secroute.cli.publish import parse_line, parse_pair
from secroute.client.body import decode_body, encode_body
from secroute.client.identity import parse_targets, require_loopback
from secroute.client.ledger import Duplicates, Ledger, as_runs
from secroute.encoding.seal import Opened
from secroute.errors import FileFormatError, InputError, LimitError, ReplayError
from secroute.wire.frames import Verdict

VALUES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer()),
    st.booleans(),
)


def test_public_names() -> None:
    assert secroute.client.__all__ == [
        "BlockingClient",
        "BlockingMessage",
        "BlockingSubscription",
        "Client",
        "ClientStats",
        "DurableState",
        "Gap",
        "Options",
        "ReceivedMessage",
        "Subscription",
        "TlsIdentity",
        "connect",
        "connect_blocking",
    ]
    for name in secroute.client.__all__:
        assert getattr(secroute.client, name)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10), VALUES, max_size=8),
    st.binary(max_size=50),
)
def test_body_keeps_everything_exactly(attributes: dict[str, object], payload: bytes) -> None:
    message, back = decode_body(encode_body(attributes, payload))  # type: ignore[arg-type]
    assert message.attributes == attributes
    assert [type(value) for value in message.attributes.values()] == [
        type(attributes[name]) for name in message.attributes
    ]
    assert back == payload


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02\0\0\0\0",
        b"\x01\0\0\0\x09{}",
        b"\x01\0\0\0\x02[]",
        b"\x01\0\0\0\x03{x}",
        encode_body({"a": 2**70}),
        b"\x01\0\0\x4e\x20" + b"[" * 20_000,
        b'\x01\0\0\0\x09{"a":NaN}',
    ],
)
def test_a_bad_body_is_refused(body: bytes) -> None:
    with pytest.raises(InputError):
        decode_body(body)


def test_targets() -> None:
    assert parse_targets("a:1, b:2,a:1") == ("a:1", "b:2")
    require_loopback(("127.0.0.1:1", "localhost:2", "[::1]:3"))
    for bad in ("", "a", "a:x", "a:0", ":7", "a:70000"):
        with pytest.raises(InputError):
            parse_targets(bad)


@given(st.lists(st.integers(0, 60), max_size=40))
def test_runs_name_each_number_once(numbers: list[int]) -> None:
    runs = as_runs(numbers)
    assert [n for first, count in runs for n in range(first, first + count)] == sorted(set(numbers))


def opened(sequence: int) -> Opened:
    return Opened(b"p" * 32, b"s" * 16, sequence, b"", False)


def test_duplicates_let_through_what_is_expected_again() -> None:
    duplicates = Duplicates(16)
    duplicates.admit(opened(3))
    with pytest.raises(ReplayError):
        duplicates.admit(opened(3))
    duplicates.expect_again([(b"p" * 32, b"s" * 16, 3)])
    duplicates.admit(opened(3))
    with pytest.raises(ReplayError):
        duplicates.admit(opened(3))


def test_credit_of_an_old_link_is_not_given_back() -> None:
    ledger = Ledger(5, 10, 1000, Duplicates(16))
    ledger.attach(same_session=True)
    old = ledger.receipt(1, 100)
    ledger.open(old)
    ledger.attach(same_session=True)
    again = ledger.receipt(1, 100)
    ledger.repeat(again)  # the application still has it: credit back, no ack
    (ack,) = ledger.collect()
    assert (ack.runs, ack.credit_messages, ack.credit_bytes) == ((), 1, 100)
    ledger.settle(old)
    (ack,) = ledger.collect()
    assert (ack.runs, ack.verdict, ack.credit_messages) == (((1, 1),), Verdict.DONE, 0)
    assert ledger.collect() == []


def test_ordinary_numbers_do_not_outlive_their_session() -> None:
    ledger = Ledger(0, 10, 1000, Duplicates(16))
    ledger.attach(same_session=False)
    old = ledger.receipt(1, 100)
    ledger.open(old)
    ledger.attach(same_session=False)
    ledger.settle(old)
    assert ledger.collect() == []


def test_command_line_messages() -> None:
    assert parse_pair("price=248") == ("price", 248)
    assert parse_pair("dest=ATL") == ("dest", "ATL")
    assert parse_pair('zip="0123"') == ("zip", "0123")
    assert parse_pair("ok=true") == ("ok", True)
    assert parse_pair("list=[1]") == ("list", "[1]")
    with pytest.raises(InputError):
        parse_pair("price")
    line = json.dumps({"id": "m1", "attributes": {"a": 1}}).encode()
    assert parse_line(line, 1).attributes == {"a": 1}
    with pytest.raises(FileFormatError, match="stdin:7"):
        parse_line(b"{", 7)


def test_options_are_bounded() -> None:
    with pytest.raises(LimitError, match="batch_messages"):
        secroute.client.Options(batch_messages=0)
