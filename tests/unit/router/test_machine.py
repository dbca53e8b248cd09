"""The session protocol as transcripts: what comes in, what must be done; and that nothing a client sends breaks it."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secroute.opaque import EncodedBatch, EncodedFilters, Scope
from secroute.router.machine import Action, Do, End, Phase, Reply, SessionMachine
from secroute.wire import frames
from tests.cases import cases

SCOPE = Scope(bytes(16), 1, bytes(32))
BOUNDS = frames.SessionLimits(
    frame_bytes_max=1_000, batch_messages_max=100, publish_window_messages=6, publish_window_bytes=1_000,
    publish_window_batches=3, subscription_filters_max=10, session_filters_max=10, keepalive_s=10, resume_grace_s=30,
    ttl_ms_max=1_000,
)  # fmt: skip


def machine(now: float = 0.0) -> SessionMachine:
    return SessionMachine(BOUNDS, 5.0, now)


def batch(count: int = 1, payload_bytes: int = 8) -> EncodedBatch:
    bits = np.ones((count, 1), np.uint64)
    return EncodedBatch.of(SCOPE, bits, [os.urandom(16) for _ in range(count)], [bytes(payload_bytes)] * count)


def publish(sequence: int, count: int = 1, payload_bytes: int = 8) -> frames.Publish:
    return frames.Publish(sequence, frames.Mode.BEST_EFFORT, batch(count, payload_bytes))


def opened() -> SessionMachine:
    made = machine()
    assert shown(made.receive(frames.Hello(), 0.0)) == ["do Hello"]
    made.opened()
    return made


def shown(actions: list[Action]) -> list[str]:
    """A transcript's right side."""
    lines = []
    for action in actions:
        match action:
            case Do(frame):
                lines.append(f"do {type(frame).__name__}")
            case Reply(frame):
                lines.append(f"reply {type(frame).__name__}")
            case End(problem, resumable):
                code = problem.code if problem else "fine"
                lines.append(f"end {code}{' resumable' if resumable else ''}")
    return lines


def test_the_first_frame_is_hello() -> None:
    assert shown(machine().receive(publish(1), 0.0)) == ["end protocol"]
    assert shown(machine().receive(frames.Goodbye(), 0.0)) == ["end fine"]
    assert shown(machine().receive(frames.Hello(version_min=9, version_max=12), 0.0)) == ["end version"]
    assert shown(machine().receive(frames.Hello(version_min=1, version_max=12), 0.0)) == ["do Hello"]
    assert shown(opened().receive(frames.Hello(), 1.0)) == ["end protocol"]


def test_a_hello_that_never_comes() -> None:
    waiting = machine()
    assert shown(waiting.tick(4.9)) == []
    assert shown(waiting.tick(5.1)) == ["end protocol"]
    assert waiting.phase is Phase.CLOSED


def test_pings_are_answered_and_silence_is_ended() -> None:
    session = opened()
    assert shown(session.receive(frames.Ping(7), 1.0)) == ["reply Pong"]
    assert shown(session.tick(10.9)) == []
    assert shown(session.tick(11.0)) == ["reply Ping"]
    assert shown(session.tick(11.1)) == []  # not at every tick
    assert shown(session.receive(frames.Pong(1), 12.0)) == []
    assert shown(session.tick(22.0)) == ["reply Ping"]
    assert shown(session.tick(32.1)) == ["end protocol resumable"]
    assert session.phase is Phase.DETACHED
    session.resumed(40.0)
    assert session.phase is Phase.OPEN
    session.lost(41.0)
    assert shown(session.tick(70.9)) == []
    assert shown(session.tick(71.1)) == ["end fine"]  # nobody came within the grace time


def test_publish_numbers_rise_by_one() -> None:
    session = opened()
    assert shown(session.receive(publish(1), 0.0)) == ["do Publish"]
    assert shown(session.receive(publish(3), 0.0)) == ["end protocol"]
    assert shown(opened().receive(publish(0), 0.0)) == ["end protocol"]


@pytest.mark.parametrize(
    ("sent", "what"),
    [([1, 1, 1, 1], "4 batches"), ([4, 3], "7 messages"), ([1, 1, 200], "202 messages")],
)
def test_the_window_is_kept(sent: list[int], what: str) -> None:
    session = opened()
    for number, count in enumerate(sent[:-1], 1):
        assert shown(session.receive(publish(number, count), 0.0)) == ["do Publish"]
    (end,) = session.receive(publish(len(sent), sent[-1]), 0.0)
    assert isinstance(end, End)
    assert end.problem is not None
    assert (end.problem.code, what in end.problem.message) == ("flow", True)


def test_bytes_count_too_and_results_make_room() -> None:
    session = opened()
    assert shown(session.receive(publish(1, 2, 400), 0.0)) == ["do Publish"]
    session.settled(frames.PublishResult(1))
    assert shown(session.receive(publish(2, 2, 400), 0.0)) == ["do Publish"]
    assert shown(session.receive(publish(3, 2, 400), 0.0)) == ["end flow"]


def test_results_are_kept_for_a_resume_within_the_window() -> None:
    session = opened()
    for number in range(1, 6):
        session.receive(publish(number), 0.0)
        session.settled(frames.PublishResult(number))
    assert [result.sequence for result in session.results] == [3, 4, 5]


FILTERS = EncodedFilters(SCOPE, np.ones((1, 1), np.uint64))
FRAMES = st.one_of(
    st.builds(frames.Hello, version_min=st.integers(0, 3), version_max=st.integers(0, 3)),
    st.builds(publish, st.integers(0, 6), st.integers(1, 8), st.sampled_from([8, 400])),
    st.builds(frames.Ping, st.integers(0, 2**32)),
    st.builds(frames.Pong, st.integers(0, 2**32)),
    st.just(frames.Goodbye()),
    st.builds(frames.Ack, st.integers(0, 3), st.integers(0, 9)),
    st.builds(frames.Credit, st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)),
    st.builds(frames.Subscribe, st.integers(0, 9), st.integers(1, 3), st.just((FILTERS,))),
    st.builds(frames.Unsubscribe, st.integers(0, 9), st.integers(1, 3)),
    st.builds(frames.GapAck, st.integers(0, 3), st.integers(0, 9)),
)
EVENTS = st.one_of(
    st.tuples(st.just("frame"), FRAMES),
    st.tuples(st.sampled_from(["opened", "lost", "resumed", "settled"]), st.none()),
    st.tuples(st.just("wait"), st.floats(0, 50)),
)


@settings(max_examples=cases(200, 5_000))
@given(st.lists(EVENTS, max_size=30))
def test_no_order_of_frames_and_time_breaks_it(events: list[tuple[str, object]]) -> None:
    session, now, unsettled = machine(), 0.0, list[int]()
    for kind, what in events:
        before, actions = session.phase, list[Action]()
        if kind == "frame":
            actions = session.receive(what, now)  # type: ignore[arg-type]
        elif kind == "wait":
            now += float(what)  # type: ignore[arg-type]
            actions = session.tick(now)
        elif kind == "settled" and unsettled:
            session.settled(frames.PublishResult(unsettled.pop(0)))
        elif kind == "opened" and before is Phase.OPENING and session.version:
            session.opened()
        elif kind == "lost":
            session.lost(now)
        elif kind == "resumed" and before is Phase.DETACHED:
            session.resumed(now)
        unsettled += [
            each.frame.sequence for each in actions if isinstance(each, Do) and isinstance(each.frame, frames.Publish)
        ]
        if before is Phase.CLOSED:
            assert actions == []  # over is over
        ends = [action for action in actions if isinstance(action, End)]
        assert len(ends) <= 1
        if ends:
            assert session.phase is (Phase.DETACHED if ends[0].resumable else Phase.CLOSED)
        assert len(unsettled) <= BOUNDS.publish_window_batches
        assert len(session.results) <= BOUNDS.publish_window_batches
