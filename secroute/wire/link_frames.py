"""Frames between neighbouring routers, to and from protobuf. Decoding checks every bound: no router trusts another.

UNTRUSTED side's own vocabulary; clients never see these frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from secroute import limits
from secroute.errors import LimitError, WireError
from secroute.opaque import EncodedBatch, Scope, Words
from secroute.wire._generated import gateway_pb2 as gateway
from secroute.wire._generated import overlay_pb2 as pb
from secroute.wire.columns import batch_from_pb, batch_to_pb, scope_from_pb, scope_to_pb
from secroute.wire.fields import at_most, bounded, bounded_text, exact_bytes, problem_of, problem_to_pb
from secroute.wire.frames import Mode, Problem

LINK_VERSION = 1
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True)
class LinkHello:
    """Who calls, or answers."""

    name: str
    public_key: bytes
    nonce: bytes
    scheme: str
    version: int = LINK_VERSION


@dataclass(frozen=True, slots=True)
class LinkProof:
    """Proof that the key of the Hello is the sender's."""

    signature: bytes


@dataclass(frozen=True, slots=True)
class LinkStateFrame:
    """A link state as it travels."""

    public_key: bytes
    sequence: int
    changed: int
    links: tuple[tuple[bytes, int], ...]
    signature: bytes


@dataclass(frozen=True, slots=True, eq=False)
class PageFrame:
    """A page of filters as it travels."""

    public_key: bytes
    sequence: int
    index: int
    scope: Scope
    durable: bool
    bits: Words
    epochs: tuple[int, ...]
    signature: bytes


@dataclass(frozen=True, slots=True)
class LinkSynced:
    """The state of the network that the sender is in; the first one says that all it knew has been sent."""

    stamp: bytes


@dataclass(frozen=True, slots=True)
class Header:
    """How a copy of some messages travels."""

    injector: bytes
    injection: int
    source: bytes
    stamp: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Messages for the neighbour to deliver and to pass on."""

    number: int
    header: Header
    mode: Mode
    ttl_ms: int
    destinations: bytes
    batch: EncodedBatch


@dataclass(frozen=True, slots=True)
class TransferResult:
    """A transfer was taken, or why not."""

    number: int
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class LinkPing:
    """Still there."""


@dataclass(frozen=True, slots=True)
class LinkGoodbye:
    """The last frame, and why."""

    problem: Problem | None = None


LinkFrame = (
    LinkHello | LinkProof | LinkStateFrame | PageFrame | LinkSynced | Transfer | TransferResult | LinkPing | LinkGoodbye
)

# --- to protobuf -----------------------------------------------------------------------------------------------------


def page_to_pb(frame: PageFrame) -> pb.FilterPage:
    """A page as protobuf (routers keep pages on disk like this, too)."""
    return pb.FilterPage(
        public_key=frame.public_key,
        sequence=frame.sequence,
        index=frame.index,
        scope=scope_to_pb(frame.scope),
        durable=frame.durable,
        words=frame.bits.shape[1],
        bits=frame.bits.tobytes(),
        epochs=frame.epochs,
        signature=frame.signature,
    )


def _transfer(frame: Transfer) -> pb.Transfer:
    header = frame.header
    return pb.Transfer(
        number=frame.number,
        injector=header.injector,
        injection=header.injection,
        source=header.source,
        stamp=header.stamp,
        mode=gateway.Mode.Name(frame.mode),
        ttl_ms=frame.ttl_ms,
        destinations=frame.destinations,
        batch=batch_to_pb(frame.batch),
    )


def encode_link_frame(frame: LinkFrame) -> pb.LinkFrame:
    """A frame as protobuf."""
    match frame:
        case LinkHello(name, public_key, nonce, scheme, version):
            hello = pb.LinkHello(version=version, name=name, public_key=public_key, nonce=nonce, scheme=scheme)
            return pb.LinkFrame(hello=hello)
        case LinkProof(signature):
            return pb.LinkFrame(proof=pb.LinkProof(signature=signature))
        case LinkStateFrame(public_key, sequence, changed, links, signature):
            record = pb.LinkStateRecord(
                public_key=public_key, sequence=sequence, changed=changed, neighbours=b"".join(i for i, _ in links),
                weights=[weight for _, weight in links], signature=signature,
            )  # fmt: skip
            return pb.LinkFrame(link_state=record)
        case PageFrame():
            return pb.LinkFrame(page=page_to_pb(frame))
        case LinkSynced(stamp):
            return pb.LinkFrame(synced=pb.LinkSynced(stamp=stamp))
        case Transfer():
            return pb.LinkFrame(transfer=_transfer(frame))
        case TransferResult(number, problem):
            return pb.LinkFrame(transfer_result=pb.TransferResult(number=number, error=problem_to_pb(problem)))
        case LinkPing():
            return pb.LinkFrame(ping=pb.LinkPing())
        case LinkGoodbye(problem):
            return pb.LinkFrame(goodbye=pb.LinkGoodbye(error=problem_to_pb(problem)))


# --- from protobuf ---------------------------------------------------------------------------------------------------


def _hello(message: pb.LinkHello) -> LinkHello:
    return LinkHello(
        bounded_text(message.name, limits.KEY_NAME_BYTES_MAX, "router name"),
        exact_bytes(message.public_key, _KEY_BYTES, "public key"),
        exact_bytes(message.nonce, limits.LINK_NONCE_BYTES, "nonce"),
        bounded_text(message.scheme, 16, "scheme"),
        message.version,
    )


def _link_state(message: pb.LinkStateRecord) -> LinkStateFrame:
    at_most(message.weights, limits.ROUTER_LINKS_MAX, "links of one router")
    size, ids = limits.ROUTER_ID_BYTES, message.neighbours
    if len(ids) != size * len(message.weights):
        raise WireError(f"link state: {len(message.weights)} weights, {len(ids)} bytes of ids")
    links = tuple((ids[size * i : size * (i + 1)], weight) for i, weight in enumerate(message.weights))
    return LinkStateFrame(
        exact_bytes(message.public_key, _KEY_BYTES, "public key"),
        bounded(message.sequence, limits.SEQUENCE_MAX, "sequence"),
        bounded(message.changed, limits.SEQUENCE_MAX, "changed"),
        links,
        exact_bytes(message.signature, _SIGNATURE_BYTES, "signature"),
    )


def page_from_pb(message: pb.FilterPage) -> PageFrame:
    """A page, every bound checked; its signature is the overlay's business."""
    if not 1 <= message.words <= limits.WORDS_MAX:
        raise WireError(f"page: rows are {message.words} words wide, allowed are 1..{limits.WORDS_MAX}")
    count, rest = divmod(len(message.bits), message.words * 8)
    if rest:
        raise WireError(f"page: {len(message.bits)} bytes of bits are not whole rows of {message.words} words")
    if count > limits.PAGE_FILTERS_MAX:
        raise LimitError(f"page: {count} filters, at most {limits.PAGE_FILTERS_MAX}")
    at_most(message.epochs, limits.PAGE_FILTERS_MAX, "epochs of a page")
    return PageFrame(
        exact_bytes(message.public_key, _KEY_BYTES, "public key"),
        bounded(message.sequence, limits.SEQUENCE_MAX, "sequence"),
        bounded(message.index, limits.ORIGIN_PAGES_MAX - 1, "page"),
        scope_from_pb(message.scope),
        message.durable,
        np.frombuffer(message.bits, "<u8").reshape(-1, message.words),
        tuple(message.epochs),
        exact_bytes(message.signature, _SIGNATURE_BYTES, "signature"),
    )


def _transfer_from(message: pb.Transfer) -> Transfer:
    if message.mode not in (gateway.MODE_BEST_EFFORT, gateway.MODE_AT_LEAST_ONCE):
        raise WireError(f"transfer: mode {message.mode} is unknown")
    batch = batch_from_pb(message.batch)
    width = len(message.destinations) // len(batch)
    if width * len(batch) != len(message.destinations) or 8 * width > limits.OVERLAY_ROUTERS_MAX + 7:
        raise WireError(f"transfer: {len(message.destinations)} bytes of destinations for {len(batch)} messages")
    header = Header(
        exact_bytes(message.injector, limits.ROUTER_ID_BYTES, "injector"),
        bounded(message.injection, limits.SEQUENCE_MAX, "injection"),
        exact_bytes(message.source, limits.ROUTER_ID_BYTES, "source"),
        exact_bytes(message.stamp, limits.STAMP_BYTES, "stamp"),
    )
    number = bounded(message.number, limits.SEQUENCE_MAX, "number", 1)
    ttl_ms = bounded(message.ttl_ms, limits.TTL_MS_MAX, "ttl_ms")
    return Transfer(number, header, Mode(message.mode), ttl_ms, message.destinations, batch)


def decode_link_frame(message: pb.LinkFrame) -> LinkFrame:
    """A frame from protobuf; raises ``WireError`` or ``LimitError`` on anything out of bounds."""
    match message.WhichOneof("frame"):
        case "hello":
            return _hello(message.hello)
        case "proof":
            return LinkProof(exact_bytes(message.proof.signature, _SIGNATURE_BYTES, "signature"))
        case "link_state":
            return _link_state(message.link_state)
        case "page":
            return page_from_pb(message.page)
        case "synced":
            return LinkSynced(exact_bytes(message.synced.stamp, limits.STAMP_BYTES, "stamp"))
        case "transfer":
            return _transfer_from(message.transfer)
        case "transfer_result":
            return TransferResult(message.transfer_result.number, problem_of(message.transfer_result))
        case "ping":
            return LinkPing()
        case "goodbye":
            return LinkGoodbye(problem_of(message.goodbye))
        case _:
            raise WireError("a link frame without content")
