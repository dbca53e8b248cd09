"""What is inside a seal: the attributes as canonical JSON, then the application's own bytes.

TRUSTED, pure. ``u8 version | u32 length of the JSON | JSON | payload``. JSON keeps 64-bit integers and floats exactly
(in Python); what comes out is checked like anything that came from outside, as any member could have written it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping

from secroute.content import Message, Value
from secroute.errors import InputError

VERSION = 1
_HEAD = struct.Struct(">BI")


def encode_body(attributes: Mapping[str, Value], payload: bytes = b"") -> bytes:
    """The bytes to seal."""
    text = json.dumps(attributes, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return _HEAD.pack(VERSION, len(text)) + text + payload


def decode_body(body: bytes) -> tuple[Message, bytes]:
    """Attributes and payload of an opened body; raises ``InputError`` if it is not one."""
    if len(body) < _HEAD.size:
        raise InputError(f"a message body of {len(body)} bytes is cut short")
    version, length = _HEAD.unpack_from(body)
    if version != VERSION:
        raise InputError(f"a message body of version {version}; this release reads version {VERSION}")
    end = _HEAD.size + length
    if end > len(body):
        raise InputError("a message body is cut short")
    try:
        attributes = json.loads(body[_HEAD.size : end])
    except (ValueError, RecursionError):
        raise InputError("a message body does not hold JSON") from None
    if not isinstance(attributes, dict):
        raise InputError("a message body does not hold attributes")
    return Message(attributes), body[end:]
