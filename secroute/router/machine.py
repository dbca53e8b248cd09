"""The protocol of one session as a state machine: frames and time in, actions out. UNTRUSTED side, no I/O.

It knows which frame may come when, versions, publish numbers and windows, and keep-alive. What a frame *does* (tables,
queues, store) is the node's business: the machine only says that it shall be done.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from secroute.errors import FlowError, ProtocolError, SecrouteError, VersionError
from secroute.wire.columns import batch_bytes
from secroute.wire.frames import (
    VERSION_MAX,
    VERSION_MIN,
    Ack,
    ClientFrame,
    Credit,
    GapAck,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Problem,
    Publish,
    PublishResult,
    RouterFrame,
    SessionLimits,
    Subscribe,
    Unsubscribe,
)


class Phase(Enum):
    """Where a session is."""

    OPENING = "opening"
    OPEN = "open"
    DETACHED = "detached"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Reply:
    """Send this frame."""

    frame: RouterFrame


@dataclass(frozen=True, slots=True)
class Do:
    """Carry out what this frame asks for."""

    frame: Hello | Subscribe | Unsubscribe | Publish | Credit | Ack | GapAck


@dataclass(frozen=True, slots=True)
class End:
    """The stream is over: say goodbye with the problem, if any, and forget or keep the session."""

    problem: Problem | None
    resumable: bool


Action = Reply | Do | End


@dataclass(slots=True)
class SessionMachine:
    """One session, across the streams that carry it."""

    bounds: SessionLimits
    hello_timeout_s: float
    now: float
    phase: Phase = Phase.OPENING
    version: int = 0
    publish_sequence: int = 0
    """The highest publish number received."""
    results: deque[PublishResult] = field(default_factory=deque)
    """The latest results, repeated after a resume because nobody knows which of them arrived."""
    _open_batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    _open_messages: int = 0
    _open_bytes: int = 0
    _heard: float = 0.0
    _pinged: float = 0.0
    _nonce: int = 0

    def __post_init__(self) -> None:
        self._heard = self._pinged = self.now
        self.results = deque(maxlen=self.bounds.publish_window_batches)

    # --- frames ------------------------------------------------------------------------------------------------------

    def receive(self, frame: ClientFrame, now: float) -> list[Action]:
        """A frame arrived."""
        self._heard = now
        try:
            return self._receive(frame)
        except SecrouteError as error:
            return self.fail(error)

    def _receive(self, frame: ClientFrame) -> list[Action]:
        if self.phase is Phase.OPENING:
            if isinstance(frame, Goodbye):
                return self._end(None, resumable=False)
            if not isinstance(frame, Hello):
                raise ProtocolError(f"the first frame must be Hello, not {type(frame).__name__}")
            return self._hello(frame)
        if self.phase is not Phase.OPEN:
            return []
        match frame:
            case Hello():
                raise ProtocolError("a second Hello")
            case Ping():
                return [Reply(Pong(frame.nonce))]
            case Pong():
                return []
            case Goodbye():
                return self._end(None, resumable=False)
            case Publish():
                self._count(frame)
                return [Do(frame)]
            case _:
                return [Do(frame)]

    def _hello(self, frame: Hello) -> list[Action]:
        version = min(frame.version_max, VERSION_MAX)
        if version < max(frame.version_min, VERSION_MIN):
            asked = f"{frame.version_min}..{frame.version_max}"
            raise VersionError(f"this router speaks versions {VERSION_MIN}..{VERSION_MAX}, you asked for {asked}")
        self.version = version
        return [Do(frame)]

    def _count(self, frame: Publish) -> None:
        if frame.sequence != self.publish_sequence + 1:
            raise ProtocolError(f"publish sequence {frame.sequence}, expected {self.publish_sequence + 1}")
        messages, size, bounds = len(frame.batch), batch_bytes(frame.batch), self.bounds
        for what, used, allowed in (
            ("batches", len(self._open_batches) + 1, bounds.publish_window_batches),
            ("messages", self._open_messages + messages, bounds.publish_window_messages),
            ("bytes", self._open_bytes + size, bounds.publish_window_bytes),
        ):
            if used > allowed:
                raise FlowError(f"{used} {what} published without a result, the window is {allowed}")
        self.publish_sequence = frame.sequence
        self._open_batches[frame.sequence] = (messages, size)
        self._open_messages += messages
        self._open_bytes += size

    def settled(self, result: PublishResult) -> None:
        """A published batch has its result: its share of the window is free again."""
        messages, size = self._open_batches.pop(result.sequence, (0, 0))
        self._open_messages -= messages
        self._open_bytes -= size
        self.results.append(result)

    def touch(self, now: float) -> None:
        """We, not the client, are what keeps frames from being read: it counts as heard."""
        self._heard = now

    # --- streams and time --------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The node has accepted the Hello."""
        self.phase = Phase.OPEN

    def lost(self, now: float) -> None:
        """The stream broke without a goodbye."""
        if self.phase is Phase.OPEN:
            self.phase = Phase.DETACHED
            self._heard = now
        elif self.phase is Phase.OPENING:
            self.phase = Phase.CLOSED

    def resumed(self, now: float) -> None:
        """A new stream carries the session on."""
        self.phase = Phase.OPEN
        self._heard = self._pinged = now

    def tick(self, now: float) -> list[Action]:
        """Time has passed: ping a silent client, end a dead stream, forget a session that nobody resumed."""
        silent = now - self._heard
        if self.phase is Phase.OPENING and silent > self.hello_timeout_s:
            return self._end(Problem("protocol", f"no Hello within {self.hello_timeout_s:g} s"), resumable=False)
        if self.phase is Phase.DETACHED and silent > self.bounds.resume_grace_s:
            return self._end(None, resumable=False)
        if self.phase is not Phase.OPEN:
            return []
        if silent > 2 * self.bounds.keepalive_s:
            self.lost(now)
            return [End(Problem("protocol", f"heard nothing for {silent:.0f} s"), resumable=True)]
        if min(silent, now - self._pinged) >= self.bounds.keepalive_s:
            self._pinged = now
            self._nonce += 1
            return [Reply(Ping(self._nonce))]
        return []

    def fail(self, error: SecrouteError) -> list[Action]:
        """Something that ends the session for good."""
        return self._end(Problem.of(error), resumable=False)

    def _end(self, problem: Problem | None, resumable: bool) -> list[Action]:
        self.phase = Phase.CLOSED
        return [End(problem, resumable)]
