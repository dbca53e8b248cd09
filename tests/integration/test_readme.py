"""The README's session and program do what the README says, word for word, apart from ports and waits."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def block(language: str, containing: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(text for text in blocks if containing in text)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_session_and_the_program(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    (tmp_path / "keys").mkdir()
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").write_text("")
    router, metrics = free_port(), free_port()
    session = block("sh", "secroute router run")
    configured = f"sed -i 's/:7400/:{router}/; s/:9464/:{metrics}/' keys/router.toml\nsecroute router run"
    session = session.replace("secroute router run", configured).replace("127.0.0.1:7400", f"127.0.0.1:{router}")
    # Where a person waits a few seconds, the test waits for what the person would see.
    session = session.replace(
        "sleep 5", f"until (exec 3<>/dev/tcp/127.0.0.1/{router}) 2>/dev/null; do sleep 0.1; done", 1
    )
    session = session.replace("sleep 5", "until grep -q subscribed seen.txt; do sleep 0.1; done", 1)
    session = session.replace('AND price < 500" &', 'AND price < 500" 2> seen.txt &')
    (tmp_path / "program.py").write_text(block("python", "connect(").replace("7400", str(router)))
    session = session.replace("kill %2 %1", f"{sys.executable} program.py; sleep 1; kill %2 %1; wait")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "-c", "set -m\n" + session], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert "dest='ATL' price=338" in done.stdout, done.stderr
    assert "JFK" not in done.stdout
    assert "{'dest': 'ATL', 'price': 338} b'gate 7'" in done.stdout
    assert "Traceback" not in done.stderr


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    broken = [
        f"{page.name}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert broken == []
