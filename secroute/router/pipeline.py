"""The path of published batches: what arrived is matched in one kernel call, committed in one transaction, handed out.

UNTRUSTED side. Two loops on the event loop, each with a thread for its heavy part, so that matching goes on while the
disk works. Groups pass in order, so the order of every publisher is kept.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from secroute.errors import SecrouteError, StoreError
from secroute.router.commit import Committed, Committer
from secroute.router.counters import NodeCounters
from secroute.router.jobs import Group, Job, group_jobs, settle_all
from secroute.router.logs import Log
from secroute.router.parcels import Kind, Routes, parcels
from secroute.router.scopes import ScopeTables
from secroute.router.store import Unit

T = TypeVar("T")
MICRO_BATCH_MESSAGES = 8_192
ACK_LINGER_S = 0.004
STORE_RETRY_S = 0.5


class PipelineHost(Protocol):
    """What the pipeline needs from its node."""

    def spoolers(self, group: Group) -> tuple[int, ...]:
        """Durable subscriptions that get everything of a group's scope."""

    def hand_out(self, groups: list[Group], committed: Committed | None) -> None:
        """Put parcels and entries into queues."""

    def take_acks(self) -> tuple[Unit, Callable[[], None]]:
        """Progress to commit, and what to do when it is committed."""

    def put_back_acks(self, unit: Unit) -> None:
        """The acks were not committed after all."""


class Pipeline:
    """Jobs in, results and deliveries out."""

    def __init__(
        self, host: PipelineHost, tables: ScopeTables, committer: Committer, counters: NodeCounters, log: Log
    ) -> None:
        self._host = host
        self._tables = tables
        self._committer = committer
        self._counters = counters
        self._log = log
        self.linger_s = 0.0
        self.open_bytes = 0
        """Bytes of batches without a result."""
        self._jobs: deque[Job] = deque()
        self._matched: deque[Group] = deque()
        self._work = asyncio.Event()
        self._to_commit = asyncio.Event()
        self._room = asyncio.Event()
        self._match_thread = ThreadPoolExecutor(1, "secroute-match")
        self._store_thread = ThreadPoolExecutor(1, "secroute-store")
        self._tasks: list[asyncio.Task[None]] = []
        self._committing = False
        self._store_failed = False

    def start(self) -> list[asyncio.Task[None]]:
        """Start both loops."""
        self._tasks = [asyncio.create_task(self._match_loop()), asyncio.create_task(self._commit_loop())]
        return self._tasks

    async def close(self) -> None:
        """Finish what is under way, then stop."""
        while self._jobs or self._matched or self._committing or self.open_bytes:
            await asyncio.sleep(0.005)
        self.commit_soon()
        await asyncio.sleep(ACK_LINGER_S * 2)
        while self._committing:
            await asyncio.sleep(0.005)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._match_thread.shutdown()
        self._store_thread.shutdown()

    def submit(self, job: Job) -> None:
        """A job to do; its publisher hears of it when it is done."""
        self.open_bytes += job.nbytes
        self._jobs.append(job)
        self._work.set()

    def commit_soon(self) -> None:
        """There is progress to commit."""
        self._to_commit.set()

    async def room(self, bytes_max: int) -> None:
        """Wait until less than this is under way."""
        while self.open_bytes > bytes_max:
            self._room.clear()
            await self._room.wait()

    async def in_store_thread(self, call: Callable[[], T]) -> T:
        """Run something that reads or writes the store."""
        return await asyncio.get_running_loop().run_in_executor(self._store_thread, call)

    # --- matching ----------------------------------------------------------------------------------------------------

    async def _match_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._work.wait()
            if self.linger_s:
                await asyncio.sleep(self.linger_s)
            groups = group_jobs(self._take_jobs())
            for group in groups:
                group.spoolers = self._host.spoolers(group)
            await loop.run_in_executor(self._match_thread, self._match, groups)
            self._pass_on(groups)

    def _take_jobs(self) -> list[Job]:
        jobs: list[Job] = []
        messages = 0
        while self._jobs and (not jobs or messages + len(self._jobs[0].batch) <= MICRO_BATCH_MESSAGES):
            job = self._jobs.popleft()
            messages += len(job.batch)
            jobs.append(job)
        if not self._jobs:
            self._work.clear()
        return jobs

    def _match(self, groups: list[Group]) -> None:
        """In the match thread."""
        for group in groups:
            if not group.jobs:
                continue
            batch = group.join()
            began = time.monotonic()
            try:
                table = self._tables.get(group.scope, batch.bits.shape[1], began)
                found = table.table.forward(batch.bits)
            except SecrouteError as error:
                group.refuse(error)
                group.routes = None
                continue
            table.messages += len(batch)
            self._counters.match_s.add(time.monotonic() - began)
            group.routes = Routes.of(found.rows_of_values(), found.values)
            if not group.commit and not group.spoolers and not len(group.routes.of_kind(Kind.DURABLE)):
                group.parcels = parcels(batch, group.routes, group.expires())

    def _pass_on(self, groups: list[Group]) -> None:
        """Direct groups are handed out at once; the others go to the disk, with all jobs of their publishers."""
        waiting: set[int] = set()
        for group in groups:
            hit = group.routes is not None and (group.spoolers or len(group.routes.of_kind(Kind.DURABLE)))
            if group.commit or hit:
                group.commit = True
                waiting |= {id(job.publisher) for job in group.all_jobs()}
        for group in groups:
            group.commit = group.commit or any(id(job.publisher) in waiting for job in group.all_jobs())
        direct = [group for group in groups if not group.commit]
        if direct:
            self._host.hand_out(direct, None)
            self._settle(direct)
        for group in groups:
            if group.commit:
                for job in group.all_jobs():
                    job.publisher.commits_pending += 1
                self._matched.append(group)
                self._to_commit.set()

    def _settle(self, groups: list[Group]) -> None:
        for group in groups:
            for job in group.all_jobs():
                self.open_bytes -= job.nbytes
                self._counters.messages_duplicate += job.duplicates
                self._counters.batches_refused += job.problem is not None
            if group.routes is not None:
                self._counters.messages_matched += len(group.routes.rows)
        settle_all(groups)
        self._room.set()

    # --- committing --------------------------------------------------------------------------------------------------

    async def _commit_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._to_commit.wait()
            if not self._matched:
                await asyncio.sleep(ACK_LINGER_S)
            self._to_commit.clear()
            self._committing = True
            groups = list(self._matched)
            self._matched.clear()
            acks, confirm = self._host.take_acks()
            if not groups and not acks:
                confirm()
                self._committing = False
                continue
            began = time.monotonic()
            unix_ms = time.time_ns() // 1_000_000
            done = await loop.run_in_executor(self._store_thread, self._committer.commit, groups, acks, unix_ms)
            self._counters.commits += 1
            self._counters.commit_s.add(time.monotonic() - began)
            for group in groups:
                for job in group.all_jobs():
                    job.publisher.commits_pending -= 1
            self._host.hand_out(groups, done)
            self._settle(groups)
            self._note_store(done.error)
            if done.acks_committed:
                confirm()
            else:
                self._host.put_back_acks(acks)
                loop.call_later(STORE_RETRY_S, self.commit_soon)
            self._committing = False

    def _note_store(self, error: StoreError | None) -> None:
        if (error is not None) != self._store_failed:
            self._store_failed = error is not None
            if error is not None:
                self._log.error("store-refuses", code=error.code, reason=str(error))
            else:
                self._log.info("store-recovered")
