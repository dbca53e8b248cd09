"""The frames of a session as plain values: what sessions are written in terms of, on both sides of the trust line.

No protobuf, no gRPC: ``client_frames`` and ``router_frames`` turn these into protobuf and back, checking every bound.
docs/wire.md tells which frame may come when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from secroute.errors import SecrouteError
from secroute.opaque import EncodedBatch, EncodedFilters, Scope

VERSION_MIN = 1
VERSION_MAX = 1

Runs = tuple[tuple[int, int], ...]
"""Runs of sequence numbers, each (first, count)."""

RETRYABLE_CODES = frozenset({"draining", "queue-full", "quota", "store-full"})


class Mode(IntEnum):
    """What a publisher asks for."""

    BEST_EFFORT = 1
    AT_LEAST_ONCE = 2


class Verdict(IntEnum):
    """What a consumer says about deliveries."""

    DONE = 1
    RETRY = 2
    DEAD = 3


class GapReason(IntEnum):
    """Why messages were not kept."""

    SPOOL_FULL = 1
    QUEUE_FULL = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as it travels: a stable code and a sentence with ids and counts only."""

    code: str
    message: str
    retryable: bool = False

    @classmethod
    def of(cls, error: SecrouteError) -> Problem:
        """The problem that describes one of our own errors."""
        return cls(error.code, str(error), error.code in RETRYABLE_CODES)


@dataclass(frozen=True, slots=True)
class Credit:
    """Adds to what the router may send for one subscription (0: all ordinary ones together)."""

    subscription: int
    messages: int
    bytes: int


# --- opening, keeping and closing --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The client's first frame."""

    version_min: int = VERSION_MIN
    version_max: int = VERSION_MAX
    software: str = ""
    resume_token: bytes = field(default=b"", repr=False)
    credit: Credit = Credit(0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """What the router allows this session."""

    frame_bytes_max: int
    batch_messages_max: int
    publish_window_messages: int
    publish_window_bytes: int
    subscription_filters_max: int
    session_filters_max: int
    keepalive_s: int
    resume_grace_s: int
    ttl_ms_max: int
    publish_window_batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The router's first frame."""

    version: int
    router_id: bytes
    session_id: bytes
    resume_token: bytes = field(repr=False)
    resumed: bool
    limits: SessionLimits
    publish_sequence: int


@dataclass(frozen=True, slots=True)
class Ping:
    """Answered by a Pong with the same nonce."""

    nonce: int = 0


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a Ping."""

    nonce: int = 0


@dataclass(frozen=True, slots=True)
class Drain:
    """The router will stop within the deadline."""

    deadline_s: int


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The last frame of its sender."""

    problem: Problem | None = None


# --- subscriptions -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Durable:
    """The durable subscription that a Subscribe attaches to."""

    name: bytes
    shared: bool = False
    ack_timeout_ms: int = 0
    tries_max: int = 0
    credit: Credit = Credit(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Make or change a subscription: sets the filters of every scope named."""

    request: int
    subscription: int
    filters: tuple[EncodedFilters, ...]
    durable: Durable | None = None
    match_all: bool = False
    """Allows rows without bits; decoding has checked it already."""


@dataclass(frozen=True, slots=True)
class SubscribeResult:
    """Without a problem: the subscription is active."""

    request: int
    subscription: int
    problem: Problem | None = None
    created: bool = False
    epochs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Drop the filters of some scopes, or the whole subscription."""

    request: int
    subscription: int
    scopes: tuple[Scope, ...] = ()
    delete_durable: bool = False


@dataclass(frozen=True, slots=True)
class UnsubscribeResult:
    """Without a problem: no message that is matched from now on will be delivered for it."""

    request: int
    subscription: int
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Detached:
    """The router took a durable subscription away from this session."""

    subscription: int
    problem: Problem


# --- publishing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Publish:
    """One batch."""

    sequence: int
    mode: Mode
    batch: EncodedBatch
    ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class PublishResult:
    """Without a problem: the batch was taken, as its mode promises."""

    sequence: int
    problem: Problem | None = None
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class PublishResults:
    """Results of one or more batches of this session, in order."""

    results: tuple[PublishResult, ...]


# --- deliveries ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """Messages of one scope with their sequence numbers."""

    batch: EncodedBatch
    sequences: Runs
    redelivered: bool = False
    spooled: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """Slices for one subscription (0: all ordinary ones together)."""

    subscription: int
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True)
class Ack:
    """A verdict on deliveries, and optionally more credit."""

    subscription: int
    up_to: int = 0
    runs: Runs = ()
    verdict: Verdict = Verdict.DONE
    credit_messages: int = 0
    credit_bytes: int = 0
    request: int = 0
    """Rising in a session; 0: no AckResult wanted."""


@dataclass(frozen=True, slots=True)
class AckResult:
    """Every ack of this session with a request up to this one is committed."""

    request: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that may have concerned this subscription were not kept."""

    subscription: int
    gap: int
    reason: GapReason
    space: bytes
    epoch: int
    messages: int
    first_unix_ms: int
    last_unix_ms: int


@dataclass(frozen=True, slots=True)
class GapAck:
    """The client has noted a gap."""

    subscription: int
    gap: int


ClientFrame = Hello | Subscribe | Unsubscribe | Publish | Credit | Ack | GapAck | Ping | Pong | Goodbye
RouterFrame = (
    Welcome
    | SubscribeResult
    | UnsubscribeResult
    | PublishResults
    | Delivery
    | AckResult
    | Gap
    | Detached
    | Ping
    | Pong
    | Drain
    | Goodbye
)
