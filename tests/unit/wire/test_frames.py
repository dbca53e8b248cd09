"""Every frame survives the wire, and every wrong column, bound or kind is refused with an error that names it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secroute import limits
from secroute.errors import EmptyFilterError, InputError, LimitError, WireError
from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.wire import frames
from secroute.wire._generated import gateway_pb2, opaque_pb2
from secroute.wire.client_frames import decode_client_frame, encode_client_frame
from secroute.wire.columns import batch_from_pb, batch_to_pb, filters_from_pb, filters_to_pb
from secroute.wire.router_frames import decode_router_frame, encode_router_frame
from tests.cases import cases

SCOPE = Scope(b"s" * 16, 3, b"p" * 32)
PROBLEM = frames.Problem("quota", "5 sessions, at most 4", True)
LIMITS = frames.SessionLimits(
    frame_bytes_max=1,
    batch_messages_max=2,
    publish_window_messages=3,
    publish_window_bytes=4,
    subscription_filters_max=5,
    session_filters_max=6,
    keepalive_s=7,
    resume_grace_s=8,
    ttl_ms_max=9,
    publish_window_batches=10,
)


def make_batch(count: int = 3, words: int = 2, seed: int = 0) -> EncodedBatch:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**63, (count, words), np.uint64)
    payloads = [rng.bytes(int(size)) for size in rng.integers(0, 40, count)]
    return EncodedBatch.of(SCOPE, bits, [rng.bytes(16) for _ in range(count)], payloads)


def same_batch(a: EncodedBatch, b: EncodedBatch) -> bool:
    columns = ("bits", "ids", "payloads", "offsets")
    return a.scope == b.scope and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in columns)


SIMPLE_CLIENT_FRAMES = [
    frames.Hello(software="x/1", resume_token=b"t" * 32, credit=frames.Credit(0, 10, 1000)),
    frames.Unsubscribe(1, 2, (SCOPE,), True),
    frames.Credit(4, 5, 6),
    frames.Ack(1, 9, ((10, 1), (12, 3)), frames.Verdict.RETRY, 4, 5, 6),
    frames.GapAck(1, 2),
    frames.Ping(7),
    frames.Pong(8),
    frames.Goodbye(),
    frames.Goodbye(PROBLEM),
]
SIMPLE_ROUTER_FRAMES = [
    frames.Welcome(
        version=1,
        router_id=b"r" * 16,
        session_id=b"i" * 16,
        resume_token=b"t" * 32,
        resumed=True,
        limits=LIMITS,
        publish_sequence=77,
    ),
    frames.SubscribeResult(1, 2, None, True, (4, 5)),
    frames.SubscribeResult(1, 2, PROBLEM),
    frames.UnsubscribeResult(1, 2, PROBLEM),
    frames.PublishResults((frames.PublishResult(1), frames.PublishResult(2, PROBLEM, 3))),
    frames.Gap(1, 2, frames.GapReason.SPOOL_FULL, b"s" * 16, 3, 4, 5, 6),
    frames.Detached(1, PROBLEM),
    frames.Ping(1),
    frames.Pong(2),
    frames.AckResult(9),
    frames.Drain(30),
    frames.Goodbye(PROBLEM),
]


@pytest.mark.parametrize("frame", SIMPLE_CLIENT_FRAMES, ids=lambda f: type(f).__name__)
def test_client_frames_survive(frame: frames.ClientFrame) -> None:
    data = encode_client_frame(frame).SerializeToString()
    assert decode_client_frame(gateway_pb2.ClientFrame.FromString(data)) == frame


@pytest.mark.parametrize("frame", SIMPLE_ROUTER_FRAMES, ids=lambda f: type(f).__name__)
def test_router_frames_survive(frame: frames.RouterFrame) -> None:
    data = encode_router_frame(frame).SerializeToString()
    assert decode_router_frame(gateway_pb2.RouterFrame.FromString(data)) == frame


@settings(max_examples=cases(50, 500))
@given(st.integers(1, 200), st.integers(1, limits.WORDS_MAX), st.integers(0, 2**32))
def test_batches_survive(count: int, words: int, seed: int) -> None:
    batch = make_batch(count, words, seed)
    frame = encode_client_frame(frames.Publish(5, frames.Mode.AT_LEAST_ONCE, batch, 250))
    back = decode_client_frame(gateway_pb2.ClientFrame.FromString(frame.SerializeToString()))
    assert isinstance(back, frames.Publish)
    assert same_batch(back.batch, batch)
    assert (back.sequence, back.mode, back.ttl_ms) == (5, frames.Mode.AT_LEAST_ONCE, 250)


def test_deliveries_survive() -> None:
    slices = (
        frames.Slice(make_batch(3), ((5, 2), (9, 1)), True),
        frames.Slice(make_batch(1), ((10, 1),), spooled=True),
    )
    frame = encode_router_frame(frames.Delivery(3, slices))
    back = decode_router_frame(gateway_pb2.RouterFrame.FromString(frame.SerializeToString()))
    assert isinstance(back, frames.Delivery)
    assert [s.sequences for s in back.slices] == [((5, 2), (9, 1)), ((10, 1),)]
    assert [(s.redelivered, s.spooled) for s in back.slices] == [(True, False), (False, True)]
    assert all(same_batch(a.batch, b.batch) for a, b in zip(slices, back.slices, strict=True))


def test_subscribe_survives_with_durable() -> None:
    filters = EncodedFilters(SCOPE, np.ones((2, 3), np.uint64))
    frame = frames.Subscribe(1, 2, (filters,), frames.Durable(b"n" * 16, True, 500, 3, frames.Credit(0, 5, 6)))
    back = decode_client_frame(encode_client_frame(frame))
    assert isinstance(back, frames.Subscribe)
    assert back.durable == frame.durable
    assert np.array_equal(back.filters[0].bits, filters.bits)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"words": 0}, "words wide"),
        ({"words": limits.WORDS_MAX + 1}, "words wide"),
        ({"words": 3}, "bytes of bits"),
        ({"ids": b""}, "ids have 0 bytes"),
        ({"ids": b"x" * 17}, "ids have 17 bytes"),
        ({"bits": b"x" * 47}, "bytes of bits"),
        ({"payload_lengths": b"x" * 11}, "payload lengths"),
        ({"payload_lengths": b"\xff" * 12}, "add up to"),
        ({"payloads": b""}, "add up to"),
        ({"scope": opaque_pb2.Scope(space=b"x", profile=b"p" * 32)}, "space id"),
        ({"scope": opaque_pb2.Scope(space=b"x" * 16, profile=b"p")}, "profile digest"),
    ],
)
def test_wrong_columns_are_refused(change: dict[str, object], names: str) -> None:
    message = batch_to_pb(make_batch(3))
    assert message.words == 2
    fields = {name: getattr(message, name) for name in ("scope", "words", "bits", "ids", "payload_lengths", "payloads")}
    with pytest.raises(InputError, match=names):
        batch_from_pb(opaque_pb2.Batch(**{**fields, **change}))


def test_too_many_messages_are_refused_before_anything_is_made() -> None:
    count = limits.BATCH_MESSAGES_MAX + 1
    message = opaque_pb2.Batch(scope=batch_to_pb(make_batch(1)).scope, words=1, ids=b"x" * 16 * count)
    with pytest.raises(LimitError, match="65537 messages"):
        batch_from_pb(message)


def test_rows_without_bits_need_match_all() -> None:
    filters = EncodedFilters(SCOPE, np.array([[1, 0], [0, 0]], np.uint64))
    with pytest.raises(EmptyFilterError):
        filters_from_pb(filters_to_pb(filters))
    assert len(filters_from_pb(filters_to_pb(filters, match_all=True))) == 2
    assert len(filters_from_pb(filters_to_pb(EncodedFilters(SCOPE, np.zeros((0, 2), np.uint64))))) == 0


@pytest.mark.parametrize(
    "message",
    [
        gateway_pb2.ClientFrame(),
        gateway_pb2.ClientFrame(publish=gateway_pb2.Publish(sequence=1, batch=batch_to_pb(make_batch()))),
        gateway_pb2.ClientFrame(publish=gateway_pb2.Publish(sequence=0, mode="MODE_BEST_EFFORT")),
        gateway_pb2.ClientFrame(subscribe=gateway_pb2.Subscribe(subscription=1)),
        gateway_pb2.ClientFrame(hello=gateway_pb2.Hello(resume_token=b"short")),
        gateway_pb2.ClientFrame(hello=gateway_pb2.Hello(software="x" * 1000)),
        gateway_pb2.ClientFrame(credit=gateway_pb2.Credit(messages=2**40)),
        gateway_pb2.ClientFrame(ack=gateway_pb2.Ack(up_to=1)),
        gateway_pb2.ClientFrame(ack=gateway_pb2.Ack(runs=[gateway_pb2.Run(first=3, count=0)], verdict="VERDICT_DONE")),
        gateway_pb2.ClientFrame(
            ack=gateway_pb2.Ack(
                runs=[gateway_pb2.Run(first=3, count=2), gateway_pb2.Run(first=4, count=1)], verdict="VERDICT_DONE"
            )
        ),
    ],
)
def test_wrong_client_frames_are_refused(message: gateway_pb2.ClientFrame) -> None:
    with pytest.raises(InputError):
        decode_client_frame(message)


def test_unknown_fields_are_tolerated_and_unknown_kinds_refused() -> None:
    ping = encode_client_frame(frames.Ping(3)).SerializeToString()
    # Field 900 (varint 1) inside the Ping: a field of a later version.
    extended = bytes([ping[0], ping[1] + 3]) + ping[2:] + b"\xa0\x38\x01"
    assert decode_client_frame(gateway_pb2.ClientFrame.FromString(extended)) == frames.Ping(3)
    with pytest.raises(WireError, match="kind"):
        decode_client_frame(gateway_pb2.ClientFrame.FromString(b"\xa2\x38\x01x"))


@settings(max_examples=cases(300, 5000))
@given(st.binary(max_size=200))
def test_noise_is_refused_or_decoded_but_never_crashes(data: bytes) -> None:
    try:
        message = gateway_pb2.ClientFrame.FromString(data)
    except Exception:  # the protobuf library's own refusal
        return
    try:
        decode_client_frame(message)
    except InputError:
        return


def test_problem_text_is_cut() -> None:
    frame = encode_router_frame(frames.Goodbye(frames.Problem("x", "y" * 5000)))
    back = decode_router_frame(frame)
    assert isinstance(back, frames.Goodbye)
    assert back.problem is not None
    assert len(back.problem.message) == limits.ERROR_CHARS_MAX
