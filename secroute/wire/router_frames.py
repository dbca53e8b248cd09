"""Frames that routers send to clients, to and from protobuf. Decoding checks every bound: no client trusts a router."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from secroute import limits
from secroute.errors import WireError
from secroute.wire._generated import gateway_pb2 as pb
from secroute.wire.columns import batch_from_pb, batch_to_pb
from secroute.wire.fields import at_most, bounded, exact_bytes, problem_of, problem_to_pb, runs_from_pb, runs_to_pb
from secroute.wire.frames import (
    AckResult,
    Delivery,
    Detached,
    Drain,
    Gap,
    GapReason,
    Goodbye,
    Ping,
    Pong,
    Problem,
    PublishResult,
    PublishResults,
    RouterFrame,
    SessionLimits,
    Slice,
    SubscribeResult,
    UnsubscribeResult,
    Welcome,
)

_LIMITS = (
    "frame_bytes_max",
    "batch_messages_max",
    "publish_window_messages",
    "publish_window_bytes",
    "subscription_filters_max",
    "session_filters_max",
    "keepalive_s",
    "resume_grace_s",
    "ttl_ms_max",
    "publish_window_batches",
)

# --- to protobuf -----------------------------------------------------------------------------------------------------


def _welcome(frame: Welcome) -> pb.RouterFrame:
    message = pb.Welcome(
        version=frame.version,
        router_id=frame.router_id,
        session_id=frame.session_id,
        resume_token=frame.resume_token,
        resumed=frame.resumed,
        limits=pb.SessionLimits(**{name: getattr(frame.limits, name) for name in _LIMITS}),
        publish_sequence=frame.publish_sequence,
    )
    return pb.RouterFrame(welcome=message)


def _subscribe_result(frame: SubscribeResult) -> pb.RouterFrame:
    message = pb.SubscribeResult(
        request=frame.request,
        subscription=frame.subscription,
        error=problem_to_pb(frame.problem),
        created=frame.created,
        epochs=frame.epochs,
    )
    return pb.RouterFrame(subscribe_result=message)


def _unsubscribe_result(frame: UnsubscribeResult) -> pb.RouterFrame:
    message = pb.UnsubscribeResult(
        request=frame.request, subscription=frame.subscription, error=problem_to_pb(frame.problem)
    )
    return pb.RouterFrame(unsubscribe_result=message)


def _publish_results(frame: PublishResults) -> pb.RouterFrame:
    results = [
        pb.PublishResult(sequence=result.sequence, error=problem_to_pb(result.problem), duplicates=result.duplicates)
        for result in frame.results
    ]
    return pb.RouterFrame(publish_results=pb.PublishResults(results=results))


def _delivery(frame: Delivery) -> pb.RouterFrame:
    slices = [
        pb.Slice(
            batch=batch_to_pb(part.batch),
            sequences=runs_to_pb(part.sequences),
            redelivered=part.redelivered,
            spooled=part.spooled,
        )
        for part in frame.slices
    ]
    return pb.RouterFrame(delivery=pb.Delivery(subscription=frame.subscription, slices=slices))


def _gap(frame: Gap) -> pb.RouterFrame:
    message = pb.Gap(
        subscription=frame.subscription,
        gap=frame.gap,
        reason=pb.GapReason.Name(frame.reason),
        space=frame.space,
        epoch=frame.epoch,
        messages=frame.messages,
        first_unix_ms=frame.first_unix_ms,
        last_unix_ms=frame.last_unix_ms,
    )
    return pb.RouterFrame(gap=message)


def _detached(frame: Detached) -> pb.RouterFrame:
    return pb.RouterFrame(detached=pb.Detached(subscription=frame.subscription, error=problem_to_pb(frame.problem)))


_TO_PB: dict[type, Callable[[Any], pb.RouterFrame]] = {
    Welcome: _welcome,
    SubscribeResult: _subscribe_result,
    UnsubscribeResult: _unsubscribe_result,
    PublishResults: _publish_results,
    Delivery: _delivery,
    AckResult: lambda f: pb.RouterFrame(ack_result=pb.AckResult(request=f.request)),
    Gap: _gap,
    Detached: _detached,
    Ping: lambda f: pb.RouterFrame(ping=pb.Ping(nonce=f.nonce)),
    Pong: lambda f: pb.RouterFrame(pong=pb.Pong(nonce=f.nonce)),
    Drain: lambda f: pb.RouterFrame(drain=pb.Drain(deadline_s=f.deadline_s)),
    Goodbye: lambda f: pb.RouterFrame(goodbye=pb.Goodbye(error=problem_to_pb(f.problem))),
}


def encode_router_frame(frame: RouterFrame) -> pb.RouterFrame:
    """A router's frame as protobuf."""
    return _TO_PB[type(frame)](frame)


# --- from protobuf ---------------------------------------------------------------------------------------------------


def _from_welcome(message: pb.Welcome) -> Welcome:
    bounds = {name: bounded(getattr(message.limits, name), limits.SEQUENCE_MAX, name) for name in _LIMITS}
    return Welcome(
        version=message.version,
        router_id=exact_bytes(message.router_id, limits.ROUTER_ID_BYTES, "router id"),
        session_id=exact_bytes(message.session_id, limits.SESSION_ID_BYTES, "session id"),
        resume_token=exact_bytes(message.resume_token, limits.RESUME_TOKEN_BYTES, "resume token"),
        resumed=message.resumed,
        limits=SessionLimits(**bounds),
        publish_sequence=bounded(message.publish_sequence, limits.SEQUENCE_MAX, "publish sequence"),
    )


def _from_subscribe_result(message: pb.SubscribeResult) -> SubscribeResult:
    at_most(message.epochs, limits.BATCH_MESSAGES_MAX, "epochs")
    return SubscribeResult(
        message.request, message.subscription, problem_of(message), message.created, tuple(message.epochs)
    )


def _from_publish_results(message: pb.PublishResults) -> PublishResults:
    at_most(message.results, limits.PUBLISH_RESULTS_MAX, "publish results in one frame")
    return PublishResults(
        tuple(PublishResult(result.sequence, problem_of(result), result.duplicates) for result in message.results)
    )


def _from_slice(message: pb.Slice) -> Slice:
    batch = batch_from_pb(message.batch)
    runs = runs_from_pb(message.sequences, "slice")
    if sum(count for _, count in runs) != len(batch):
        raise WireError(f"slice: {sum(count for _, count in runs)} sequence numbers for {len(batch)} messages")
    return Slice(batch, runs, message.redelivered, message.spooled)


def _from_delivery(message: pb.Delivery) -> Delivery:
    at_most(message.slices, limits.DELIVERY_SLICES_MAX, "slices in one delivery")
    return Delivery(message.subscription, tuple(_from_slice(part) for part in message.slices))


def _from_gap(message: pb.Gap) -> Gap:
    if message.reason not in (pb.GAP_REASON_SPOOL_FULL, pb.GAP_REASON_QUEUE_FULL):
        raise WireError(f"gap: reason {message.reason} is not known")
    return Gap(
        message.subscription,
        message.gap,
        GapReason(message.reason),
        exact_bytes(message.space, limits.SPACE_ID_BYTES, "space", optional=True),
        message.epoch,
        message.messages,
        message.first_unix_ms,
        message.last_unix_ms,
    )


def _from_detached(message: pb.Detached) -> Detached:
    return Detached(message.subscription, problem_of(message) or Problem("durable", "detached"))


_FROM_PB: dict[str, Callable[[Any], RouterFrame]] = {
    "welcome": _from_welcome,
    "subscribe_result": _from_subscribe_result,
    "unsubscribe_result": lambda m: UnsubscribeResult(m.request, m.subscription, problem_of(m)),
    "publish_results": _from_publish_results,
    "delivery": _from_delivery,
    "ack_result": lambda m: AckResult(m.request),
    "gap": _from_gap,
    "detached": _from_detached,
    "ping": lambda m: Ping(m.nonce),
    "pong": lambda m: Pong(m.nonce),
    "drain": lambda m: Drain(m.deadline_s),
    "goodbye": lambda m: Goodbye(problem_of(m)),
}


def decode_router_frame(message: pb.RouterFrame) -> RouterFrame:
    """A router's frame from protobuf; raises ``WireError`` or ``LimitError`` saying what is wrong with it."""
    kind = message.WhichOneof("frame")
    if kind is None:
        raise WireError("frame: empty, or of a kind that this version does not know")
    return _FROM_PB[kind](getattr(message, kind))
