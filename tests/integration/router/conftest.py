"""Fixtures: routers that are gone when the test is, whatever happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.router.raw import Router

MakeRouter = Callable[..., Router]


@pytest.fixture
def make_router(tmp_path: Path) -> Iterator[MakeRouter]:
    routers: list[Router] = []

    def make(text: str = "", tls: bool = False, name: str = "r") -> Router:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        routers.append(Router(folder).configure(text, tls))
        return routers[-1]

    yield make
    for router in routers:
        router.kill()
