"""kill -9 of router and subscribers at random moments, a rotation in the middle: nothing acknowledged is lost.

Also: no duplicate within a process's lifetime; after a crash only what was not acknowledged, marked redelivered; first
deliveries in order.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from secroute.bench.router_lab import Lab
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring
from tests.cases import cases

CONSUMERS = {"evens": ("even = TRUE", lambda n: n % 2 == 0), "thirds": ("third = 0", lambda n: n % 3 == 0)}
AWAY = {"away": ("third = 1", lambda n: n % 3 == 1)}


class Worker:
    """One worker that can be killed and started again."""

    def __init__(self, where: Path, target: str, role: str, name: str, *more: str) -> None:
        self.diary = where / f"{name}.diary"
        keys, log = str(where / "soak.keys"), str(self.diary)
        self._command = [sys.executable, "-m", "tests.integration.soak.worker", role, target, keys, str(where), log]
        self._command += [name, *more] if more else []
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(self._command)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def finish(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(120) == 0
            self.process = None

    def lives(self) -> list[list[list[str]]]:
        """The diary, one list of entries for each process."""
        lives: list[list[list[str]]] = []
        for line in self.diary.read_text().splitlines():
            words = line.split()
            if words[0] == "start":
                lives.append([])
            else:
                lives[-1].append(words)
        return lives

    def numbers(self, kind: str) -> set[int]:
        return {int(words[1]) for life in self.lives() for words in life if words[0] == kind}


def wait(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    kills = cases(4, 50)
    chance = random.Random(5)
    keys = tmp_path / "soak.keys"
    OwnerKeyring.new("soak", Profile(bits=256), now=time.time() - 10, overlap_s=2).create(keys)
    with Lab() as lab:
        lab.save_identity("soak", tmp_path)
        router = lab.router(durable={"ack_timeout_s": 5.0, "tries_max": 1000})
        consumers = {
            name: Worker(tmp_path, router.target, "consume", name, predicate)
            for name, (predicate, _) in (CONSUMERS | AWAY).items()
        }
        publisher = Worker(tmp_path, router.target, "publish", "publisher")
        try:
            for worker in consumers.values():
                worker.start()
            wait(
                lambda: all(w.diary.exists() and b"attached" in w.diary.read_bytes() for w in consumers.values()),
                60,
                "attach",
            )
            publisher.start()
            for number in range(kills):
                time.sleep(chance.uniform(0.3, 1.2))
                if number == kills // 2:  # rotate while one durable subscriber is away
                    consumers["away"].kill()
                    now = time.time()
                    with OwnerKeyring.edit(keys) as keyring:
                        keyring.rotate(now=now, activates_s=int(now) + 2, overlap_s=2)
                if number % 2 == 0:
                    router.kill()
                    time.sleep(chance.uniform(0.0, 0.3))
                    router.start()
                else:
                    victim = consumers[chance.choice(list(CONSUMERS))]
                    victim.kill()
                    time.sleep(chance.uniform(0.0, 0.3))
                    victim.start()
            time.sleep(3.0)  # into the new epoch
            consumers["away"].start()
            publisher.finish()
            _settle(publisher, consumers)
        finally:
            for worker in (publisher, *consumers.values()):
                worker.kill()
    _check(publisher, consumers)
    print(f"\n{kills + 1} kill -9, {_summary(publisher, consumers)}")


def _summary(publisher: Worker, consumers: dict[str, Worker]) -> str:
    """For people who run it with -s."""
    published = publisher.numbers("published")
    parts = [f"{len(published)} acknowledged publications, 0 lost"]
    for name, (_, wants) in (CONSUMERS | AWAY).items():
        entries = [words for life in consumers[name].lives() for words in life if words[0] == "got"]
        again = sum(words[2] == "1" for words in entries)
        lives = len(consumers[name].lives())
        parts.append(
            f"{name}: {sum(map(wants, published))} wanted, {len(entries)} got in {lives} lives, {again} marked"
        )
    return "; ".join(parts)


def _settle(publisher: Worker, consumers: dict[str, Worker]) -> None:
    published = publisher.numbers("published")
    for name, (_, wants) in (CONSUMERS | AWAY).items():
        wanted = {n for n in published if wants(n)}
        wait(lambda w=wanted, c=consumers[name]: w <= c.numbers("got"), 60, f"{name} has not got everything")  # type: ignore[misc]


def _check(publisher: Worker, consumers: dict[str, Worker]) -> None:
    assert len(publisher.numbers("published")) > 100
    for name, (_, wants) in (CONSUMERS | AWAY).items():
        seen: set[int] = set()
        acked: set[int] = set()
        for life in consumers[name].lives():
            got = [(int(w[1]), w[2] == "1") for w in life if w[0] == "got"]
            numbers = [n for n, _ in got]
            assert len(numbers) == len(set(numbers)), f"{name}: a duplicate within one process"
            assert all(map(wants, numbers)), f"{name}: a false positive reached the application"
            assert not acked & set(numbers), f"{name}: an acknowledged message came again"
            unmarked = {n for n, redelivered in got if not redelivered} & seen
            assert not unmarked, f"{name}: came again without the mark"
            first = [n for n, redelivered in got if not redelivered]
            assert first == sorted(first), f"{name}: first deliveries out of order"
            seen |= set(numbers)
            acked |= {int(w[1]) for w in life if w[0] == "acked"}
    epochs = {w[3] for life in consumers["away"].lives() for w in life if w[0] == "got"}
    assert epochs == {"1", "2"}
