"""A whole network of router processes on loopback, in a folder: certificates, configurations, processes, figures.

For ``secroute net``, the demo and tests. Everything that is needed to come back to a running network is in the folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from secroute import limits
from secroute.bench.router_lab import free_port
from secroute.client import TlsIdentity
from secroute.errors import ClientError, ConfigError, FileFormatError
from secroute.keyring import certificates
from secroute.overlay.topology import generate
from secroute.wire._generated import admin_pb2, admin_pb2_grpc, overlay_pb2, overlay_pb2_grpc

START_S = 90.0
STATE = "net.json"


@dataclass(frozen=True, slots=True)
class Link:
    """Two routers by name."""

    a: str
    b: str
    weight: int = 1


def plan(topology: str, seed: int = 0) -> tuple[list[str], list[Link]]:
    """Names and links of a topology by name, or of a TOML file with ``[[link]]`` tables (a, b, weight)."""
    path = Path(topology)
    if path.suffix != ".toml":
        graph = generate(topology, seed=seed)
        names = [f"r{i}" for i in range(len(graph))]
        return names, [Link(names[a], names[b], weight) for (a, b), weight in graph.weights.items()]
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("link", [])
        links = [Link(str(each["a"]), str(each["b"]), int(each.get("weight", 1))) for each in tables]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(path, f"expected [[link]] tables with a, b and perhaps weight ({error!r})") from None
    names = sorted({name for link in links for name in (link.a, link.b)})
    if not 2 <= len(names) <= limits.OVERLAY_ROUTERS_MAX or any(link.a == link.b for link in links):
        raise ConfigError(f"{path}: a network has at least two routers, and no router is its own neighbour")
    return names, links


class Network:
    """The routers of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._state: dict[str, Any] = json.loads((folder / STATE).read_text())

    @classmethod
    def create(
        cls,
        folder: Path,
        names: list[str],
        links: list[Link],
        *,
        scheme: str = "pif",
        topology: str = "",
        more: str = "",
    ) -> Network:
        """Write everything; nothing is started. ``more`` goes into every configuration."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if (folder / STATE).exists():
            raise ConfigError(f"{folder} holds a network already; end it with `secroute net down` first")
        authority = certificates.make_ca("secroute loopback network", now=time.time())
        routers = {name: {"port": free_port(), "pid": 0} for name in names}
        for name in names:
            _write_router(folder / name, name, authority, routers, links, scheme, more)
        for name in ("admin", "client"):
            role: certificates.Role = "admin" if name == "admin" else "client"
            _write_identity(folder, name, certificates.issue(authority, name, role, now=time.time()))
        state = {
            "topology": topology,
            "scheme": scheme,
            "routers": routers,
            "links": [[k.a, k.b, k.weight] for k in links],
        }
        (folder / STATE).write_text(json.dumps(state))
        return cls(folder)

    @property
    def names(self) -> list[str]:
        """Every router."""
        return list(self._state["routers"])

    @property
    def links(self) -> list[Link]:
        """Every link."""
        return [Link(*each) for each in self._state["links"]]

    @property
    def topology(self) -> str:
        """As it was asked for."""
        return str(self._state["topology"])

    @property
    def scheme(self) -> str:
        """The routing scheme."""
        return str(self._state["scheme"])

    def target(self, name: str) -> str:
        """A router's address."""
        return f"127.0.0.1:{self._state['routers'][name]['port']}"

    def log(self, name: str) -> Path:
        """A router's log."""
        return self.folder / name / "router.log"

    def identity(self, name: str = "client") -> TlsIdentity:
        """A certificate for clients."""
        parts = [self.folder / "ca.crt", self.folder / f"{name}.crt", self.folder / f"{name}.key"]
        return TlsIdentity(*(part.read_bytes() for part in parts))

    # --- processes ---------------------------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start routers (all of them if none is named) and wait until they listen."""
        for name in names or self.names:
            self._state["routers"][name]["pid"] = self._spawn(name)
        (self.folder / STATE).write_text(json.dumps(self._state))
        end = time.monotonic() + START_S
        for name in names or self.names:
            while not self._listens(name):
                if not _exists(self._state["routers"][name]["pid"]) or time.monotonic() > end:
                    tail = self.log(name).read_text(errors="replace")[-800:]
                    raise ClientError(f"router {name} does not listen: {tail}")
                time.sleep(0.02)

    def _spawn(self, name: str) -> int:
        """The process id; a session of its own, so that it outlives the command that started it."""
        config, log = str(self.folder.resolve() / name / "router.toml"), str(self.log(name))
        command = [sys.executable, "-m", "secroute.cli.main", "router", "run", "--config", config]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        files: list[Any] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        return os.posix_spawn(sys.executable, command, os.environ, file_actions=files, setsid=True)

    def _listens(self, name: str) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port(name)), 0.2):
            return True
        return False

    def _port(self, name: str) -> int:
        return int(self._state["routers"][name]["port"])

    def pid(self, name: str) -> int:
        """Of a router that runs; 0 if it does not (or if the number belongs to somebody else by now)."""
        number = int(self._state["routers"][name]["pid"])
        if not number:
            return 0
        _exists(number)  # a child of ours that has ended is let go
        try:
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return 0
        return number if os.fsencode(self.folder.resolve() / name / "router.toml") in words else 0

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        """End one router and wait until it is gone."""
        number = self.pid(name)
        if number:
            os.kill(number, how)
        end = time.monotonic() + 20
        while self.pid(name):
            if time.monotonic() > end:
                os.kill(number, signal.SIGKILL)
            time.sleep(0.02)

    def stop(self) -> int:
        """End all routers, politely; how many there were."""
        running = [(name, self.pid(name)) for name in self.names]
        for _, number in running:
            if number:
                os.kill(number, signal.SIGTERM)
        for name, number in running:
            if number:
                self.kill(name, signal.SIGTERM)
        return sum(number > 0 for _, number in running)

    # --- figures -----------------------------------------------------------------------------------------------------

    def ask(self, name: str) -> tuple[Any, Any] | None:
        """(status of the overlay, status of the router), or nothing if it does not answer."""
        identity = self.identity("admin")
        credentials = grpc.ssl_channel_credentials(identity.ca, identity.key, identity.certificate)
        with grpc.secure_channel(self.target(name), credentials) as channel:
            overlay = overlay_pb2_grpc.OverlayStub(channel)  # type: ignore[no-untyped-call]
            router = admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
            try:
                return (
                    overlay.OverlayStatus(overlay_pb2.OverlayStatusRequest(), timeout=3),
                    router.Status(admin_pb2.StatusRequest(), timeout=3),
                )
            except grpc.RpcError:
                return None

    def wait_whole(self, timeout_s: float = 30.0, *, filters: int | None = None) -> None:
        """Wait until all running routers see the same network with all links between them, and so many filters in all.

        All links: a ring is connected before its last link is up, and then changes once more.
        """
        end = time.monotonic() + timeout_s
        running = [name for name in self.names if self.pid(name)]
        while True:
            answers = [answer for name in running if (answer := self.ask(name)) is not None]
            whole = len(answers) == len(running) and len({overlay.stamp for overlay, _ in answers}) == 1
            whole = whole and all(len(overlay.routers) + 1 >= len(running) for overlay, _ in answers)
            whole = whole and all(each.up for overlay, _ in answers for each in overlay.links if each.name in running)
            if whole and filters is not None:
                own = {overlay.router: 0 for overlay, _ in answers}
                counts = [sum(each.filters for each in overlay.routers) for overlay, _ in answers]
                whole = sum(counts) == filters * (len(own) - 1)
            if whole:
                return
            if time.monotonic() > end:
                seen = [(o.name, len(o.routers), sum(each.filters for each in o.routers)) for o, _ in answers]
                raise ClientError(f"the network is not whole after {timeout_s:g} s: {seen}")
            time.sleep(0.05)


def _exists(number: int) -> bool:
    """Whether a process runs; one of our own that has ended is let go first."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(number, os.WNOHANG)
    return Path(f"/proc/{number}").exists()


def _write_router(
    where: Path, name: str, authority: certificates.CertificateAuthority, routers: dict[str, Any], links: list[Link],
    scheme: str, more: str,
) -> None:  # fmt: skip
    where.mkdir(mode=0o700)
    issued = certificates.issue(authority, name, "router", now=time.time())
    _write_identity(where, "router", issued)
    lines = [f'listen = "127.0.0.1:{routers[name]["port"]}"', 'metrics_listen = ""', "[tls]"]
    lines += ['certificate = "router.crt"', 'key = "router.key"', 'client_ca = "ca.crt"']
    lines += ["[overlay]", f'name = "{name}"', f'scheme = "{scheme}"']
    for link in links:
        if name in (link.a, link.b):
            other = link.b if name == link.a else link.a
            lines += ["[[neighbour]]", f'name = "{other}"', f"weight = {link.weight}"]
            if name == link.a:
                lines += [f'address = "127.0.0.1:{routers[other]["port"]}"']
    lines += ["[[client]]", 'name = "admin"', 'may = ["publish", "subscribe", "admin"]']
    lines += ["[[client]]", 'name = "*"', "sessions_max = 1000", more]
    (where / "router.toml").write_text("\n".join(lines) + "\n")


def _write_identity(where: Path, name: str, issued: certificates.IssuedCertificate) -> None:
    for file, data in ((f"{name}.crt", issued.certificate), (f"{name}.key", issued.key), ("ca.crt", issued.ca)):
        (where / file).write_bytes(data)
        (where / file).chmod(0o600)
