from secroute.wire._generated import gateway_pb2 as _gateway_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("router_id", "version", "uptime_s", "draining", "sessions", "sessions_resumable", "filters", "durable", "counters", "queued_messages", "queued_bytes", "store_bytes", "engine", "match_p50_ms", "match_p99_ms")
    ROUTER_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_RESUMABLE_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    MATCH_P50_MS_FIELD_NUMBER: _ClassVar[int]
    MATCH_P99_MS_FIELD_NUMBER: _ClassVar[int]
    router_id: bytes
    version: str
    uptime_s: float
    draining: bool
    sessions: int
    sessions_resumable: int
    filters: int
    durable: int
    counters: Counters
    queued_messages: int
    queued_bytes: int
    store_bytes: int
    engine: str
    match_p50_ms: float
    match_p99_ms: float
    def __init__(self, router_id: _Optional[bytes] = ..., version: _Optional[str] = ..., uptime_s: _Optional[float] = ..., draining: _Optional[bool] = ..., sessions: _Optional[int] = ..., sessions_resumable: _Optional[int] = ..., filters: _Optional[int] = ..., durable: _Optional[int] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ..., queued_messages: _Optional[int] = ..., queued_bytes: _Optional[int] = ..., store_bytes: _Optional[int] = ..., engine: _Optional[str] = ..., match_p50_ms: _Optional[float] = ..., match_p99_ms: _Optional[float] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("messages_in", "messages_matched", "messages_out", "messages_duplicate", "messages_expired", "messages_dropped", "messages_redelivered", "messages_dead", "batches_in", "batches_refused", "acks", "gaps", "commits", "bytes_in", "bytes_out")
    MESSAGES_IN_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_MATCHED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_OUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_DROPPED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_DEAD_FIELD_NUMBER: _ClassVar[int]
    BATCHES_IN_FIELD_NUMBER: _ClassVar[int]
    BATCHES_REFUSED_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    BYTES_IN_FIELD_NUMBER: _ClassVar[int]
    BYTES_OUT_FIELD_NUMBER: _ClassVar[int]
    messages_in: int
    messages_matched: int
    messages_out: int
    messages_duplicate: int
    messages_expired: int
    messages_dropped: int
    messages_redelivered: int
    messages_dead: int
    batches_in: int
    batches_refused: int
    acks: int
    gaps: int
    commits: int
    bytes_in: int
    bytes_out: int
    def __init__(self, messages_in: _Optional[int] = ..., messages_matched: _Optional[int] = ..., messages_out: _Optional[int] = ..., messages_duplicate: _Optional[int] = ..., messages_expired: _Optional[int] = ..., messages_dropped: _Optional[int] = ..., messages_redelivered: _Optional[int] = ..., messages_dead: _Optional[int] = ..., batches_in: _Optional[int] = ..., batches_refused: _Optional[int] = ..., acks: _Optional[int] = ..., gaps: _Optional[int] = ..., commits: _Optional[int] = ..., bytes_in: _Optional[int] = ..., bytes_out: _Optional[int] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionStatus]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionStatus, _Mapping]]] = ...) -> None: ...

class SessionStatus(_message.Message):
    __slots__ = ("session_id", "owner", "connected", "filters", "subscriptions", "queued_messages", "queued_bytes", "spilled_bytes", "messages_in", "messages_out", "age_s")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILLED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_IN_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_OUT_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    session_id: bytes
    owner: str
    connected: bool
    filters: int
    subscriptions: int
    queued_messages: int
    queued_bytes: int
    spilled_bytes: int
    messages_in: int
    messages_out: int
    age_s: float
    def __init__(self, session_id: _Optional[bytes] = ..., owner: _Optional[str] = ..., connected: _Optional[bool] = ..., filters: _Optional[int] = ..., subscriptions: _Optional[int] = ..., queued_messages: _Optional[int] = ..., queued_bytes: _Optional[int] = ..., spilled_bytes: _Optional[int] = ..., messages_in: _Optional[int] = ..., messages_out: _Optional[int] = ..., age_s: _Optional[float] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[TableStatus]
    def __init__(self, tables: _Optional[_Iterable[_Union[TableStatus, _Mapping]]] = ...) -> None: ...

class TableStatus(_message.Message):
    __slots__ = ("space", "epoch", "profile", "words", "filters", "endpoints", "messages", "engine")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    space: bytes
    epoch: int
    profile: bytes
    words: int
    filters: int
    endpoints: int
    messages: int
    engine: str
    def __init__(self, space: _Optional[bytes] = ..., epoch: _Optional[int] = ..., profile: _Optional[bytes] = ..., words: _Optional[int] = ..., filters: _Optional[int] = ..., endpoints: _Optional[int] = ..., messages: _Optional[int] = ..., engine: _Optional[str] = ...) -> None: ...

class ListEpochsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListEpochsResponse(_message.Message):
    __slots__ = ("epochs",)
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    epochs: _containers.RepeatedCompositeFieldContainer[EpochStatus]
    def __init__(self, epochs: _Optional[_Iterable[_Union[EpochStatus, _Mapping]]] = ...) -> None: ...

class EpochStatus(_message.Message):
    __slots__ = ("space", "epoch", "profile", "pinned_by_config", "idle_s")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PINNED_BY_CONFIG_FIELD_NUMBER: _ClassVar[int]
    IDLE_S_FIELD_NUMBER: _ClassVar[int]
    space: bytes
    epoch: int
    profile: bytes
    pinned_by_config: bool
    idle_s: float
    def __init__(self, space: _Optional[bytes] = ..., epoch: _Optional[int] = ..., profile: _Optional[bytes] = ..., pinned_by_config: _Optional[bool] = ..., idle_s: _Optional[float] = ...) -> None: ...

class SettleDeadRequest(_message.Message):
    __slots__ = ("name", "owner", "drop")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    owner: str
    drop: bool
    def __init__(self, name: _Optional[bytes] = ..., owner: _Optional[str] = ..., drop: _Optional[bool] = ...) -> None: ...

class SettleDeadResponse(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: int
    def __init__(self, messages: _Optional[int] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("deadline_s",)
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    deadline_s: int
    def __init__(self, deadline_s: _Optional[int] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
