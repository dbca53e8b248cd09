from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Scope(_message.Message):
    __slots__ = ("space", "epoch", "profile")
    SPACE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    space: bytes
    epoch: int
    profile: bytes
    def __init__(self, space: _Optional[bytes] = ..., epoch: _Optional[int] = ..., profile: _Optional[bytes] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("scope", "words", "bits", "ids", "payload_lengths", "payloads")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    words: int
    bits: bytes
    ids: bytes
    payload_lengths: bytes
    payloads: bytes
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ..., words: _Optional[int] = ..., bits: _Optional[bytes] = ..., ids: _Optional[bytes] = ..., payload_lengths: _Optional[bytes] = ..., payloads: _Optional[bytes] = ...) -> None: ...

class Filters(_message.Message):
    __slots__ = ("scope", "words", "bits", "match_all")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    MATCH_ALL_FIELD_NUMBER: _ClassVar[int]
    scope: Scope
    words: int
    bits: bytes
    match_all: bool
    def __init__(self, scope: _Optional[_Union[Scope, _Mapping]] = ..., words: _Optional[int] = ..., bits: _Optional[bytes] = ..., match_all: _Optional[bool] = ...) -> None: ...
