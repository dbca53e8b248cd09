"""docker-compose.yml without Docker: its very commands as local processes, and what each service is given.

Only what containers would change is changed: host names become ports of loopback, mount points become folders.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from secroute.bench.router_lab import free_port
from tests.integration.client.test_examples import offers_below
from tests.integration.compose.subset import load

ROOT = Path(__file__).resolve().parents[3]
ROUTERS = ("router-1", "router-2", "router-3")
CLIENTS = ("publisher", "subscriber-1", "subscriber-2")
TRUSTED = ("content", "exact", "keyring", "encoding", "client", "audit", "sim", "bench")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return load((ROOT / "docker-compose.yml").read_text())["services"]


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Mount point -> volume."""
    return {words[1]: words[0] for words in (text.split(":") for text in service["volumes"])}


def test_keys_are_mounted_into_clients_only(services: dict[str, Any]) -> None:
    assert set(services) == {"setup", *ROUTERS, *CLIENTS, "prometheus"}
    volumes = set(load((ROOT / "docker-compose.yml").read_text())["volumes"])
    for name in ROUTERS:
        assert services[name]["build"]["target"] == "router"
        number = name[-1]
        assert mounts(services[name]) == {"/etc/secroute": f"keys-{name}", "/var/lib/secroute": f"store-{number}"}
    for name in CLIENTS:
        (volume,) = mounts(services[name]).values()
        assert volume in volumes
        assert "router" not in volume
        assert "owner" not in volume
    assert set(mounts(services["setup"]).values()) == {volume for volume in volumes if volume.startswith("keys-")}


class Local:
    """Containers as processes: a folder for each volume, a port for each router."""

    def __init__(self, services: dict[str, Any], folder: Path, package: Path) -> None:
        self._services, self._folder = services, folder
        self.ports = {name: (free_port(), free_port()) for name in ROUTERS}
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._package = package
        self._volumes = {volume: folder / volume for each in services.values() if "volumes" in each
                         for volume in mounts(each).values()}  # fmt: skip
        for path in self._volumes.values():
            path.mkdir(mode=0o700)

    def _here(self, text: str, service: str) -> str:
        for point, volume in mounts(self._services[service]).items() if service != "setup" else ():
            text = text.replace(point, str(self._volumes[volume]))
        text = text.replace("/app/", f"{ROOT}/")
        for name, (port, metrics) in self.ports.items():
            text = text.replace(f"{name}:7400", f"127.0.0.1:{port}")
            if service == name:
                text = text.replace("0.0.0.0:7400", f"127.0.0.1:{port}").replace("0.0.0.0:9464", f"127.0.0.1:{metrics}")
        return text

    def setup(self) -> None:
        """Run the set-up; its one folder is taken apart into volumes as the mounts would."""
        keys = self._folder / "keys"
        command = [word.replace("/keys", str(keys)) if word == "/keys" else word for word in self._command("setup")]
        subprocess.run(command, check=True, env=self._environment(), capture_output=True, timeout=120)
        subprocess.run(command, check=True, env=self._environment(), capture_output=True, timeout=120)  # does nothing
        for point, volume in mounts(self._services["setup"]).items():
            shutil.copytree(keys / Path(point).name, self._volumes[volume], dirs_exist_ok=True)
        for name in ROUTERS:
            config = self._volumes[f"keys-{name}"] / "router.toml"
            config.write_text(self._here(config.read_text(), name))

    def _command(self, service: str) -> list[str]:
        words = [self._here(word, service) for word in self._services[service]["command"]]
        return [sys.executable if word == "python" else word for word in words]

    def _environment(self, package: Path | None = None) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        more = {"PYTHONPATH": str(package)} if package else {}
        return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **more}

    def start(self, service: str) -> subprocess.Popen[str]:
        """A container's command."""
        package = self._package if service in ROUTERS else None
        command = self._command(service)
        if package:  # the console script would put this checkout first
            command = [sys.executable, "-P", "-m", "secroute.cli.main", *command[1:]]
        with (self._folder / f"{service}.log").open("w") as log:
            self.running[service] = subprocess.Popen(
                command, env=self._environment(package), cwd=self._folder, stdout=log, stderr=log, text=True
            )
        return self.running[service]

    def log(self, service: str) -> str:
        return (self._folder / f"{service}.log").read_text()

    def wait_log(self, service: str, text: str, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while text not in self.log(service):
            assert self.running[service].poll() in (None, 0), self.log(service)[-2_000:]
            assert time.monotonic() < end, f"{service} never said {text!r}: {self.log(service)[-2_000:]}"
            time.sleep(0.05)

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait()


def without_trusted(folder: Path) -> Path:
    """The package as the router's image has it; links, so that compiled kernels are found."""
    (folder / "secroute").mkdir(parents=True)
    for path in (ROOT / "secroute").iterdir():
        if path.name not in (*TRUSTED, "__pycache__"):
            (folder / "secroute" / path.name).symlink_to(path)
    return folder


def test_the_commands_of_the_file(services: dict[str, Any], tmp_path: Path) -> None:
    local = Local(services, tmp_path, without_trusted(tmp_path / "image"))
    try:
        local.setup()
        for name in ROUTERS:
            held = {path.name for path in (tmp_path / f"keys-{name}").iterdir()}
            assert held == {"ca.crt", f"{name}.crt", f"{name}.key", "router.toml"}
            local.start(name)
        for name in ROUTERS:
            local.wait_log(name, '"listening"')
        for name in ("subscriber-1", "subscriber-2"):
            local.start(name)
        _wait_subscribed(local)
        assert local.start("publisher").wait(60) == 0, local.log("publisher")
        wanted = offers_below(1_000, "ATL", 500)
        end = time.monotonic() + 30
        while len(_numbers(local.log("subscriber-1"))) < len(wanted) and time.monotonic() < end:
            time.sleep(0.1)
        assert _numbers(local.log("subscriber-1")) == wanted
        assert _numbers(local.log("subscriber-2"))
        assert _metric(local, "router-1", "overlay_routers") == 3
        assert _metric(local, "router-1", "overlay_messages_injected_total") > 0
        assert _metric(local, "router-2", r'link_messages_in_total{neighbour="router-1"}') > 0
        for name in ROUTERS:
            local.running[name].send_signal(signal.SIGTERM)
    finally:
        local.stop()


def _numbers(log: str) -> list[int]:
    return [int(number) for number in re.findall(r"number=(\d+)", log)]


def _metric(local: Local, router: str, name: str) -> float:
    """One figure, as Prometheus sees it."""
    with urllib.request.urlopen(f"http://127.0.0.1:{local.ports[router][1]}/metrics", timeout=10) as answer:
        found = re.search(rf"^secroute_{re.escape(name)} (\S+)$", str(answer.read(), "utf-8"), re.MULTILINE)
    assert found, f"{router} has no figure {name}"
    return float(found[1])


def _wait_subscribed(local: Local) -> None:
    """Until the publisher's router knows what the desks of the others ask for."""
    end = time.monotonic() + 60
    while True:
        asked = [_metric(local, name, "filters") for name in ROUTERS[1:]]
        if all(asked) and _metric(local, ROUTERS[0], "overlay_filters") == sum(asked):
            return
        assert time.monotonic() < end, f"{asked} filters: {local.log(ROUTERS[0])[-2_000:]}"
        time.sleep(0.1)


def test_the_routers_image_leaves_the_trusted_packages_out() -> None:
    text = (ROOT / "Dockerfile").read_text()
    (removed,) = re.findall(r"rm -r (.*)", text)
    assert set(removed.split()) == set(TRUSTED)
    (extras,) = re.findall(r"FROM build AS build-router\n.*'\.\[(.*)\]'", text)
    assert extras == "router"
    assert "audit" not in text.replace("audit sim bench", "")
