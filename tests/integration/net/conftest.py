"""Networks of real router processes that are gone when the test is, whatever happened."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from secroute.bench.net_lab import Network, plan

MakeNetwork = Callable[..., Network]


@pytest.fixture
def make_network(tmp_path: Path) -> Iterator[MakeNetwork]:
    made: list[Network] = []

    def make(topology: str, scheme: str = "pif", *, start: bool = True, more: str = "") -> Network:
        names, links = plan(topology)
        net = Network.create(tmp_path / f"net{len(made)}", names, links, scheme=scheme, topology=topology, more=more)
        made.append(net)
        if start:
            net.start()
            net.wait_whole()
        return net

    yield make
    for net in made:
        for name in net.names:
            with contextlib.suppress(ProcessLookupError):
                net.kill(name, signal.SIGKILL)
