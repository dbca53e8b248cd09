"""Published batches on their way through the node: jobs, and groups of jobs that are matched in one kernel call.

UNTRUSTED side, no I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from secroute.errors import SecrouteError
from secroute.opaque import EncodedBatch, Scope
from secroute.router.parcels import Expiry, Ints, Parcel, Routes, concatenate
from secroute.wire.frames import Mode, Problem, PublishResult


class Publisher(Protocol):
    """Where jobs come from: a session, or a link."""

    commits_pending: int
    """Batches waiting for the disk: while there are any, later ones must not overtake them."""

    def settle(self, result: PublishResult) -> None:
        """A batch has its result."""


@dataclass(slots=True)
class Job:
    """One published batch."""

    publisher: Publisher
    sequence: int
    mode: Mode
    batch: EncodedBatch
    expires: float
    """Monotonic; infinity: never."""
    nbytes: int
    problem: Problem | None = None
    duplicates: int = 0

    def result(self) -> PublishResult:
        """What the publisher is told."""
        return PublishResult(self.sequence, self.problem, self.duplicates)

    def refuse(self, error: SecrouteError) -> None:
        """Nothing of this batch is taken."""
        self.problem = self.problem or Problem.of(error)


@dataclass(slots=True)
class Group:
    """Jobs of one scope and one width, their batches one after another."""

    scope: Scope
    jobs: list[Job]
    commit: bool
    """Its results wait for the disk."""
    refused: list[Job] = field(default_factory=list)
    """Jobs that are here only so that their results come in their turn."""
    batch: EncodedBatch | None = None
    routes: Routes | None = None
    spoolers: Sequence[int] = ()
    """Durable subscriptions that get everything of this scope."""
    parcels: list[tuple[int, Parcel]] = field(default_factory=list)
    """For sessions and links, when matched (and committed, if need be)."""

    def join(self) -> EncodedBatch:
        """All messages of the group."""
        self.batch = concatenate([job.batch for job in self.jobs])
        return self.batch

    def all_jobs(self) -> list[Job]:
        """Every job that waits for a result."""
        return [*self.jobs, *self.refused]

    def job_of_row(self) -> Ints:
        """For every row, which job it came with."""
        return np.repeat(np.arange(len(self.jobs)), [len(job.batch) for job in self.jobs])

    def expires(self) -> Expiry | None:
        """For every row, when it expires; ``None`` if none does."""
        times = [job.expires for job in self.jobs]
        if all(time == float("inf") for time in times):
            return None
        return np.repeat(np.array(times), [len(job.batch) for job in self.jobs])

    def refuse(self, error: SecrouteError) -> None:
        """Nothing of any of its batches is taken."""
        for job in self.jobs:
            job.refuse(error)


def group_jobs(jobs: Sequence[Job]) -> list[Group]:
    """Jobs by scope, width and whether they wait for the disk; the order within a publisher is kept.

    A best-effort batch behind one that waits for the disk waits with it.
    """
    groups: dict[tuple[Scope, int, bool], Group] = {}
    waiting: set[int] = set()
    for job in jobs:
        commit = job.mode is Mode.AT_LEAST_ONCE or job.publisher.commits_pending > 0 or id(job.publisher) in waiting
        if commit:
            waiting.add(id(job.publisher))
        key = (job.batch.scope, job.batch.bits.shape[1], commit)
        group = groups.setdefault(key, Group(job.batch.scope, [], commit))
        (group.refused if job.problem else group.jobs).append(job)
    return list(groups.values())


def settle_all(groups: Sequence[Group]) -> None:
    """Tell every publisher its results, in the order of its batches."""
    for job in sorted((job for group in groups for job in group.all_jobs()), key=lambda job: job.sequence):
        job.publisher.settle(job.result())
