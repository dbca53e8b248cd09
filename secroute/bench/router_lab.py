"""A throw-away laboratory on loopback: certificates, configuration and router processes, all gone afterwards.

For the demo, the router benchmark and tests. Routers are real processes started as an operator would start them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from secroute.client import TlsIdentity
from secroute.errors import ClientError
from secroute.keyring import certificates

_START_S = 60.0  # compiling kernels on a cold cache takes a while


def free_port() -> int:
    """A TCP port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RouterProcess:
    """One router, its configuration and its files."""

    def __init__(self, directory: Path, port: int, metrics_port: int, insecure: bool) -> None:
        self.directory, self.port, self.metrics_port, self._insecure = directory, port, metrics_port, insecure
        self.target = f"127.0.0.1:{port}"
        self.log = directory / "router.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until its port answers."""
        command = [sys.executable, "-m", "secroute.cli.main", "router", "run"]
        command += ["--config", str(self.directory / "router.toml"), *(["--insecure"] if self._insecure else [])]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        end = time.monotonic() + _START_S
        while not self._answers():
            if self.process.poll() is not None:
                tail = self.log.read_text(errors="replace")[-800:]
                raise ClientError(f"the router ended with status {self.process.returncode}: {tail}")
            if time.monotonic() > end:
                raise ClientError(f"the router does not answer after {_START_S:g} s")
            time.sleep(0.02)

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False

    @property
    def pid(self) -> int:
        """Of the running process."""
        if self.process is None:
            raise ClientError("the router is not running")
        return self.process.pid

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self, timeout_s: float = 15.0) -> int:
        """SIGTERM; the exit status."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            self.process = None


class Lab:
    """A directory with a CA and routers; ``identity(name)`` gives a client's certificate."""

    def __init__(self, *, insecure: bool = False) -> None:
        self.insecure = insecure
        self.directory = Path(tempfile.mkdtemp(prefix="secroute-lab-"))
        self._ca = certificates.make_ca(now=time.time())
        self.routers: list[RouterProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for router in self.routers:
            router.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def identity(self, name: str) -> TlsIdentity | None:
        """A certificate for a client; None in an insecure laboratory."""
        if self.insecure:
            return None
        role: certificates.Role = "admin" if name == "admin" else "client"
        issued = certificates.issue(self._ca, name, role, now=time.time())
        return TlsIdentity(issued.ca, issued.certificate, issued.key)

    def save_identity(self, name: str, directory: Path) -> None:
        """``NAME.crt``, ``NAME.key`` and ``ca.crt`` for other processes."""
        issued = certificates.issue(self._ca, name, "client", now=time.time())
        for suffix, data in ((f"{name}.crt", issued.certificate), (f"{name}.key", issued.key), ("ca.crt", issued.ca)):
            path = directory / suffix
            path.write_bytes(data)
            path.chmod(0o600)

    def router(self, name: str = "router", **sections: dict[str, Any]) -> RouterProcess:
        """Write a router's files (``sections`` go into its configuration) and start it."""
        where = self.directory / name
        where.mkdir()
        router = RouterProcess(where, free_port(), free_port(), self.insecure)
        lines = [f'listen = "127.0.0.1:{router.port}"', f'metrics_listen = "127.0.0.1:{router.metrics_port}"']
        if not self.insecure:
            issued = certificates.issue(self._ca, name, "router", now=time.time())
            for suffix, data in (("crt", issued.certificate), ("key", issued.key)):
                descriptor = os.open(where / f"router.{suffix}", os.O_WRONLY | os.O_CREAT, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(data)
            (where / "ca.crt").write_bytes(issued.ca)
            lines += ["[tls]", 'certificate = "router.crt"', 'key = "router.key"', 'client_ca = "ca.crt"']
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in values.items())]
        lines += ["[[client]]", 'name = "admin"', 'may = ["publish", "subscribe", "admin"]']
        lines += ["[[client]]", 'name = "*"', 'may = ["publish", "subscribe"]', "sessions_max = 1000"]
        (where / "router.toml").write_text("\n".join(lines) + "\n")
        self.routers.append(router)
        router.start()
        return router


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
