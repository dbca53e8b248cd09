"""The line, in a process that works: a router that has served a client has loaded no trusted module."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from secroute.client import connect
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring

SCRIPT = """
import atexit, json, sys
atexit.register(lambda: open("modules.json", "w").write(json.dumps(sorted(sys.modules))))
from secroute.cli.main import main
sys.exit(main(["router", "run", "--config", "router.toml", "--insecure", "--address-file", "address.json"]))
"""
TRUSTED = ("content", "exact", "keyring", "encoding", "client", "audit")


async def publish_and_receive(target: str) -> None:
    keyring = OwnerKeyring.new("flights", Profile.default(), now=time.time())
    async with connect(target, keyring=keyring) as client:
        async with client.subscribe("dest = 'ATL'", durable="desk") as messages:
            await client.publish({"dest": "ATL"})
            received = await messages.next(10)
            assert received is not None
            assert received.attributes == {"dest": "ATL"}


def test_a_router_at_work_has_loaded_no_trusted_module(tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text('listen = "127.0.0.1:0"\nmetrics_listen = "127.0.0.1:0"\n')
    router = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, env=os.environ, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "address.json").exists():
            assert router.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        asyncio.run(publish_and_receive(json.loads((tmp_path / "address.json").read_text())["listen"]))
        router.send_signal(signal.SIGTERM)
        assert router.wait(30) == 0
    finally:
        router.kill()
        router.wait()
    loaded = json.loads((tmp_path / "modules.json").read_text())
    assert "secroute.router.node" in loaded
    assert [name for name in loaded if name.startswith(tuple(f"secroute.{room}" for room in TRUSTED))] == []
