"""Admin and durable listings: plain handlers, request in, response out. UNTRUSTED side, no gRPC; ids and counts."""

from __future__ import annotations

import time

from secroute import __version__, limits
from secroute.errors import ForbiddenError
from secroute.router.node import Node
from secroute.wire._generated import admin_pb2 as pb
from secroute.wire._generated import gateway_pb2 as gateway
from secroute.wire.fields import bounded, bounded_text, exact_bytes

_COUNTERS = [field.name for field in pb.Counters.DESCRIPTOR.fields]


def require_admin(node: Node, owner: str) -> None:
    """Raise unless this certificate's name has the admin role."""
    if "admin" not in node.rule_for(owner).may:
        raise ForbiddenError(f"{owner!r} has no admin role here")


async def status(node: Node, request: pb.StatusRequest) -> pb.StatusResponse:
    """The node at a glance."""
    sessions = node.sessions.values()
    waiting = [d.queue for d in node.registry]
    boxes = [session.outbox for session in sessions]
    return pb.StatusResponse(
        router_id=node.router_id,
        version=__version__,
        uptime_s=time.monotonic() - node.began,
        draining=node.draining,
        sessions=sum(session.connected for session in sessions),
        sessions_resumable=sum(not session.connected for session in sessions),
        filters=sum(table.table.stats().filters for table in node.tables.all()),
        durable=len(node.registry),
        counters=pb.Counters(**{name: getattr(node.counters, name) for name in _COUNTERS}),
        queued_messages=sum(q.queued + q.flying for q in waiting) + sum(box.queued_messages for box in boxes),
        queued_bytes=sum(q.nbytes for q in waiting) + sum(box.queued_bytes + box.spill.nbytes for box in boxes),
        store_bytes=node.store.nbytes,
        engine=node.engine_name,
        match_p50_ms=node.counters.match_s.quantile(0.5) * 1000,
        match_p99_ms=node.counters.match_s.quantile(0.99) * 1000,
    )


async def list_sessions(node: Node, request: pb.ListSessionsRequest) -> pb.ListSessionsResponse:
    """Every session, resumable ones included."""
    now = time.monotonic()
    return pb.ListSessionsResponse(
        sessions=[
            pb.SessionStatus(
                session_id=session.session_id,
                owner=session.owner,
                connected=session.connected,
                filters=session.filters,
                subscriptions=len(session.subscriptions) + len(session.attachments),
                queued_messages=session.outbox.queued_messages,
                queued_bytes=session.outbox.queued_bytes,
                spilled_bytes=session.outbox.spill.nbytes,
                messages_in=session.messages_in,
                messages_out=session.messages_out,
                age_s=now - session.began,
            )
            for session in node.sessions.values()
        ]
    )


async def list_tables(node: Node, request: pb.ListTablesRequest) -> pb.ListTablesResponse:
    """Every forwarding table."""
    tables = []
    for table in node.tables.all():
        stats, scope = table.table.stats(), table.scope
        tables.append(
            pb.TableStatus(
                space=scope.space,
                epoch=scope.epoch,
                profile=scope.profile,
                words=table.words,
                filters=stats.filters,
                endpoints=stats.interfaces,
                messages=table.messages,
                engine=node.engine_name,
            )
        )
    return pb.ListTablesResponse(tables=tables)


async def list_epochs(node: Node, request: pb.ListEpochsRequest) -> pb.ListEpochsResponse:
    """Every epoch seen, and which profile it is pinned to."""
    now = time.monotonic()
    return pb.ListEpochsResponse(
        epochs=[
            pb.EpochStatus(
                space=table.scope.space,
                epoch=table.scope.epoch,
                profile=table.scope.profile,
                pinned_by_config=table.by_config,
                idle_s=now - table.used,
            )
            for table in node.tables.all()
        ]
    )


async def list_durable(node: Node, owner: str | None) -> gateway.ListDurableResponse:
    """Durable subscriptions of one owner, or all."""
    return gateway.ListDurableResponse(durable=[durable.status() for durable in node.registry.owned_by(owner)])


async def delete_durable(
    node: Node, request: gateway.DeleteDurableRequest, owner: str
) -> gateway.DeleteDurableResponse:
    """Delete one, with everything that waits in it."""
    name = exact_bytes(request.name, limits.DURABLE_NAME_BYTES, "durable name")
    bounded_text(owner, limits.KEY_NAME_BYTES_MAX, "owner")
    dropped = await node.subscriptions.delete_durable(owner, name)
    node.log.info("durable-deleted", durable=name, owner=owner, messages=dropped)
    return gateway.DeleteDurableResponse(messages_dropped=dropped)


async def settle_dead(node: Node, request: pb.SettleDeadRequest) -> pb.SettleDeadResponse:
    """Requeue or drop dead letters."""
    name = exact_bytes(request.name, limits.DURABLE_NAME_BYTES, "durable name")
    durable = node.registry.require(bounded_text(request.owner, limits.KEY_NAME_BYTES_MAX, "owner"), name)
    count = durable.queue.settle_dead(request.drop)
    node.queues.dirty.add(durable.number)
    node.pipeline.commit_soon()
    durable.wake()
    node.log.info("dead-letters", durable=name, owner=request.owner, messages=count, dropped=request.drop)
    return pb.SettleDeadResponse(messages=count)


async def drain(node: Node, request: pb.DrainRequest) -> pb.DrainResponse:
    """Start draining; the process ends when clients have left or the deadline is over."""
    deadline_s = bounded(request.deadline_s, 3_600, "deadline_s") or node.config.limits.drain_s
    node.drain(deadline_s)
    return pb.DrainResponse()
