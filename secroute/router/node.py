"""The router node without its network: sessions, durable subscriptions, pipeline, time. UNTRUSTED side, no gRPC.

One object per process. Everything it holds belongs to the event loop; matching, table updates and the store run in one
thread each and hand their results back.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable

from secroute import engine, limits
from secroute.errors import DrainingError, ForbiddenError, QuotaError, place_of
from secroute.router import gather
from secroute.router.commit import Committer
from secroute.router.config import ClientRule, Config
from secroute.router.counters import NodeCounters
from secroute.router.durables import DurableRegistry
from secroute.router.guard import DuplicateGuard
from secroute.router.links import Links
from secroute.router.logs import Log
from secroute.router.machine import End, Phase, Reply, SessionMachine
from secroute.router.outbox import Outbox, OutboxLimits
from secroute.router.pipeline import Pipeline
from secroute.router.queues import Queues
from secroute.router.recovery import recover
from secroute.router.scopes import ScopeTables
from secroute.router.session import Session
from secroute.router.spill import SpillFile
from secroute.router.store import Store
from secroute.router.subscriptions import Subscriptions
from secroute.wire.frames import Drain, Goodbye, Hello, Problem, SessionLimits, Welcome

_MIB = 1_048_576
TICK_S = 0.1
OPEN_BYTES_MAX = 256 * _MIB  # published bytes under way in the whole node; beyond it streams are not read


class Node:
    """A router."""

    def __init__(self, config: Config, engine_name: str, log: Log) -> None:
        """Open the store and build everything from it; raises if the store, the engine or the disk will not do."""
        self.config = config
        self.engine_name = engine_name
        self.log = log
        self.began = time.monotonic()
        self.draining = False
        self.drain_s = 0
        """How long clients are given, once draining."""
        self.failure = ""
        """Why the node cannot go on; the process must end (what is on disk is right, and nothing is acknowledged)."""
        self.links: Links | None = None
        """Set if it has neighbours."""
        self.counters = NodeCounters()
        self.sessions: dict[int, Session] = {}
        engine.warm_up(engine_name)
        if engine_name != "reference":
            gather.use_compiled()
        self.store = Store(config.store.path, sync=config.store.sync, bytes_max=config.store.mib_max * _MIB)
        self.router_id = self.store.router_id()
        self.registry = DurableRegistry()
        self.tables = ScopeTables(engine_name, self.store.put_pin, config.limits.epochs_max)
        self.tables.fix(pin.scope() for pin in config.pins)
        bounds = config.guard
        folder = config.store.path.parent
        self.guard = DuplicateGuard(
            folder, window_s=bounds.window_s, keys_max=bounds.keys_max, load=self.store.seen_keys
        )
        self.committer = Committer(self.store, self.guard, self.registry, config.durable)
        self.queues = Queues(self.registry, self.sessions, self.store, self.counters, log, config)
        self.subscriptions = Subscriptions(
            self.tables, self.registry, self.store, config, self.queues.entry_finished, self.sessions
        )
        self.pipeline = Pipeline(self.queues, self.tables, self.committer, self.counters, log)
        self.pipeline.linger_s = config.limits.batch_linger_ms / 1000
        self.queues.commit_soon = self.pipeline.commit_soon
        self._by_token: dict[bytes, Session] = {}
        self._next_session = 1
        self._busy_until: dict[str, float] = {}
        self._ticker: asyncio.Task[None] | None = None
        self._endings: set[asyncio.Task[None]] = set()
        self._recover()

    def _recover(self) -> None:
        now, unix_ms = time.monotonic(), time.time_ns() // 1_000_000
        clean = self.store.begin_life()
        found = recover(self.store, self.registry, self.tables, self.subscriptions.restore, now, unix_ms, clean)
        self.queues.adopt(found.batch_refs, found.orphans)
        self.committer.next_batch, self.committer.next_gap = found.next_batch, found.next_gap
        keys = self.guard.rebuild(self.store.seen(unix_ms - int(self.config.guard.window_s * 2000)))
        self.log.info(
            "recovered", clean=clean, durable=len(self.registry), batches=len(found.batch_refs),
            messages=found.messages, guard_keys=keys,
        )  # fmt: skip

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the loops."""
        self._ticker = asyncio.create_task(self._tick_loop())
        for task in (self._ticker, *self.pipeline.start()):
            task.add_done_callback(self._loop_ended)
        self.pipeline.commit_soon()

    def watch(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Loops of others that the node cannot do without."""
        for task in tasks:
            task.add_done_callback(self._loop_ended)

    def _loop_ended(self, task: asyncio.Task[None]) -> None:
        """A loop never ends by itself. Better no router than one that takes messages and does nothing with them."""
        if not task.cancelled():
            error = task.exception()
            self.failure = type(error).__name__ if error else "a loop ended"
            where = place_of(error) if error else ""
            self.log.error("failed", reason=self.failure, where=where)

    async def close(self) -> None:
        """Stop: finish what is under way, write all progress, close the store."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        for session in list(self.sessions.values()):
            self.subscriptions.detach_all(session)
            session.outbox.close()
        self.queues.dirty.update(durable.number for durable in self.registry)
        await self.pipeline.close()
        self.subscriptions.close()
        self.tables.close()
        self.guard.close()
        self.store.close(clean=not self.queues.dirty)

    def drain(self, deadline_s: int) -> None:
        """Take nothing new, and ask every client to go elsewhere."""
        if not self.draining:
            self.draining = True
            self.drain_s = deadline_s
            self.log.info("drain", deadline_s=deadline_s, sessions=len(self.sessions))
            for session in self.sessions.values():
                session.send(Drain(deadline_s))

    def goodbye(self) -> None:
        """End every session now."""
        problem = Problem.of(DrainingError("the router stops"))
        for session in list(self.sessions.values()):
            session.send(Goodbye(problem))

    def reload(self, config: Config) -> None:
        """Use another configuration from now on; what is open keeps the limits that it was told, but not its rights."""
        self.config = config
        self.committer.bounds = config.durable
        self.subscriptions.config = config
        self.queues.config = config
        self.tables.tables_max = config.limits.epochs_max
        self.tables.fix(pin.scope() for pin in config.pins)
        self.pipeline.linger_s = config.limits.batch_linger_ms / 1000
        self.log.info("reload", clients=len(config.clients), pins=len(config.pins))
        for session in list(self.sessions.values()):
            try:
                session.rule = config.rule_for(session.owner)
                session.require_rights()
            except ForbiddenError as error:
                session.send(Goodbye(Problem.of(error)))
                ending = asyncio.create_task(self.end_session(session, Problem.of(error)))
                self._endings.add(ending)
                ending.add_done_callback(self._endings.discard)

    # --- sessions ----------------------------------------------------------------------------------------------------

    def session_limits(self) -> SessionLimits:
        """What a new session is allowed."""
        bounds = self.config.sessions
        return SessionLimits(
            frame_bytes_max=limits.FRAME_BYTES_MAX,
            batch_messages_max=limits.BATCH_MESSAGES_MAX,
            publish_window_messages=bounds.publish_window_messages,
            publish_window_bytes=bounds.publish_window_mib * _MIB,
            publish_window_batches=bounds.publish_window_batches,
            subscription_filters_max=limits.SUBSCRIPTION_FILTERS_MAX,
            session_filters_max=limits.SESSION_SUBSCRIPTIONS_MAX * limits.SUBSCRIPTION_FILTERS_MAX,
            keepalive_s=bounds.keepalive_s,
            resume_grace_s=bounds.resume_grace_s,
            ttl_ms_max=int(self.config.limits.message_ttl_s_max * 1000),
        )

    def rule_for(self, owner: str) -> ClientRule:
        """What a certificate's name may do; raises if nothing."""
        return self.config.rule_for(owner)

    def new_machine(self) -> SessionMachine:
        """The machine of a stream that has just come."""
        return SessionMachine(self.session_limits(), self.config.sessions.hello_timeout_s, time.monotonic())

    def open_session(self, owner: str, hello: Hello, machine: SessionMachine) -> tuple[Session, bool]:
        """A session for this Hello: the one that its token names, or a new one."""
        old = self._by_token.pop(hello.resume_token, None) if hello.resume_token else None
        if old is not None and old.owner != owner:
            self._by_token[hello.resume_token] = old
            self.log.warning("resume-by-another", owner=owner, session=old.session_id)
            old = None
        if self.draining:
            raise DrainingError("this router is about to stop; connect to another one")
        session = old if old is not None else self._new_session(owner, machine)
        if old is not None:
            self.subscriptions.detach_all(old)
            old.machine.resumed(time.monotonic())
            self.counters.messages_redelivered += old.outbox.rewind()
        session.resume_token = secrets.token_bytes(limits.RESUME_TOKEN_BYTES)
        self._by_token[session.resume_token] = session
        session.begin_stream()
        session.credit.add(hello.credit.messages, hello.credit.bytes)
        session.send(
            Welcome(
                version=machine.version,
                router_id=self.router_id,
                session_id=session.session_id,
                resume_token=session.resume_token,
                resumed=old is not None,
                limits=session.bounds,
                publish_sequence=session.machine.publish_sequence,
            )
        )
        session.machine.opened()
        self.log.info("session", session=session.session_id, owner=owner, resumed=old is not None)
        return session, old is not None

    def _new_session(self, owner: str, machine: SessionMachine) -> Session:
        rule = self.rule_for(owner)
        mine = sum(session.owner == owner for session in self.sessions.values())
        if mine >= rule.sessions_max or len(self.sessions) >= self.config.limits.sessions_max:
            raise QuotaError(f"{mine} sessions of {owner!r}, {len(self.sessions)} in all; no more are allowed")
        bounds = self.config.sessions
        box = OutboxLimits(rule.queue_mib * _MIB, bounds.spill_mib_max * _MIB, bounds.slow_consumer)
        session = Session(
            number=self._next_session,
            session_id=secrets.token_bytes(limits.SESSION_ID_BYTES),
            owner=owner,
            rule=rule,
            machine=machine,
            outbox=Outbox(box, SpillFile(self.config.store.path.parent)),
            bounds=machine.bounds,
            counters=self.counters,
            frame_bytes=bounds.frame_kib * 1024,
            began=time.monotonic(),
        )
        self._next_session += 1
        self.sessions[session.number] = session
        return session

    def pace(self, owner: str, mib_per_s: float, size: int) -> float:
        """Charge a publisher for ``size`` bytes; how many seconds it must wait to stay within its rate."""
        if not mib_per_s:
            return 0.0
        now = time.monotonic()
        # Time until which the rate is used up; up to a second may be saved for a burst.
        busy_until = max(self._busy_until.get(owner, 0.0), now - 1.0) + size / (mib_per_s * _MIB)
        self._busy_until[owner] = busy_until
        return max(0.0, busy_until - now)

    def stream_lost(self, session: Session) -> None:
        """A stream broke: the session may be resumed for a while."""
        self.subscriptions.detach_all(session)
        session.machine.lost(time.monotonic())
        session.end_stream()

    async def end_session(self, session: Session, problem: Problem | None) -> None:
        """A session is over for good."""
        if self.sessions.pop(session.number, None) is None:
            return
        self._by_token.pop(session.resume_token, None)
        session.machine.phase = Phase.CLOSED
        session.end_stream()
        session.outbox.close()
        self.queues.release(session.number)
        code = problem.code if problem else ""
        self.log.info("session-end", session=session.session_id, owner=session.owner, code=code,
                      reason=problem.message if problem else "", messages_in=session.messages_in,
                      messages_out=session.messages_out)  # fmt: skip
        # Whoever asked may be cancelled with its stream; the filters go all the same.
        await asyncio.shield(self.subscriptions.forget_session(session))

    # --- time -----------------------------------------------------------------------------------------------------

    async def _tick_loop(self) -> None:
        last_epochs = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            for session in list(self.sessions.values()):
                await self._tick_session(session, now)
            self.queues.tick(now)
            if now - last_epochs > min(5.0, self.config.limits.epoch_idle_s):
                last_epochs = now
                await asyncio.get_running_loop().run_in_executor(None, self._drop_idle_epochs, now)

    async def _tick_session(self, session: Session, now: float) -> None:
        for action in session.machine.tick(now):
            if isinstance(action, Reply):
                session.send(action.frame)
            elif isinstance(action, End) and action.resumable:
                self.log.warning("stream-silent", session=session.session_id, owner=session.owner)
                self.stream_lost(session)
            elif isinstance(action, End):
                await self.end_session(session, action.problem)

    def _drop_idle_epochs(self, now: float) -> None:
        for table in self.tables.idle(now, self.config.limits.epoch_idle_s):
            self.store.drop_pin(table.scope)
            self.tables.drop(table)
            self.log.info("epoch-dropped", space=table.scope.space, epoch=table.scope.epoch)
