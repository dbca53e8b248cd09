from secroute.wire._generated import opaque_pb2 as _opaque_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_BEST_EFFORT: _ClassVar[Mode]
    MODE_AT_LEAST_ONCE: _ClassVar[Mode]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_DONE: _ClassVar[Verdict]
    VERDICT_RETRY: _ClassVar[Verdict]
    VERDICT_DEAD: _ClassVar[Verdict]

class GapReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GAP_REASON_UNSPECIFIED: _ClassVar[GapReason]
    GAP_REASON_SPOOL_FULL: _ClassVar[GapReason]
    GAP_REASON_QUEUE_FULL: _ClassVar[GapReason]
MODE_UNSPECIFIED: Mode
MODE_BEST_EFFORT: Mode
MODE_AT_LEAST_ONCE: Mode
VERDICT_UNSPECIFIED: Verdict
VERDICT_DONE: Verdict
VERDICT_RETRY: Verdict
VERDICT_DEAD: Verdict
GAP_REASON_UNSPECIFIED: GapReason
GAP_REASON_SPOOL_FULL: GapReason
GAP_REASON_QUEUE_FULL: GapReason

class ClientFrame(_message.Message):
    __slots__ = ("hello", "subscribe", "unsubscribe", "publish", "credit", "ack", "gap_ack", "ping", "pong", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    GAP_ACK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    subscribe: Subscribe
    unsubscribe: Unsubscribe
    publish: Publish
    credit: Credit
    ack: Ack
    gap_ack: GapAck
    ping: Ping
    pong: Pong
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., subscribe: _Optional[_Union[Subscribe, _Mapping]] = ..., unsubscribe: _Optional[_Union[Unsubscribe, _Mapping]] = ..., publish: _Optional[_Union[Publish, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., gap_ack: _Optional[_Union[GapAck, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class RouterFrame(_message.Message):
    __slots__ = ("welcome", "subscribe_result", "unsubscribe_result", "publish_results", "delivery", "gap", "detached", "ping", "pong", "drain", "goodbye", "ack_result")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIBE_RESULT_FIELD_NUMBER: _ClassVar[int]
    UNSUBSCRIBE_RESULT_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_RESULTS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    ACK_RESULT_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    subscribe_result: SubscribeResult
    unsubscribe_result: UnsubscribeResult
    publish_results: PublishResults
    delivery: Delivery
    gap: Gap
    detached: Detached
    ping: Ping
    pong: Pong
    drain: Drain
    goodbye: Goodbye
    ack_result: AckResult
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., subscribe_result: _Optional[_Union[SubscribeResult, _Mapping]] = ..., unsubscribe_result: _Optional[_Union[UnsubscribeResult, _Mapping]] = ..., publish_results: _Optional[_Union[PublishResults, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, _Mapping]] = ..., gap: _Optional[_Union[Gap, _Mapping]] = ..., detached: _Optional[_Union[Detached, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., ack_result: _Optional[_Union[AckResult, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "retryable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    retryable: bool
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., retryable: _Optional[bool] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("version_min", "version_max", "software", "resume_token", "credit")
    VERSION_MIN_FIELD_NUMBER: _ClassVar[int]
    VERSION_MAX_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    version_min: int
    version_max: int
    software: str
    resume_token: bytes
    credit: Credit
    def __init__(self, version_min: _Optional[int] = ..., version_max: _Optional[int] = ..., software: _Optional[str] = ..., resume_token: _Optional[bytes] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "router_id", "session_id", "resume_token", "resumed", "limits", "publish_sequence")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    version: int
    router_id: bytes
    session_id: bytes
    resume_token: bytes
    resumed: bool
    limits: SessionLimits
    publish_sequence: int
    def __init__(self, version: _Optional[int] = ..., router_id: _Optional[bytes] = ..., session_id: _Optional[bytes] = ..., resume_token: _Optional[bytes] = ..., resumed: _Optional[bool] = ..., limits: _Optional[_Union[SessionLimits, _Mapping]] = ..., publish_sequence: _Optional[int] = ...) -> None: ...

class SessionLimits(_message.Message):
    __slots__ = ("frame_bytes_max", "batch_messages_max", "publish_window_messages", "publish_window_bytes", "subscription_filters_max", "session_filters_max", "keepalive_s", "resume_grace_s", "ttl_ms_max", "publish_window_batches")
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    BATCH_MESSAGES_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_WINDOW_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FILTERS_MAX_FIELD_NUMBER: _ClassVar[int]
    SESSION_FILTERS_MAX_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_S_FIELD_NUMBER: _ClassVar[int]
    RESUME_GRACE_S_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_WINDOW_BATCHES_FIELD_NUMBER: _ClassVar[int]
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
    def __init__(self, frame_bytes_max: _Optional[int] = ..., batch_messages_max: _Optional[int] = ..., publish_window_messages: _Optional[int] = ..., publish_window_bytes: _Optional[int] = ..., subscription_filters_max: _Optional[int] = ..., session_filters_max: _Optional[int] = ..., keepalive_s: _Optional[int] = ..., resume_grace_s: _Optional[int] = ..., ttl_ms_max: _Optional[int] = ..., publish_window_batches: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("deadline_s",)
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    deadline_s: int
    def __init__(self, deadline_s: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: Error
    def __init__(self, error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Subscribe(_message.Message):
    __slots__ = ("request", "subscription", "filters", "durable")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    request: int
    subscription: int
    filters: _containers.RepeatedCompositeFieldContainer[_opaque_pb2.Filters]
    durable: Durable
    def __init__(self, request: _Optional[int] = ..., subscription: _Optional[int] = ..., filters: _Optional[_Iterable[_Union[_opaque_pb2.Filters, _Mapping]]] = ..., durable: _Optional[_Union[Durable, _Mapping]] = ...) -> None: ...

class Durable(_message.Message):
    __slots__ = ("name", "shared", "ack_timeout_ms", "tries_max", "credit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    ACK_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    shared: bool
    ack_timeout_ms: int
    tries_max: int
    credit: Credit
    def __init__(self, name: _Optional[bytes] = ..., shared: _Optional[bool] = ..., ack_timeout_ms: _Optional[int] = ..., tries_max: _Optional[int] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ...) -> None: ...

class SubscribeResult(_message.Message):
    __slots__ = ("request", "subscription", "error", "created", "epochs")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    request: int
    subscription: int
    error: Error
    created: bool
    epochs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[int] = ..., subscription: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., created: _Optional[bool] = ..., epochs: _Optional[_Iterable[int]] = ...) -> None: ...

class Unsubscribe(_message.Message):
    __slots__ = ("request", "subscription", "scopes", "delete_durable")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    DELETE_DURABLE_FIELD_NUMBER: _ClassVar[int]
    request: int
    subscription: int
    scopes: _containers.RepeatedCompositeFieldContainer[_opaque_pb2.Scope]
    delete_durable: bool
    def __init__(self, request: _Optional[int] = ..., subscription: _Optional[int] = ..., scopes: _Optional[_Iterable[_Union[_opaque_pb2.Scope, _Mapping]]] = ..., delete_durable: _Optional[bool] = ...) -> None: ...

class UnsubscribeResult(_message.Message):
    __slots__ = ("request", "subscription", "error")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request: int
    subscription: int
    error: Error
    def __init__(self, request: _Optional[int] = ..., subscription: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Detached(_message.Message):
    __slots__ = ("subscription", "error")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    error: Error
    def __init__(self, subscription: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Publish(_message.Message):
    __slots__ = ("sequence", "mode", "batch", "ttl_ms")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    mode: Mode
    batch: _opaque_pb2.Batch
    ttl_ms: int
    def __init__(self, sequence: _Optional[int] = ..., mode: _Optional[_Union[Mode, str]] = ..., batch: _Optional[_Union[_opaque_pb2.Batch, _Mapping]] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class PublishResults(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[PublishResult]
    def __init__(self, results: _Optional[_Iterable[_Union[PublishResult, _Mapping]]] = ...) -> None: ...

class PublishResult(_message.Message):
    __slots__ = ("sequence", "error", "duplicates")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DUPLICATES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    error: Error
    duplicates: int
    def __init__(self, sequence: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., duplicates: _Optional[int] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("first", "count")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("subscription", "slices")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    def __init__(self, subscription: _Optional[int] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("batch", "sequences", "redelivered", "spooled")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    SPOOLED_FIELD_NUMBER: _ClassVar[int]
    batch: _opaque_pb2.Batch
    sequences: _containers.RepeatedCompositeFieldContainer[Run]
    redelivered: bool
    spooled: bool
    def __init__(self, batch: _Optional[_Union[_opaque_pb2.Batch, _Mapping]] = ..., sequences: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., redelivered: _Optional[bool] = ..., spooled: _Optional[bool] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("subscription", "messages", "bytes")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    messages: int
    bytes: int
    def __init__(self, subscription: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("subscription", "up_to", "runs", "verdict", "credit_messages", "credit_bytes", "request")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    UP_TO_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    CREDIT_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    up_to: int
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    verdict: Verdict
    credit_messages: int
    credit_bytes: int
    request: int
    def __init__(self, subscription: _Optional[int] = ..., up_to: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., credit_messages: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., request: _Optional[int] = ...) -> None: ...

class AckResult(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("subscription", "gap", "reason", "space", "epoch", "messages", "first_unix_ms", "last_unix_ms")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_UNIX_MS_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    gap: int
    reason: GapReason
    space: bytes
    epoch: int
    messages: int
    first_unix_ms: int
    last_unix_ms: int
    def __init__(self, subscription: _Optional[int] = ..., gap: _Optional[int] = ..., reason: _Optional[_Union[GapReason, str]] = ..., space: _Optional[bytes] = ..., epoch: _Optional[int] = ..., messages: _Optional[int] = ..., first_unix_ms: _Optional[int] = ..., last_unix_ms: _Optional[int] = ...) -> None: ...

class GapAck(_message.Message):
    __slots__ = ("subscription", "gap")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    subscription: int
    gap: int
    def __init__(self, subscription: _Optional[int] = ..., gap: _Optional[int] = ...) -> None: ...

class ListDurableRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDurableResponse(_message.Message):
    __slots__ = ("durable",)
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    durable: _containers.RepeatedCompositeFieldContainer[DurableStatus]
    def __init__(self, durable: _Optional[_Iterable[_Union[DurableStatus, _Mapping]]] = ...) -> None: ...

class DurableStatus(_message.Message):
    __slots__ = ("name", "owner", "shared", "epochs", "filters", "queued", "in_flight", "dead", "gaps", "consumers", "queued_bytes", "space")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPACE_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    owner: str
    shared: bool
    epochs: _containers.RepeatedScalarFieldContainer[int]
    filters: int
    queued: int
    in_flight: int
    dead: int
    gaps: int
    consumers: int
    queued_bytes: int
    space: bytes
    def __init__(self, name: _Optional[bytes] = ..., owner: _Optional[str] = ..., shared: _Optional[bool] = ..., epochs: _Optional[_Iterable[int]] = ..., filters: _Optional[int] = ..., queued: _Optional[int] = ..., in_flight: _Optional[int] = ..., dead: _Optional[int] = ..., gaps: _Optional[int] = ..., consumers: _Optional[int] = ..., queued_bytes: _Optional[int] = ..., space: _Optional[bytes] = ...) -> None: ...

class DeleteDurableRequest(_message.Message):
    __slots__ = ("name", "owner")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    owner: str
    def __init__(self, name: _Optional[bytes] = ..., owner: _Optional[str] = ...) -> None: ...

class DeleteDurableResponse(_message.Message):
    __slots__ = ("messages_dropped",)
    MESSAGES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    messages_dropped: int
    def __init__(self, messages_dropped: _Optional[int] = ...) -> None: ...
