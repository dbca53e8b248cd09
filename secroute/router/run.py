"""The life of a router process: start, signals, reload, drain, stop. UNTRUSTED side, I/O."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from secroute.errors import ConfigError, EngineError, SecrouteError
from secroute.router.config import INSECURE_OWNER, ClientRule, Config, load_config
from secroute.router.credentials import ReloadingIdentity
from secroute.router.links_node import OverlayDoor
from secroute.router.logs import Log
from secroute.router.metrics import MetricsServer
from secroute.router.node import Node
from secroute.router.server import Server

_POLL_S = 0.05


class RouterProcess:
    """A node with its servers, until a signal ends it."""

    def __init__(self, config_path: Path, *, engine: str, insecure: bool, address_file: Path | None, log: Log) -> None:
        self._path = config_path
        self._insecure = insecure
        self._address_file = address_file
        self._log = log
        self._engine = engine
        self._stop = asyncio.Event()
        self._signals = 0

    def _load(self) -> Config:
        config = load_config(self._path)
        if self._insecure:
            if not any(rule.name == INSECURE_OWNER for rule in config.clients):
                everything = ClientRule(INSECURE_OWNER, ("publish", "subscribe", "admin"))
                config = replace(config, clients=(everything, *config.clients))
        elif config.tls is None:
            raise ConfigError("tls: missing; a router without it needs --insecure, and loopback")
        return config

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT; 0 after an orderly stop."""
        config = self._load()
        try:
            node = Node(config, self._engine, self._log)
        except EngineError as error:
            raise EngineError(f"{error}; a router needs compiled kernels, or --engine reference") from None
        identity = None if self._insecure or config.tls is None else ReloadingIdentity(config.tls, self._log)
        door = OverlayDoor(node, identity is None) if config.neighbours else None
        server = Server(node, identity, door)
        metrics = MetricsServer(node, config.metrics_listen) if config.metrics_listen else None
        node.start()
        await server.start()
        if door is not None:
            node.watch(door.start())
        self._watch_signals(node, identity)  # before anybody can know that we are here: SIGHUP would end us
        self._announce(server, metrics, node)
        await self._wait(node)
        await server.set_serving(False)
        if node.failure:
            return await self._give_up(server, node)
        node.drain(node.config.limits.drain_s)
        await self._wait_for_clients(node, node.drain_s)
        node.goodbye()
        if door is not None:
            await door.close()
        await server.stop(1.0)
        await node.close()
        if metrics is not None:
            metrics.close()
        self._log.info("stopped")
        return 0

    def _announce(self, server: Server, metrics: MetricsServer | None, node: Node) -> None:
        addresses = {"listen": server.address, "metrics": metrics.address if metrics else ""}
        if self._address_file is not None:
            part = self._address_file.with_name(self._address_file.name + ".part")
            part.write_text(json.dumps(addresses) + "\n")
            part.replace(self._address_file)
        self._log.info(
            "listening", **addresses, router=node.router_id, engine=node.engine_name, pid=os.getpid(),
            plaintext=self._insecure,
        )  # fmt: skip

    def _watch_signals(self, node: Node, identity: ReloadingIdentity | None) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_stop)
        loop.add_signal_handler(signal.SIGHUP, self._on_reload, node, identity)

    def _on_stop(self) -> None:
        self._signals += 1
        self._stop.set()

    def _on_reload(self, node: Node, identity: ReloadingIdentity | None) -> None:
        """Use the file as it is now; a file that is wrong changes nothing."""
        try:
            config = self._load()
        except (SecrouteError, OSError) as error:
            self._log.error("reload-refused", reason=str(error))
            return
        node.reload(config)
        if identity is not None and config.tls is not None:
            identity.use(config.tls)

    async def _wait(self, node: Node) -> None:
        while not self._stop.is_set() and not node.draining and not node.failure:
            await asyncio.sleep(_POLL_S)

    async def _give_up(self, server: Server, node: Node) -> int:
        """A part has failed: end as a crash would, which the store survives."""
        await server.stop(0.0)
        node.store.close(clean=False)
        return 1

    async def _wait_for_clients(self, node: Node, drain_s: float) -> None:
        """Until every client has left, the time is over, or somebody insists."""
        deadline, insisted = time.monotonic() + drain_s, self._signals + 1
        while any(s.connected for s in node.sessions.values()) and time.monotonic() < deadline:
            if self._signals >= insisted or node.failure:
                return
            await asyncio.sleep(_POLL_S)
