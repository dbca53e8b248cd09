from secroute.wire._generated import gateway_pb2 as _gateway_pb2
from secroute.wire._generated import opaque_pb2 as _opaque_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LinkFrame(_message.Message):
    __slots__ = ("hello", "proof", "link_state", "page", "synced", "transfer", "transfer_result", "ping", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    LINK_STATE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_RESULT_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: LinkHello
    proof: LinkProof
    link_state: LinkStateRecord
    page: FilterPage
    synced: LinkSynced
    transfer: Transfer
    transfer_result: TransferResult
    ping: LinkPing
    goodbye: LinkGoodbye
    def __init__(self, hello: _Optional[_Union[LinkHello, _Mapping]] = ..., proof: _Optional[_Union[LinkProof, _Mapping]] = ..., link_state: _Optional[_Union[LinkStateRecord, _Mapping]] = ..., page: _Optional[_Union[FilterPage, _Mapping]] = ..., synced: _Optional[_Union[LinkSynced, _Mapping]] = ..., transfer: _Optional[_Union[Transfer, _Mapping]] = ..., transfer_result: _Optional[_Union[TransferResult, _Mapping]] = ..., ping: _Optional[_Union[LinkPing, _Mapping]] = ..., goodbye: _Optional[_Union[LinkGoodbye, _Mapping]] = ...) -> None: ...

class LinkHello(_message.Message):
    __slots__ = ("version", "name", "public_key", "nonce", "scheme")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    version: int
    name: str
    public_key: bytes
    nonce: bytes
    scheme: str
    def __init__(self, version: _Optional[int] = ..., name: _Optional[str] = ..., public_key: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., scheme: _Optional[str] = ...) -> None: ...

class LinkProof(_message.Message):
    __slots__ = ("signature",)
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    signature: bytes
    def __init__(self, signature: _Optional[bytes] = ...) -> None: ...

class LinkStateRecord(_message.Message):
    __slots__ = ("public_key", "sequence", "changed", "neighbours", "weights", "signature")
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    NEIGHBOURS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    public_key: bytes
    sequence: int
    changed: int
    neighbours: bytes
    weights: _containers.RepeatedScalarFieldContainer[int]
    signature: bytes
    def __init__(self, public_key: _Optional[bytes] = ..., sequence: _Optional[int] = ..., changed: _Optional[int] = ..., neighbours: _Optional[bytes] = ..., weights: _Optional[_Iterable[int]] = ..., signature: _Optional[bytes] = ...) -> None: ...

class FilterPage(_message.Message):
    __slots__ = ("public_key", "sequence", "index", "scope", "durable", "words", "bits", "epochs", "signature")
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    DURABLE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    public_key: bytes
    sequence: int
    index: int
    scope: _opaque_pb2.Scope
    durable: bool
    words: int
    bits: bytes
    epochs: _containers.RepeatedScalarFieldContainer[int]
    signature: bytes
    def __init__(self, public_key: _Optional[bytes] = ..., sequence: _Optional[int] = ..., index: _Optional[int] = ..., scope: _Optional[_Union[_opaque_pb2.Scope, _Mapping]] = ..., durable: _Optional[bool] = ..., words: _Optional[int] = ..., bits: _Optional[bytes] = ..., epochs: _Optional[_Iterable[int]] = ..., signature: _Optional[bytes] = ...) -> None: ...

class LinkSynced(_message.Message):
    __slots__ = ("stamp",)
    STAMP_FIELD_NUMBER: _ClassVar[int]
    stamp: bytes
    def __init__(self, stamp: _Optional[bytes] = ...) -> None: ...

class Transfer(_message.Message):
    __slots__ = ("number", "injector", "injection", "source", "stamp", "mode", "ttl_ms", "destinations", "batch")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    INJECTOR_FIELD_NUMBER: _ClassVar[int]
    INJECTION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    DESTINATIONS_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    number: int
    injector: bytes
    injection: int
    source: bytes
    stamp: bytes
    mode: _gateway_pb2.Mode
    ttl_ms: int
    destinations: bytes
    batch: _opaque_pb2.Batch
    def __init__(self, number: _Optional[int] = ..., injector: _Optional[bytes] = ..., injection: _Optional[int] = ..., source: _Optional[bytes] = ..., stamp: _Optional[bytes] = ..., mode: _Optional[_Union[_gateway_pb2.Mode, str]] = ..., ttl_ms: _Optional[int] = ..., destinations: _Optional[bytes] = ..., batch: _Optional[_Union[_opaque_pb2.Batch, _Mapping]] = ...) -> None: ...

class TransferResult(_message.Message):
    __slots__ = ("number", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    error: _gateway_pb2.Error
    def __init__(self, number: _Optional[int] = ..., error: _Optional[_Union[_gateway_pb2.Error, _Mapping]] = ...) -> None: ...

class LinkPing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LinkGoodbye(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _gateway_pb2.Error
    def __init__(self, error: _Optional[_Union[_gateway_pb2.Error, _Mapping]] = ...) -> None: ...

class OverlayStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OverlayStatusResponse(_message.Message):
    __slots__ = ("router", "name", "scheme", "stamp", "synced", "routers", "edges", "links", "held_messages", "injected_messages", "reinjected_messages", "duplicate_messages")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEME_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    SYNCED_FIELD_NUMBER: _ClassVar[int]
    ROUTERS_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    HELD_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    INJECTED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REINJECTED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    router: bytes
    name: str
    scheme: str
    stamp: bytes
    synced: bool
    routers: _containers.RepeatedCompositeFieldContainer[OverlayRouter]
    edges: _containers.RepeatedCompositeFieldContainer[OverlayEdge]
    links: _containers.RepeatedCompositeFieldContainer[OverlayLink]
    held_messages: int
    injected_messages: int
    reinjected_messages: int
    duplicate_messages: int
    def __init__(self, router: _Optional[bytes] = ..., name: _Optional[str] = ..., scheme: _Optional[str] = ..., stamp: _Optional[bytes] = ..., synced: _Optional[bool] = ..., routers: _Optional[_Iterable[_Union[OverlayRouter, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[OverlayEdge, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[OverlayLink, _Mapping]]] = ..., held_messages: _Optional[int] = ..., injected_messages: _Optional[int] = ..., reinjected_messages: _Optional[int] = ..., duplicate_messages: _Optional[int] = ...) -> None: ...

class OverlayRouter(_message.Message):
    __slots__ = ("router", "reachable", "filters")
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    router: bytes
    reachable: bool
    filters: int
    def __init__(self, router: _Optional[bytes] = ..., reachable: _Optional[bool] = ..., filters: _Optional[int] = ...) -> None: ...

class OverlayEdge(_message.Message):
    __slots__ = ("a", "b", "weight")
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    a: bytes
    b: bytes
    weight: int
    def __init__(self, a: _Optional[bytes] = ..., b: _Optional[bytes] = ..., weight: _Optional[int] = ...) -> None: ...

class OverlayLink(_message.Message):
    __slots__ = ("name", "router", "up", "filters", "messages_out", "messages_in", "queued", "up_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROUTER_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_OUT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_IN_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    UP_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    router: bytes
    up: bool
    filters: int
    messages_out: int
    messages_in: int
    queued: int
    up_s: float
    def __init__(self, name: _Optional[str] = ..., router: _Optional[bytes] = ..., up: _Optional[bool] = ..., filters: _Optional[int] = ..., messages_out: _Optional[int] = ..., messages_in: _Optional[int] = ..., queued: _Optional[int] = ..., up_s: _Optional[float] = ...) -> None: ...
