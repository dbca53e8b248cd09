"""Prometheus metrics of a node: counts, sizes and times, nothing with meaning. UNTRUSTED side, I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from secroute.errors import ConfigError
from secroute.router.config import parse_address
from secroute.router.counters import Histogram
from secroute.router.links import Links
from secroute.router.node import Node

_COUNTERS = {
    "messages_in": "messages published to this router",
    "messages_matched": "deliveries found by matching",
    "messages_out": "deliveries sent",
    "messages_duplicate": "at-least-once messages that had been taken before",
    "messages_expired": "messages whose time to live was over",
    "messages_dropped": "deliveries cut because a slow session's queue was full",
    "messages_redelivered": "deliveries sent again",
    "messages_dead": "messages moved to the dead letters",
    "batches_in": "batches published",
    "batches_refused": "batches refused",
    "acks": "messages acknowledged by consumers",
    "gaps": "gaps recorded",
    "commits": "store transactions",
    "bytes_in": "bytes of bits and payloads published",
    "bytes_out": "bytes of bits and payloads delivered",
}


class NodeCollector:
    """Reads a node whenever Prometheus asks."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Any]:
        """Every metric."""
        node = self._node
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"secroute_{name}", text, value=getattr(node.counters, name))
        sessions = list(node.sessions.values())
        queues = [durable.queue for durable in node.registry]
        gauges = {
            "sessions": ("connected sessions", sum(session.connected for session in sessions)),
            "sessions_resumable": ("sessions without a stream", sum(not session.connected for session in sessions)),
            "filters": ("filters in all tables", sum(t.table.stats().filters for t in node.tables.all())),
            "tables": ("scopes with a table", len(node.tables.all())),
            "durable_subscriptions": ("durable subscriptions", len(queues)),
            "session_queue_messages": (
                "messages waiting for sessions",
                sum(s.outbox.queued_messages for s in sessions),
            ),
            "session_queue_bytes": ("bytes in memory for sessions", sum(s.outbox.queued_bytes for s in sessions)),
            "session_spill_bytes": ("bytes on disk for slow sessions", sum(s.outbox.spill.nbytes for s in sessions)),
            "durable_queue_messages": ("messages waiting in durable queues", sum(q.queued for q in queues)),
            "durable_flying_messages": ("durable messages without an ack", sum(q.flying for q in queues)),
            "durable_dead_messages": ("dead letters", sum(q.dead for q in queues)),
            "publish_open_bytes": ("published bytes under way", node.pipeline.open_bytes),
            "store_bytes": ("bytes of the store's files", node.store.nbytes),
            "draining": ("1 while draining", int(node.draining)),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"secroute_{name}", text, value=value)
        if node.links is not None:
            yield from _overlay(node.links)
        yield _histogram("secroute_match_seconds", "time of one matching call", node.counters.match_s)
        yield _histogram("secroute_commit_seconds", "time of one store transaction", node.counters.commit_s)


def _overlay(links: Links) -> Iterator[Any]:
    """The network as this router sees it. Links are told apart by the names that the operator gave them."""
    filters = links.origins()
    gauges = {
        "overlay_routers": ("routers that can be reached, this one included", len(links.view.numbers)),
        "overlay_filters": ("filters that other routers advertise", sum(filters.values())),
        "overlay_held_batches": ("batches kept for routers that are away", links.held),
        "overlay_synced": ("1 once a neighbour has told what it knows", int(links.synced)),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(f"secroute_{name}", text, value=value)
    counters = {
        "overlay_messages_injected": ("messages that entered the network here", links.injected),
        "overlay_messages_reinjected": ("messages brought in anew after the network changed", links.reinjected),
        "overlay_messages_duplicate": ("copies that had arrived before", links.duplicates),
    }
    for name, (text, value) in counters.items():
        yield CounterMetricFamily(f"secroute_{name}", text, value=value)
    up = GaugeMetricFamily("secroute_link_up", "1 while the link to a neighbour is up", labels=["neighbour"])
    queued = GaugeMetricFamily("secroute_link_queued_messages", "messages without an answer", labels=["neighbour"])
    sent = CounterMetricFamily("secroute_link_messages_out", "messages sent to a neighbour", labels=["neighbour"])
    came = CounterMetricFamily("secroute_link_messages_in", "messages from a neighbour", labels=["neighbour"])
    lost = CounterMetricFamily("secroute_link_messages_dropped", "best effort cut on a slow link", labels=["neighbour"])
    for name, peer in links.peers.items():
        up.add_metric([name], int(peer.up))
        queued.add_metric([name], peer.queued)
        sent.add_metric([name], peer.messages_out)
        came.add_metric([name], peer.messages_in)
        lost.add_metric([name], peer.messages_dropped)
    yield from (up, queued, sent, came, lost)


def _histogram(name: str, text: str, histogram: Histogram) -> HistogramMetricFamily:
    total, buckets = 0, []
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound, total))
    family = HistogramMetricFamily(name, text)
    family.add_metric([], buckets, histogram.total)
    return family


class MetricsServer:
    """The HTTP endpoint for Prometheus, in a thread of its own."""

    def __init__(self, node: Node, listen: str) -> None:
        host, port = parse_address(listen, "metrics_listen")
        registry = CollectorRegistry(auto_describe=False)
        registry.register(NodeCollector(node))
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigError(f"metrics_listen: cannot listen on {listen}: {error.strerror}") from None
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
