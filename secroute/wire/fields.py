"""Small protobuf parts that frames of both directions share: bounded numbers, byte strings, runs, credits, problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from secroute import limits
from secroute.errors import LimitError, WireError
from secroute.wire._generated import gateway_pb2 as pb
from secroute.wire.frames import Credit, Problem, Runs


def bounded(value: int, most: int, what: str, least: int = 0) -> int:
    """``value`` if it is within ``least..most``; else raise, naming it."""
    if not least <= value <= most:
        raise LimitError(f"{what} is {value}, allowed is {least}..{most}")
    return value


def exact_bytes(value: bytes, size: int, what: str, optional: bool = False) -> bytes:
    """``value`` if it has ``size`` bytes (or none, if optional); else raise."""
    if len(value) != size and not (optional and not value):
        raise WireError(f"{what} has {len(value)} bytes, not {size}")
    return value


def bounded_text(value: str, most: int, what: str) -> str:
    """``value`` if it is short enough; else raise."""
    if len(value) > most:
        raise LimitError(f"{what} has {len(value)} characters, at most {most}")
    return value


def at_most(items: Sequence[object], most: int, what: str) -> None:
    """Raise if there are too many ``items``; asked before anything is made of them."""
    if len(items) > most:
        raise LimitError(f"{len(items)} {what}, at most {most}")


def runs_to_pb(runs: Runs) -> Iterable[pb.Run]:
    """Runs of sequence numbers as protobuf."""
    return [pb.Run(first=first, count=count) for first, count in runs]


def runs_from_pb(messages: Sequence[pb.Run], what: str) -> Runs:
    """Runs of sequence numbers: at least one long, within range, rising and disjoint."""
    at_most(messages, limits.ACK_RUNS_MAX, f"{what} runs")
    runs = tuple((run.first, run.count) for run in messages)
    end = 0
    for first, count in runs:
        if first <= 0 or count <= 0 or first < end or first + count > limits.SEQUENCE_MAX:
            raise WireError(f"{what}: run of {count} from {first} is empty, out of range or out of order")
        end = first + count
    return runs


def credit_to_pb(credit: Credit) -> pb.Credit:
    """A credit as protobuf."""
    return pb.Credit(subscription=credit.subscription, messages=credit.messages, bytes=credit.bytes)


def credit_from_pb(message: pb.Credit) -> Credit:
    """A credit, bounded."""
    return Credit(
        bounded(message.subscription, limits.SEQUENCE_MAX, "subscription"),
        bounded(message.messages, limits.CREDIT_MESSAGES_MAX, "credit messages"),
        bounded(message.bytes, limits.CREDIT_BYTES_MAX, "credit bytes"),
    )


def problem_to_pb(problem: Problem | None) -> pb.Error | None:
    """A problem as protobuf, its text cut to the limit; nothing stays nothing."""
    if problem is None:
        return None
    text = problem.message[: limits.ERROR_CHARS_MAX]
    return pb.Error(code=problem.code, message=text, retryable=problem.retryable)


def problem_from_pb(message: pb.Error | None) -> Problem | None:
    """A problem, bounded."""
    if message is None:
        return None
    bounded_text(message.code, limits.ERROR_CODE_CHARS_MAX, "error code")
    bounded_text(message.message, limits.ERROR_CHARS_MAX, "error message")
    return Problem(message.code or "unknown", message.message, message.retryable)


def problem_of(message: object) -> Problem | None:
    """The ``error`` field of a frame, if it is set."""
    return problem_from_pb(message.error if message.HasField("error") else None)  # type: ignore[attr-defined]
