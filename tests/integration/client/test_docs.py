"""Every command and program in docs/sdk.md and docs/operations.md, run as it stands there (on a port of its own)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from secroute.bench.router_lab import Lab, free_port
from secroute.encoding.profile import Profile
from secroute.keyring import OwnerKeyring
from secroute.router.config import parse_config

DOCS = Path(__file__).resolve().parents[3] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def shell(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", "set -e\n" + script], cwd=folder, env=environment(), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def test_the_sdk_page(tmp_path: Path) -> None:
    OwnerKeyring.new("flights", Profile(bits=512), now=time.time() - 10).create(tmp_path / "flights.keyring")
    (tmp_path / "tls").mkdir()
    with Lab() as lab:
        lab.save_identity("desk-7", tmp_path / "tls")
        target = lab.router().target
        said = []
        for program in blocks("sdk.md", "python"):
            done = subprocess.run(
                [sys.executable, "-c", program.replace("127.0.0.1:7400", target)],
                cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            said.append(done.stdout.strip())
        assert said == ["{'dest': 'ATL', 'price': 248} b'gate 7'", "{'class': 'alert', 'severity': 3}"]
        (script,) = blocks("sdk.md", "sh")
        script = "set -m\n" + script.replace("127.0.0.1:7400", target).replace("wait %1\n", "wait %1 || true\n")
        *_, listed, deleted = shell(script, tmp_path).splitlines()
        got = [json.loads(line)["attributes"] for line in (tmp_path / "got.jsonl").read_text().splitlines()]
        assert got == [{"dest": "ATL", "price": 248}, {"dest": "ATL", "price": 99}]
        assert len(json.loads(listed)["durable"]) == 2  # desk-7, night
        assert json.loads(deleted)["deleted"] == "night"


def test_the_operations_page(tmp_path: Path) -> None:
    first, daily = blocks("operations.md", "sh")
    port, metrics = free_port(), free_port()
    run, background, rest = first.partition(" &\n")
    ports = f"sed -i -e 's#:7400#:{port}#' -e 's#:9464#:{metrics}#' router.toml\n"
    before, runs, command = run.rpartition("secroute router run")
    # pgrep would also find other routers of this machine; $! is ours.
    daily = re.sub(r"\$\(pgrep [^)]*\)", "$router", daily)
    script = before + ports + runs + command + background + "router=$!\ntrap 'kill $router 2>/dev/null || true' EXIT\n"
    script += (rest + daily).replace("127.0.0.1:7400", f"127.0.0.1:{port}") + "wait $router\n"
    out = shell(script, tmp_path)
    assert '"draining": true' in out.splitlines()[-1]
    assert "busiest sessions" in out
    log = (tmp_path / "router.log").read_text()
    assert '"reload"' in log
    assert '"stopped"' in log


def test_the_rules_on_the_operations_page_are_right() -> None:
    import tomllib

    (text,) = blocks("operations.md", "toml")
    (rule,) = parse_config(tomllib.loads(text), Path()).clients
    assert rule.may == ("subscribe",)


def test_every_event_of_the_router_is_explained() -> None:
    package = DOCS.parent / "secroute" / "router"
    source = "".join(path.read_text() for path in package.glob("*.py") if not path.name.startswith("links"))
    events = set(re.findall(r'log\.(?:info|warning|error)\(\s*"([a-z-]+)"', source))
    page = (DOCS / "operations.md").read_text()
    quiet = {"listening", "stopped", "drain", "epoch-dropped", "durable-deleted", "dead-letters"}
    quiet |= {
        "certificates-reloaded",
        "certificates-unreadable",
        "resume-by-another",
        "batch-unreadable",
        "spill-unreadable",
    }
    assert events - quiet <= set(re.findall(r"`([a-z-]+)`", page))
