"""The disk under a router's links refuses for a while: what was to be written is written when it can be."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing

from secroute.bench.net_lab import Network
from tests.integration.net.conftest import MakeNetwork
from tests.integration.net.test_streams import client, until
from tests.integration.router.raw import filters_for, message_batch

REFUSE = "CREATE TRIGGER refuse BEFORE DELETE ON kept BEGIN SELECT RAISE(ABORT, 'the disk refuses'); END"


def on_disk(net: Network, name: str, command: str) -> int:
    path = net.folder / name / "router-store" / "links" / "links.db"
    with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as db:
        row = db.execute(command).fetchone()
        return int(row[0]) if row else 0


def test_what_a_neighbour_has_goes_from_the_disk_even_if_that_failed_once(make_network: MakeNetwork) -> None:
    """It once stayed there until a restart, and counted against what may wait: in the end nobody could publish."""
    net = make_network("line:2")
    count = "SELECT count(*) FROM kept"

    async def work() -> None:
        async with client(net, "r1") as receiver, client(net, "r0") as publisher:
            await receiver.hello()
            await receiver.subscribe(1, filters_for(range(128)))
            await asyncio.to_thread(net.wait_whole, 30, filters=128)
            await publisher.hello()
            on_disk(net, "r0", REFUSE)
            assert (await publisher.publish(message_batch([1]))).problem is None
            assert await receiver.values(1) == [1]
            await until(lambda: "links-store-refuses" in net.log("r0").read_text())
            assert on_disk(net, "r0", count) == 1
            on_disk(net, "r0", "DROP TRIGGER refuse")
            await until(lambda: on_disk(net, "r0", count) == 0, 5)
            assert (await publisher.publish(message_batch([2]))).problem is None
            assert await receiver.values(1) == [2]

    asyncio.run(work())
    said = [json.loads(line)["event"] for line in net.log("r0").read_text().splitlines() if line.startswith("{")]
    assert said.count("links-store-refuses") == said.count("links-store-recovered") == 1
