"""The code of live links under cut cables, crashes and restarts: nothing accepted is lost, nothing is left over."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from secroute.overlay.schemes import SCHEMES
from secroute.overlay.topology import generate
from tests.cases import cases
from tests.simulation.live_links import LiveNetwork
from tests.unit.overlay.random_graphs import random_graph

BITS = 8
SPECS = ["ring:5", "line:4", "star:5", "tree:6,2", "powerlaw:6"]


async def trouble(net: LiveNetwork, steps: int) -> None:
    """Publish while cables are cut and routers crash; in the end all is mended."""
    rng, n = net.rng, len(net.nodes)
    cables = sorted(net.graph.weights)
    publishing: list[asyncio.Task[None]] = []
    for _ in range(steps):
        chance, number = rng.random(), rng.randrange(n)
        if chance < 0.6:
            publishing.append(asyncio.create_task(net.publish(number, rng.randint(1, 20))))
        elif chance < 0.75:
            net.cut = set(rng.sample(cables, rng.randint(1, len(cables))))
        elif chance < 0.85:
            net.cut = set()
        elif chance < 0.93:
            await net.crash(number)
        else:
            net.boot(number)
        await asyncio.sleep(rng.choice([0, 0.002, 0.01, 0.05]))
    net.cut = set()
    for number in range(n):
        net.boot(number)
    await asyncio.gather(*publishing)


async def run(folder: Path, seed: int, scheme: str) -> None:
    rng = random.Random(seed)
    graph = random_graph(seed, n_max=6) if seed % 2 else generate(rng.choice(SPECS), seed=seed, weight_max=2)
    net = LiveNetwork(folder, graph, scheme, rng, BITS)
    try:
        await net.start()
        assert net.whole()
        await trouble(net, 60)
        assert await net.until(net.whole, 20), f"the network does not become whole\n{net.describe()}"
        await net.until(lambda: not net.missing(), 15)
        assert net.missing() == 0, f"{net.missing()} of {len(net.accepted)} messages are missing\n{net.describe()}"
        assert net.accepted

        def at_rest() -> bool:
            links = [each for each in net.links if each is not None]
            return all(not each._forwarder.bytes_kept and not each.held for each in links)

        assert await net.until(at_rest, 10), "messages stay on disk although everybody has them"
    finally:
        await net.close()


@pytest.mark.parametrize("seed", range(cases(8, 200)))
def test_no_accepted_message_is_lost(tmp_path: Path, seed: int) -> None:
    scheme = list(SCHEMES)[seed % len(SCHEMES)]
    asyncio.run(run(tmp_path, seed, scheme))
