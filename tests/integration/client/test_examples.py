"""The example programs, and the session that their README shows, run as they stand there."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.flight_offers import offer
from secroute.bench.router_lab import Lab, RouterProcess, free_port
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring

CLIENTS = Path(__file__).resolve().parents[3] / "clients"


class Place:
    """A router, a keyring and certificates."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.router: RouterProcess = lab.router()
        self._lab, self._folder = lab, folder
        OwnerKeyring.new("examples", Profile(bits=512), now=time.time() - 10).create(folder / "space.keys")

    def run(self, program: str, *words: str, name: str, given: str = "") -> list[str]:
        self._lab.save_identity(name, self._folder)
        command = [sys.executable, str(CLIENTS / program), *words, "--router", self.router.target, "--name", name]
        command += ["--keyring", str(self._folder / "space.keys"), "--tls", str(self._folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, input=given, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Lab() as lab:
        yield Place(lab, tmp_path_factory.mktemp("place"))


def offers_below(count: int, dest: str, price: int) -> list[int]:
    chance = random.Random(count)
    made = [offer(number, chance) for number in range(count)]
    return [int(each["number"]) for each in made if each["dest"] == dest and int(each["price"]) < price]


def test_a_desk_misses_nothing_while_it_is_closed(place: Place) -> None:
    predicate = "dest = 'ATL' AND price < 500"
    *none, last = place.run("flight_desk.py", "--quiet-s", "0.3", predicate, name="desk-7")
    assert (none, last.split(";")[0]) == ([], "0 offers")
    assert place.run("flight_offers.py", "--count", "600", name="offers")[0].startswith("published 600 offers")
    *lines, last = place.run("flight_desk.py", "--quiet-s", "1.0", predicate, name="desk-7")
    numbers = [int(re.findall(r"number=(\d+)", line)[0]) for line in lines]
    assert numbers == offers_below(600, "ATL", 500)
    assert last.startswith(f"{len(numbers)} offers")


def test_responders_share_alerts_try_again_and_reject(place: Place) -> None:
    assert place.run("alert_feed.py", "respond", "--quiet-s", "0.3", name="responder") == ["handled 0"]
    alerts = [
        {"class": "alert", "severity": 4, "device": "web-1"},
        {"class": "alert", "severity": 2, "device": "web-2"},
        {"class": "alert", "severity": 5, "device": "test-9"},
        {"class": "alert", "severity": 3, "device": "db-1", "flaky": True},
        {"class": "alert", "severity": 5, "device": "unknown"},
        {"class": "news", "severity": 5, "device": "web-3"},
    ]
    given = "\n".join(json.dumps(each) for each in alerts)
    assert place.run("alert_feed.py", "publish", name="sensor", given=given) == ["published 6"]
    *handled, last = place.run("alert_feed.py", "respond", "--quiet-s", "1.0", name="responder")
    assert sorted(handled) == ["severity 3 on db-1", "severity 4 on web-1"]
    assert last == "handled 2"


@pytest.mark.parametrize("mode", [[], ["--best-effort"]])
def test_load_generator(place: Place, mode: list[str]) -> None:
    (line,) = place.run("load_generator.py", "--rate", "400", "--seconds", "1", *mode, name="load")
    result = json.loads(line)
    assert result["missing"] == 0
    assert result["delivered"] >= 30


def test_the_readme_session_as_it_stands(tmp_path: Path) -> None:
    (text,) = re.findall(r"```sh\n(.*?)```", (CLIENTS / "README.md").read_text(), re.DOTALL)
    port = str(free_port())
    script = text.replace("7400", port).replace("python clients/", f"{sys.executable} {CLIENTS}/")
    # The router in the background is the shell's child: it ends with the shell.
    waiting = f"for i in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.1; done\n"
    head, background, tail = script.partition(" &\n")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euc", head + background + "trap 'kill $!' EXIT\n" + waiting + tail],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2_000:]
    wanted = offers_below(1_000, "ATL", 500)
    assert f"{len(wanted)} offers" in done.stdout.splitlines()[-1]
