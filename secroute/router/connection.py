"""One stream of a client: frames in, the session's machine says what they mean, this room has it done. No gRPC.

UNTRUSTED side. A connection belongs to one stream; its session may outlive it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from secroute.errors import DrainingError, ForbiddenError, SecrouteError, StoreError
from secroute.router.jobs import Job
from secroute.router.links import Links
from secroute.router.machine import Action, Do, End, Phase, Reply
from secroute.router.node import OPEN_BYTES_MAX, Node
from secroute.router.session import Session
from secroute.wire.columns import batch_bytes
from secroute.wire.frames import (
    Ack,
    ClientFrame,
    Credit,
    GapAck,
    Goodbye,
    Hello,
    Problem,
    Publish,
    RouterFrame,
    Subscribe,
    Unsubscribe,
)

_SLEEP_S = 1.0  # the longest nap of a rate-limited publisher before its keep-alive is looked at again


def _nothing() -> None:
    return None


class Connection:
    """A stream and, after its Hello, the session that it carries."""

    def __init__(self, node: Node, owner: str) -> None:
        self._node = node
        self._owner = owner
        self._machine = node.new_machine()
        self._refusal: Goodbye | None = None
        self._opened = asyncio.Event()
        self.on_end: Callable[[], object] = _nothing
        """Called when the session lets go of this stream."""
        self.session: Session | None = None
        self._stream = 0

    @property
    def over(self) -> bool:
        """Nothing more will be read from this stream."""
        session = self.session
        if session is None:
            return self._machine.phase is Phase.CLOSED
        return session.stream != self._stream or session.machine.phase is not Phase.OPEN

    async def receive(self, frame: ClientFrame) -> None:
        """A frame arrived."""
        machine = self.session.machine if self.session else self._machine
        await self._perform(machine.receive(frame, time.monotonic()))
        if self.session is not None:
            await self.session.room(self._stream)

    async def fail(self, error: SecrouteError) -> None:
        """Something arrived that is not a frame."""
        machine = self.session.machine if self.session else self._machine
        await self._perform(machine.fail(error))

    async def broke(self, error: Exception) -> None:
        """Our own fault: say so in the log and to the client, and end the session, so that nothing is half done."""
        self._node.log.fault(error, owner=self._owner)
        await self._end(Problem("internal", "the router failed at this; its log says where", True))

    async def hello_expired(self) -> None:
        """Time for a Hello is over."""
        if self.session is None:
            await self._perform(self._machine.tick(time.monotonic()))

    async def lost(self) -> None:
        """The stream is gone."""
        self._opened.set()
        session = self.session
        if session is not None and session.stream == self._stream and session.machine.phase is Phase.OPEN:
            self._node.log.info("stream-lost", session=session.session_id, owner=session.owner)
            self._node.stream_lost(session)

    async def frames(self) -> AsyncIterator[RouterFrame]:
        """Everything to send."""
        await self._opened.wait()
        if self._refusal is not None:
            yield self._refusal
        elif self.session is not None:
            try:
                async for frame in self.session.frames(self._stream, self._node.queues.fetch, time.monotonic):
                    yield frame
            except StoreError as error:  # the client must know that something is missing: no resume
                self._node.log.error("spill-unreadable", session=self.session.session_id, reason=str(error))
                yield Goodbye(Problem.of(error))
                await self._node.end_session(self.session, Problem.of(error))

    # --- doing ----------------------------------------------------------------------------------------------------

    async def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Reply():
                    if self.session is not None:
                        self.session.send(action.frame)
                case End():
                    await self._end(action.problem)
                case Do():
                    try:
                        await self._do(action)
                    except SecrouteError as error:
                        await self.fail(error)

    async def _end(self, problem: Problem | None) -> None:
        session = self.session
        if session is None:
            self._refusal = Goodbye(problem)
            self._opened.set()
            reason = problem.message if problem else ""
            self._node.log.warning("refused", owner=self._owner, code=problem.code if problem else "", reason=reason)
            return
        session.send(Goodbye(problem))
        await self._node.end_session(session, problem)

    async def _do(self, action: Do) -> None:
        frame, node, session = action.frame, self._node, self.session
        if isinstance(frame, Hello):
            self.session, _ = node.open_session(self._owner, frame, self._machine)
            self._stream = self.session.stream
            self.session.on_stream_end = self.on_end
            self._opened.set()
        elif session is None:
            return
        elif isinstance(frame, Publish):
            await self._publish(session, frame)
        elif isinstance(frame, Ack):
            node.queues.ack(session, frame)
        elif isinstance(frame, Credit):
            node.queues.credit(session, frame)
        elif isinstance(frame, Subscribe):
            # Shielded: a stream that ends now must not leave a change half made.
            session.send(await asyncio.shield(node.subscriptions.subscribe(session, frame)))
        elif isinstance(frame, Unsubscribe):
            session.send(await asyncio.shield(node.subscriptions.unsubscribe(session, frame)))
        elif isinstance(frame, GapAck):
            node.queues.gap_ack(session, frame)

    async def _publish(self, session: Session, frame: Publish) -> None:
        node, size = self._node, batch_bytes(frame.batch)
        bounds = node.config.limits
        ttl_s = frame.ttl_ms / 1000 if frame.ttl_ms else bounds.message_ttl_s_default
        expires = time.monotonic() + min(ttl_s, bounds.message_ttl_s_max) if ttl_s else float("inf")
        job = Job(session, frame.sequence, frame.mode, frame.batch, expires, size)
        try:
            if node.draining:
                raise DrainingError("this router is about to stop; publish through another one")
            if not session.rule.allows("publish", frame.batch.scope.space):
                raise ForbiddenError(f"{session.owner!r} may not publish in space {frame.batch.scope.space.hex()}")
            node.tables.find(frame.batch.scope, frame.batch.bits.shape[1])
        except SecrouteError as error:
            job.refuse(error)
        session.messages_in += len(frame.batch)
        node.counters.batches_in += 1
        node.counters.messages_in += len(frame.batch)
        node.counters.bytes_in += size
        try:
            await self._pace(session, size)
            await node.pipeline.room(OPEN_BYTES_MAX)
        finally:
            # It counts as received: even if the stream ends here it is done now, and the result waits for a resume.
            if node.links is None or job.problem is not None:
                node.pipeline.submit(job)
            else:
                await asyncio.shield(self._inject(node.links, job))

    async def _inject(self, links: Links, job: Job) -> None:
        await links.inject(job)
        self._node.pipeline.submit(job)

    async def _pace(self, session: Session, size: int) -> None:
        """A publisher beyond its rate is not read for a while; its own stream alone feels it."""
        wait_s = self._node.pace(session.owner, session.rule.mib_per_s, size)
        while wait_s > 0 and not self.over:
            await asyncio.sleep(min(wait_s, _SLEEP_S))
            wait_s -= _SLEEP_S
            session.machine.touch(time.monotonic())
