"""Links over gRPC: a node's side of them, the door for neighbours, and calls to neighbours. UNTRUSTED side, I/O.

Neighbours are admitted by the name of their certificate, which must be configured; each call checks the other's, too.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from secroute import limits
from secroute.errors import ForbiddenError, InputError, SecrouteError, WireError
from secroute.opaque import EncodedFilters
from secroute.router.config import Neighbour
from secroute.router.jobs import Job
from secroute.router.links import Links
from secroute.router.links_peer import HANDSHAKE_S, LinkEndedError, Peer, Read, Write
from secroute.router.node import OPEN_BYTES_MAX, Node
from secroute.wire._generated import overlay_pb2 as pb
from secroute.wire._generated import overlay_pb2_grpc
from secroute.wire.frames import Problem
from secroute.wire.link_frames import LinkFrame, LinkGoodbye, LinkHello, decode_link_frame, encode_link_frame

SHUN_S = 2.0  # how long a neighbour that broke the rules is not let in again
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 1.0
_GONE = (LinkEndedError, TimeoutError, grpc.RpcError, grpc.aio.BaseError, asyncio.InvalidStateError)
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", 2 * limits.FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", 2 * limits.FRAME_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]


class NodeSide:
    """What links see of their node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.config, self.engine_name, self.log = node.config, node.engine_name, node.log

    async def take_from_link(self, job: Job) -> bool:
        """Only if somebody here may want it: a router that merely passes messages on does not match them again."""
        node, batch = self._node, job.batch
        try:
            known = node.tables.find(batch.scope, batch.bits.shape[1])
        except SecrouteError as error:
            node.log.warning("transfer-not-for-us", code=error.code, reason=str(error))
            return False
        if known is None and not node.registry.spoolers(batch.scope):
            return False
        await node.pipeline.room(OPEN_BYTES_MAX)
        node.counters.batches_in += 1
        node.counters.messages_in += len(batch)
        node.counters.bytes_in += job.nbytes
        node.pipeline.submit(job)
        return True

    def durable_epochs(self) -> Iterable[tuple[bytes, tuple[int, ...]]]:
        """(space, epochs with filters) of every durable subscription."""
        return [(each.space, tuple(sorted(each.filters))) for each in self._node.registry if each.filters]

    def local_filters(self) -> Iterable[tuple[int, EncodedFilters]]:
        """Those of the durable subscriptions that the store remembers."""
        return [(each.endpoint, part) for each in self._node.registry for part in each.filters.values()]


class OverlayDoor:
    """A node's links with their gRPC ends."""

    def __init__(self, node: Node, insecure: bool) -> None:
        self.links = Links(NodeSide(node))
        self._node = node
        self._insecure = insecure
        self._dialling: list[asyncio.Task[None]] = []
        node.links = self.links
        node.subscriptions.on_filters = self.links.filters_changed

    def start(self) -> list[asyncio.Task[None]]:
        """Start routing, and call the neighbours whose addresses are configured."""
        tasks = self.links.start()
        config = self._node.config
        self._dialling = [asyncio.create_task(self._dial(each)) for each in config.neighbours if each.address]
        return tasks

    async def close(self) -> None:
        """Hang up."""
        for task in self._dialling:
            task.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)
        await self.links.close()

    # --- calling -----------------------------------------------------------------------------------------------------

    def _channel(self, neighbour: Neighbour) -> grpc.aio.Channel:
        tls = self._node.config.tls
        if self._insecure or tls is None:
            return grpc.aio.insecure_channel(neighbour.address, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            tls.client_ca.read_bytes(), tls.key.read_bytes(), tls.certificate.read_bytes()
        )
        # The certificate must carry the neighbour's name, whatever its address is.
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", neighbour.name)]
        return grpc.aio.secure_channel(neighbour.address, credentials, options=options)

    async def _dial(self, neighbour: Neighbour) -> None:
        peer, backoff_s = self.links.peers[neighbour.name], BACKOFF_FIRST_S
        while True:
            began = time.monotonic()
            try:
                if not peer.up:
                    async with self._channel(neighbour) as channel:
                        await self._call(channel, peer)
            except (*_GONE, OSError):
                pass  # not there, or gone: the usual case
            except SecrouteError as error:
                self._node.log.error("link-refused", neighbour=peer.name, code=error.code, reason=str(error))
                backoff_s = SHUN_S
            except Exception as error:
                self._node.log.fault(error, neighbour=peer.name)
                backoff_s = SHUN_S
            if time.monotonic() - began > SHUN_S:
                backoff_s = BACKOFF_FIRST_S
            # Two routers that dial each other must not cut each other's streams in step for ever.
            await asyncio.sleep(backoff_s * random.uniform(0.5, 1.0))  # noqa: S311 - not a secret
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)

    async def _call(self, channel: grpc.aio.Channel, peer: Peer) -> None:
        call = overlay_pb2_grpc.OverlayStub(channel).Link()  # type: ignore[no-untyped-call]
        read, write = _frames_of(call)
        try:
            await peer.serve(read, write, None)
        except LinkEndedError:
            raise
        except SecrouteError as error:
            await _tell_why(write, error)
            raise
        finally:
            call.cancel()

    # --- being called ------------------------------------------------------------------------------------------------

    async def accept(self, context: Any, caller: str) -> None:
        """A stream of somebody who says to be a neighbour."""
        read, write = _frames_of(context)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                hello = await read()
            peer = self._admit(hello, caller)
            try:
                await peer.serve(read, write, hello if isinstance(hello, LinkHello) else None)
            except InputError:
                peer.shunned_until = time.monotonic() + SHUN_S
                raise
        except _GONE:
            return
        except SecrouteError as error:
            self._node.log.error("link-refused", neighbour=caller, code=error.code, reason=str(error))
            await _tell_why(write, error)
        except Exception as error:
            self._node.log.fault(error, neighbour=caller)

    def _admit(self, hello: LinkFrame | None, caller: str) -> Peer:
        if not isinstance(hello, LinkHello):
            raise LinkEndedError("the caller did not say who it is")
        if not self._insecure and hello.name != caller:
            raise ForbiddenError(f"certificate {caller!r} cannot speak for router {hello.name!r}")
        peer = self.links.peers.get(hello.name)
        if peer is None:
            raise ForbiddenError(f"router {hello.name!r} is no [[neighbour]] of this router")
        if time.monotonic() < peer.shunned_until:
            raise ForbiddenError(f"router {hello.name!r} broke the rules a moment ago; it may come back later")
        return peer


def _frames_of(stream: Any) -> tuple[Read, Write]:
    """Reading and writing of frames on a gRPC stream, whichever side opened it."""

    async def read() -> LinkFrame | None:
        try:
            message = await stream.read()
        except DecodeError:
            raise WireError("frame: not protobuf, or cut short") from None
        return None if message is grpc.aio.EOF else decode_link_frame(message)  # type: ignore[attr-defined]

    async def write(frame: LinkFrame) -> None:
        await stream.write(encode_link_frame(frame))

    return read, write


async def _tell_why(write: Write, error: SecrouteError) -> None:
    """The last frame, if the other side still listens."""
    goodbye = asyncio.ensure_future(write(LinkGoodbye(Problem.of(error))))
    await asyncio.wait([goodbye], timeout=1.0)
    goodbye.cancel()
    await asyncio.gather(goodbye, return_exceptions=True)


async def overlay_status(node: Node) -> pb.OverlayStatusResponse:
    """The network as this router sees it."""
    links = node.links
    if links is None:
        raise ForbiddenError("this router has no neighbours")
    view, now = links.view, time.monotonic()
    origins = links.origins()
    return pb.OverlayStatusResponse(
        router=links.router,
        name=links.name,
        scheme=links.scheme,
        stamp=view.stamp,
        synced=links.synced,
        routers=[
            pb.OverlayRouter(router=router, reachable=router in view.numbers, filters=count)
            for router, count in origins.items()
        ],
        edges=[
            pb.OverlayEdge(a=view.graph.ids[a], b=view.graph.ids[b], weight=weight)
            for (a, b), weight in view.graph.weights.items()
        ],
        links=[
            pb.OverlayLink(
                name=peer.name,
                router=peer.router or b"",
                up=peer.up,
                filters=sum(origins.get(router, 0) for router in links.behind(peer)),
                messages_out=peer.messages_out,
                messages_in=peer.messages_in,
                queued=peer.queued,
                up_s=now - peer.up_since if peer.up else 0.0,
            )
            for peer in links.peers.values()
        ],
        held_messages=links.held,
        injected_messages=links.injected,
        reinjected_messages=links.reinjected,
        duplicate_messages=links.duplicates,
    )
