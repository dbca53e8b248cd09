"""gRPC around a node: thin servicers that decode, call, encode, and turn errors into status codes. UNTRUSTED side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from secroute import limits
from secroute.errors import ConfigError, DurableError, ForbiddenError, InputError, SecrouteError, WireError
from secroute.router import admin
from secroute.router.config import INSECURE_OWNER, is_loopback, parse_address
from secroute.router.connection import Connection
from secroute.router.credentials import ReloadingIdentity
from secroute.router.links_node import OverlayDoor, overlay_status
from secroute.router.node import Node
from secroute.wire._generated import admin_pb2, admin_pb2_grpc, gateway_pb2, gateway_pb2_grpc, overlay_pb2_grpc
from secroute.wire.client_frames import decode_client_frame
from secroute.wire.router_frames import encode_router_frame

T = TypeVar("T")
_STATUS = {
    ForbiddenError: grpc.StatusCode.PERMISSION_DENIED,
    DurableError: grpc.StatusCode.NOT_FOUND,
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
}
_OTHER_STATUS = grpc.StatusCode.FAILED_PRECONDITION
_LINGER_S = 2.0  # how long a stream that is over may take to send its last frames
_OPTIONS = [
    ("grpc.max_receive_message_length", limits.FRAME_BYTES_MAX),
    ("grpc.max_send_message_length", 2 * limits.FRAME_BYTES_MAX),
    ("grpc.so_reuseport", 0),  # a second router on the same port is a mistake, not a load balancer
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_concurrent_streams", 256),  # of one connection; a client needs one
    ("grpc.max_metadata_size", 16_384),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
]


def owner_of(context: grpc.aio.ServicerContext[Any, Any], plaintext: bool) -> str:
    """The common name of the client's certificate; raises if it has none, several, or one that is not text.

    Only a server without TLS knows the insecure owner: a strange certificate must never become it.
    """
    if plaintext:
        return INSECURE_OWNER
    names = [name for name in context.auth_context().get("x509_common_name", ()) if name]
    try:
        (name,) = names
        return bytes(name).decode("utf-8")
    except ValueError:
        raise ForbiddenError(f"the certificate has {len(names)} common names; exactly one, UTF-8, is needed") from None


async def _answered(context: grpc.aio.ServicerContext[Any, Any], answer: Awaitable[T]) -> T:
    """An answer, or its error as a gRPC status with our code in front."""
    try:
        return await answer
    except SecrouteError as error:
        status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), _OTHER_STATUS)
        await context.abort(status, f"{error.code}: {error}")
        raise


class GatewayServicer(gateway_pb2_grpc.GatewayServicer):
    """The door for clients."""

    def __init__(self, node: Node, plaintext: bool) -> None:
        self._node = node
        self._plaintext = plaintext

    async def Session(self, requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:  # noqa: N802
        """One stream."""
        loop = asyncio.get_running_loop()
        connection = Connection(self._node, await _answered(context, self._owner(context)))
        writer = asyncio.create_task(self._write(connection, context))
        reader = asyncio.create_task(self._read(connection, context))
        # A writer that hangs on a client that does not read is ended some time after its session let go of it. Not
        # this task: gRPC tells the client nothing of a handler that was cancelled, and the stream would stay open.
        connection.on_end = lambda: loop.call_later(_LINGER_S, writer.cancel)
        timeout_s = self._node.config.sessions.hello_timeout_s
        timer = loop.call_later(timeout_s * 1.01, lambda: asyncio.ensure_future(connection.hello_expired()))
        try:
            await asyncio.wait([writer])
            if not writer.cancelled():
                writer.result()
        finally:
            timer.cancel()
            writer.cancel()
            reader.cancel()
            await connection.lost()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, connection: Connection, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        async for frame in connection.frames():
            await context.write(encode_router_frame(frame))

    async def _read(self, connection: Connection, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        try:
            while not connection.over:
                message = await context.read()
                if message is grpc.aio.EOF:  # type: ignore[attr-defined]
                    break
                await connection.receive(decode_client_frame(message))
        except InputError as error:
            await connection.fail(error)
        except DecodeError:
            await connection.fail(WireError("frame: not protobuf, or cut short"))
        except (grpc.RpcError, grpc.aio.BaseError):
            pass  # the stream is gone, or carried something that is not protobuf
        except Exception as error:
            await connection.broke(error)
        finally:
            await connection.lost()

    async def ListDurable(self, request: Any, context: Any) -> gateway_pb2.ListDurableResponse:  # noqa: N802
        """The caller's own."""
        return await _answered(context, self._own(context, admin.list_durable))

    async def DeleteDurable(self, request: Any, context: Any) -> gateway_pb2.DeleteDurableResponse:  # noqa: N802
        """One of the caller's own."""
        return await _answered(context, self._own(context, admin.delete_durable, request))

    async def _owner(self, context: Any) -> str:
        return owner_of(context, self._plaintext)

    async def _own(self, context: Any, handler: Any, *args: Any) -> Any:
        owner = await self._owner(context)
        self._node.rule_for(owner)
        return await handler(self._node, *args, owner)


class AdminServicer(admin_pb2_grpc.AdminServicer):
    """The operator's door."""

    def __init__(self, node: Node, plaintext: bool) -> None:
        self._node = node
        self._plaintext = plaintext

    async def _admin(self, context: Any, handler: Any, *args: Any) -> Any:
        async def checked() -> Any:
            admin.require_admin(self._node, owner_of(context, self._plaintext))
            return await handler(self._node, *args)

        return await _answered(context, checked())

    async def Status(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``admin.status``."""
        return await self._admin(context, admin.status, request)

    async def ListSessions(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``admin.list_sessions``."""
        return await self._admin(context, admin.list_sessions, request)

    async def ListTables(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``admin.list_tables``."""
        return await self._admin(context, admin.list_tables, request)

    async def ListEpochs(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``admin.list_epochs``."""
        return await self._admin(context, admin.list_epochs, request)

    async def ListDurable(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Of every owner."""
        return await self._admin(context, admin.list_durable, None)

    async def DeleteDurable(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Of any owner."""
        return await self._admin(context, admin.delete_durable, request, request.owner)

    async def SettleDead(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``admin.settle_dead``."""
        return await self._admin(context, admin.settle_dead, request)

    async def Drain(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``admin.drain``."""
        return await self._admin(context, admin.drain, request)


class OverlayServicer(overlay_pb2_grpc.OverlayServicer):
    """The door for neighbouring routers."""

    def __init__(self, node: Node, door: OverlayDoor, plaintext: bool) -> None:
        self._node, self._door, self._plaintext = node, door, plaintext

    async def Link(self, requests: Any, context: Any) -> None:  # noqa: N802
        """One stream of a neighbour."""
        await self._door.accept(context, owner_of(context, self._plaintext))

    async def OverlayStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        """See ``links_node.overlay_status``."""

        async def checked() -> Any:
            admin.require_admin(self._node, owner_of(context, self._plaintext))
            return await overlay_status(self._node)

        return await _answered(context, checked())


class Server:
    """The listening server of a node."""

    def __init__(self, node: Node, identity: ReloadingIdentity | None, door: OverlayDoor | None = None) -> None:
        """Without an identity: plaintext, which only loopback may have. With a door: neighbours may call, too."""
        self._server = grpc.aio.server(options=_OPTIONS)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        gateway, operator = GatewayServicer(node, identity is None), AdminServicer(node, identity is None)
        gateway_pb2_grpc.add_GatewayServicer_to_server(gateway, self._server)  # type: ignore[no-untyped-call]
        admin_pb2_grpc.add_AdminServicer_to_server(operator, self._server)  # type: ignore[no-untyped-call]
        if door is not None:
            neighbours = OverlayServicer(node, door, identity is None)
            overlay_pb2_grpc.add_OverlayServicer_to_server(neighbours, self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._services = [file.services_by_name for file in (gateway_pb2.DESCRIPTOR, admin_pb2.DESCRIPTOR)]
        names = [service.full_name for services in self._services for service in services.values()]
        self._names = ["", *names]
        reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)
        host, port = parse_address(node.config.listen, "listen")
        shown = f"[{host}]" if ":" in host else host
        if identity is None and not is_loopback(host):
            raise ConfigError(f"listen: plaintext is for loopback only, not {host}; configure [tls]")
        address = f"{shown}:{port}"
        try:
            if identity is None:
                bound = self._server.add_insecure_port(address)
            else:
                bound = self._server.add_secure_port(address, identity.credentials())
        except RuntimeError:
            raise ConfigError(f"listen: cannot listen on {address}; is the port taken?") from None
        self.address = f"{shown}:{bound}"

    async def start(self) -> None:
        """Start serving."""
        await self._server.start()
        await self.set_serving(True)

    async def set_serving(self, serving: bool) -> None:
        """What health checks are told."""
        states = health_pb2.HealthCheckResponse
        for name in self._names:
            await self._health.set(name, states.SERVING if serving else states.NOT_SERVING)

    async def stop(self, grace_s: float) -> None:
        """Stop; streams that are still open after the grace time are cut."""
        await self._server.stop(grace_s)
