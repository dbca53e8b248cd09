"""What links need from their node, and how a transfer that arrived becomes a publisher there. UNTRUSTED side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from secroute.opaque import EncodedFilters
from secroute.router.config import Config
from secroute.router.jobs import Job
from secroute.router.logs import Log
from secroute.wire.frames import Problem, PublishResult


class LinkHost(Protocol):
    """What links need from their node."""

    config: Config
    engine_name: str
    log: Log

    async def take_from_link(self, job: Job) -> bool:
        """Hand a batch to the node's own receivers; whether there are any (the job's publisher hears of it)."""

    def durable_epochs(self) -> Iterable[tuple[bytes, tuple[int, ...]]]:
        """(space, epochs with filters) of every durable subscription."""

    def local_filters(self) -> Iterable[tuple[int, EncodedFilters]]:
        """(endpoint, filters) that are active before the links start."""


class Arrival:
    """A transfer that is done when it was delivered here and passed on; the local pipeline knows it as a publisher."""

    def __init__(self, done: Callable[[Problem | None], None]) -> None:
        self.commits_pending = 0
        self._open = 2
        self._done = done
        self._problem: Problem | None = None

    def settle(self, result: PublishResult) -> None:
        """Delivered here."""
        self.half(result.problem)

    def half(self, problem: Problem | None) -> None:
        """One of the two halves is done. A batch that can never be taken here must not block the link for ever."""
        if problem is not None and (problem.retryable or problem.code.startswith("store")):
            self._problem = Problem(problem.code, problem.message, True)
        self._open -= 1
        if not self._open:
            self._done(self._problem)
