"""Frames that clients send, to and from protobuf. Decoding checks every bound; a frame of unknown kind is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from secroute import limits
from secroute.errors import WireError
from secroute.wire._generated import gateway_pb2 as pb
from secroute.wire.columns import batch_from_pb, batch_to_pb, filters_from_pb, filters_to_pb, scope_from_pb, scope_to_pb
from secroute.wire.fields import (
    at_most,
    bounded,
    bounded_text,
    credit_from_pb,
    credit_to_pb,
    exact_bytes,
    problem_of,
    problem_to_pb,
    runs_from_pb,
    runs_to_pb,
)
from secroute.wire.frames import (
    Ack,
    ClientFrame,
    Credit,
    Durable,
    GapAck,
    Goodbye,
    Hello,
    Mode,
    Ping,
    Pong,
    Publish,
    Subscribe,
    Unsubscribe,
    Verdict,
)

# --- to protobuf -----------------------------------------------------------------------------------------------------


def _hello(frame: Hello) -> pb.ClientFrame:
    hello = pb.Hello(
        version_min=frame.version_min,
        version_max=frame.version_max,
        software=frame.software,
        resume_token=frame.resume_token,
        credit=credit_to_pb(frame.credit),
    )
    return pb.ClientFrame(hello=hello)


def _durable(durable: Durable | None) -> pb.Durable | None:
    if durable is None:
        return None
    return pb.Durable(
        name=durable.name,
        shared=durable.shared,
        ack_timeout_ms=durable.ack_timeout_ms,
        tries_max=durable.tries_max,
        credit=credit_to_pb(durable.credit),
    )


def _subscribe(frame: Subscribe) -> pb.ClientFrame:
    filters = [filters_to_pb(part, frame.match_all) for part in frame.filters]
    message = pb.Subscribe(
        request=frame.request, subscription=frame.subscription, filters=filters, durable=_durable(frame.durable)
    )
    return pb.ClientFrame(subscribe=message)


def _unsubscribe(frame: Unsubscribe) -> pb.ClientFrame:
    message = pb.Unsubscribe(
        request=frame.request,
        subscription=frame.subscription,
        scopes=[scope_to_pb(scope) for scope in frame.scopes],
        delete_durable=frame.delete_durable,
    )
    return pb.ClientFrame(unsubscribe=message)


def _publish(frame: Publish) -> pb.ClientFrame:
    mode = pb.Mode.Name(frame.mode)
    message = pb.Publish(sequence=frame.sequence, mode=mode, batch=batch_to_pb(frame.batch), ttl_ms=frame.ttl_ms)
    return pb.ClientFrame(publish=message)


def _ack(frame: Ack) -> pb.ClientFrame:
    message = pb.Ack(
        subscription=frame.subscription,
        up_to=frame.up_to,
        runs=runs_to_pb(frame.runs),
        verdict=pb.Verdict.Name(frame.verdict),
        credit_messages=frame.credit_messages,
        credit_bytes=frame.credit_bytes,
        request=frame.request,
    )
    return pb.ClientFrame(ack=message)


_TO_PB: dict[type, Callable[[Any], pb.ClientFrame]] = {
    Hello: _hello,
    Subscribe: _subscribe,
    Unsubscribe: _unsubscribe,
    Publish: _publish,
    Ack: _ack,
    Credit: lambda f: pb.ClientFrame(credit=credit_to_pb(f)),
    GapAck: lambda f: pb.ClientFrame(gap_ack=pb.GapAck(subscription=f.subscription, gap=f.gap)),
    Ping: lambda f: pb.ClientFrame(ping=pb.Ping(nonce=f.nonce)),
    Pong: lambda f: pb.ClientFrame(pong=pb.Pong(nonce=f.nonce)),
    Goodbye: lambda f: pb.ClientFrame(goodbye=pb.Goodbye(error=problem_to_pb(f.problem))),
}


def encode_client_frame(frame: ClientFrame) -> pb.ClientFrame:
    """A client's frame as protobuf."""
    return _TO_PB[type(frame)](frame)


# --- from protobuf ---------------------------------------------------------------------------------------------------


def _from_hello(message: pb.Hello) -> Hello:
    token = exact_bytes(message.resume_token, limits.RESUME_TOKEN_BYTES, "resume token", optional=True)
    return Hello(
        version_min=message.version_min,
        version_max=message.version_max,
        software=bounded_text(message.software, limits.SOFTWARE_CHARS_MAX, "software"),
        resume_token=token,
        credit=credit_from_pb(message.credit),
    )


def _subscription(number: int, least: int = 0) -> int:
    return bounded(number, limits.SEQUENCE_MAX, "subscription", least)


def _from_durable(message: pb.Durable) -> Durable:
    return Durable(
        exact_bytes(message.name, limits.DURABLE_NAME_BYTES, "durable name"),
        message.shared,
        bounded(message.ack_timeout_ms, limits.ACK_TIMEOUT_MS_MAX, "ack_timeout_ms"),
        bounded(message.tries_max, limits.TRIES_MAX, "tries_max"),
        credit_from_pb(message.credit),
    )


def _from_subscribe(message: pb.Subscribe) -> Subscribe:
    at_most(message.filters, limits.SUBSCRIBE_SCOPES_MAX, "scopes in one subscribe")
    filters = tuple(filters_from_pb(part) for part in message.filters)
    if len({part.scope for part in filters}) != len(filters):
        raise WireError("subscribe: a scope is named twice")
    durable = _from_durable(message.durable) if message.HasField("durable") else None
    if not filters and durable is None:
        raise WireError("subscribe: no filters, and no durable subscription to attach to")
    match_all = any(part.match_all for part in message.filters)
    return Subscribe(message.request, _subscription(message.subscription, 1), filters, durable, match_all)


def _from_unsubscribe(message: pb.Unsubscribe) -> Unsubscribe:
    at_most(message.scopes, limits.SUBSCRIBE_SCOPES_MAX, "scopes in one unsubscribe")
    scopes = tuple(scope_from_pb(scope) for scope in message.scopes)
    return Unsubscribe(message.request, _subscription(message.subscription, 1), scopes, message.delete_durable)


def _from_publish(message: pb.Publish) -> Publish:
    if message.mode not in (pb.MODE_BEST_EFFORT, pb.MODE_AT_LEAST_ONCE):
        raise WireError(f"publish: mode {message.mode} is not known")
    sequence = bounded(message.sequence, limits.SEQUENCE_MAX, "publish sequence", 1)
    ttl_ms = bounded(message.ttl_ms, limits.TTL_MS_MAX, "ttl_ms")
    return Publish(sequence, Mode(message.mode), batch_from_pb(message.batch), ttl_ms)


def _from_ack(message: pb.Ack) -> Ack:
    if message.verdict not in (pb.VERDICT_DONE, pb.VERDICT_RETRY, pb.VERDICT_DEAD):
        raise WireError(f"ack: verdict {message.verdict} is not known")
    return Ack(
        _subscription(message.subscription),
        bounded(message.up_to, limits.SEQUENCE_MAX, "up_to"),
        runs_from_pb(message.runs, "ack"),
        Verdict(message.verdict),
        bounded(message.credit_messages, limits.CREDIT_MESSAGES_MAX, "credit messages"),
        bounded(message.credit_bytes, limits.CREDIT_BYTES_MAX, "credit bytes"),
        bounded(message.request, limits.SEQUENCE_MAX, "ack request"),
    )


_FROM_PB: dict[str, Callable[[Any], ClientFrame]] = {
    "hello": _from_hello,
    "subscribe": _from_subscribe,
    "unsubscribe": _from_unsubscribe,
    "publish": _from_publish,
    "ack": _from_ack,
    "credit": credit_from_pb,
    "gap_ack": lambda m: GapAck(_subscription(m.subscription), m.gap),
    "ping": lambda m: Ping(m.nonce),
    "pong": lambda m: Pong(m.nonce),
    "goodbye": lambda m: Goodbye(problem_of(m)),
}


def decode_client_frame(message: pb.ClientFrame) -> ClientFrame:
    """A client's frame from protobuf; raises ``WireError`` or ``LimitError`` saying what is wrong with it."""
    kind = message.WhichOneof("frame")
    if kind is None:
        raise WireError("frame: empty, or of a kind that this version does not know")
    return _FROM_PB[kind](getattr(message, kind))
