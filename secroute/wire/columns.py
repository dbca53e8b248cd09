"""Opaque columns to and from protobuf: scopes, batches and filters.

Both sides of the trust line use this room. Every length is checked against the others and against ``limits`` before an
array is made; decoding shares the frame's memory instead of copying it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from secroute import limits
from secroute.errors import EmptyFilterError, LimitError, OpaqueError, WireError
from secroute.opaque import EncodedBatch, EncodedFilters, Scope, Words
from secroute.wire._generated import opaque_pb2 as pb


def scope_to_pb(scope: Scope) -> pb.Scope:
    """A scope as protobuf."""
    return pb.Scope(space=scope.space, epoch=scope.epoch, profile=scope.profile)


def scope_from_pb(message: pb.Scope) -> Scope:
    """A scope from protobuf; raises if a part has the wrong length."""
    try:
        return Scope(message.space, message.epoch, message.profile)
    except OpaqueError as error:
        raise WireError(f"scope: {error}") from None


def _check_width(words: int, what: str) -> None:
    if not 1 <= words <= limits.WORDS_MAX:
        raise WireError(f"{what}: rows are {words} words wide, allowed are 1..{limits.WORDS_MAX}")


def _rows(data: bytes, words: int) -> Words:
    return np.frombuffer(data, np.dtype("<u8")).reshape(-1, words)


def batch_to_pb(batch: EncodedBatch) -> pb.Batch:
    """A batch as protobuf, column by column."""
    return pb.Batch(
        scope=scope_to_pb(batch.scope),
        words=batch.bits.shape[1],
        bits=batch.bits.tobytes(),
        ids=batch.ids.tobytes(),
        payload_lengths=np.diff(batch.offsets).astype("<u4").tobytes(),
        payloads=batch.payloads.tobytes(),
    )


def batch_bytes(batch: EncodedBatch) -> int:
    """What a batch counts against windows and credits: the bytes of its bits and payloads."""
    return int(batch.bits.nbytes + batch.payloads.nbytes)


def _payload_offsets(lengths: npt.NDArray[np.uint32], total: int) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] != total:
        raise WireError(f"batch: payload lengths add up to {offsets[-1]} bytes, there are {total}")
    if len(lengths) and int(lengths.max()) > limits.PAYLOAD_BYTES_MAX:
        raise LimitError(f"batch: a payload of {lengths.max()} bytes, at most {limits.PAYLOAD_BYTES_MAX}")
    return offsets


def batch_from_pb(message: pb.Batch) -> EncodedBatch:
    """A batch from protobuf; raises ``WireError`` or ``LimitError`` before anything is allocated for a wrong one."""
    scope = scope_from_pb(message.scope)
    ids, bits, lengths, payloads = message.ids, message.bits, message.payload_lengths, message.payloads
    count, rest = divmod(len(ids), limits.MESSAGE_ID_BYTES)
    if rest or not count:
        raise WireError(f"batch: ids have {len(ids)} bytes, not a positive multiple of {limits.MESSAGE_ID_BYTES}")
    if count > limits.BATCH_MESSAGES_MAX:
        raise LimitError(f"batch: {count} messages, at most {limits.BATCH_MESSAGES_MAX}")
    _check_width(message.words, "batch")
    if len(bits) != (wanted := count * message.words * 8):
        raise WireError(f"batch: {count} rows of {message.words} words are {wanted} bytes of bits, not {len(bits)}")
    if len(lengths) != count * 4:
        raise WireError(f"batch: {count} messages need {count * 4} bytes of payload lengths, not {len(lengths)}")
    if len(payloads) > limits.BATCH_PAYLOAD_BYTES_MAX:
        raise LimitError(f"batch: {len(payloads)} bytes of payloads, at most {limits.BATCH_PAYLOAD_BYTES_MAX}")
    return EncodedBatch(
        scope,
        _rows(bits, message.words),
        np.frombuffer(ids, np.uint8).reshape(count, limits.MESSAGE_ID_BYTES),
        np.frombuffer(payloads, np.uint8),
        _payload_offsets(np.frombuffer(lengths, np.dtype("<u4")), len(payloads)),
    )


def filters_to_pb(filters: EncodedFilters, match_all: bool = False) -> pb.Filters:
    """Filters as protobuf."""
    bits = filters.bits
    return pb.Filters(scope=scope_to_pb(filters.scope), words=bits.shape[1], bits=bits.tobytes(), match_all=match_all)


def filters_from_pb(message: pb.Filters) -> EncodedFilters:
    """Filters from protobuf; a row without bits is refused unless ``match_all`` is set."""
    scope = scope_from_pb(message.scope)
    _check_width(message.words, "filters")
    data = message.bits
    count, rest = divmod(len(data), message.words * 8)
    if rest:
        raise WireError(f"filters: {len(data)} bytes of bits are not whole rows of {message.words} words")
    if count > limits.SUBSCRIPTION_FILTERS_MAX:
        raise LimitError(f"filters: {count} encoded disjuncts, at most {limits.SUBSCRIPTION_FILTERS_MAX}")
    bits = _rows(data, message.words)
    if not message.match_all and not bits.any(axis=1).all():
        raise EmptyFilterError("filters: a row without bits matches everything; set match_all if that is meant")
    return EncodedFilters(scope, bits)
