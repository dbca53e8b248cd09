"""``secroute bench router`` in small: every key is there, all deliveries arrive, what bounds a phase is measured."""

from __future__ import annotations

import json
import subprocess
import sys

from secroute.bench.router import bound_of

KEYS = {
    "best_effort_messages_per_s", "durable_messages_per_s", "default_profile_messages_per_s",
    "single_frame_messages_per_s", "p50_ms", "p99_ms", "router_rss_mb", "router_cpu_share", "subscribe_active_p50_ms",
}  # fmt: skip


def test_the_figures_are_printed() -> None:
    words = ["--filters", "500", "--sessions", "5", "--seconds", "0.3", "--batch", "64", "--table-filters", "5000"]
    command = [sys.executable, "-m", "secroute.cli.main", "bench", "router", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result.keys() >= KEYS
    assert all(result[key] > 0 for key in KEYS - {"router_cpu_share"})
    assert 1.9 < result["deliveries_per_message"] < 3.0
    assert result["bound_by"].keys() == {"best_effort", "single_frame", "durable", "default_profile"}


def test_the_busiest_stage_bounds_a_phase() -> None:
    def by(cpu: float, match: float, commit: float) -> str:
        return str(bound_of({"cpu": cpu, "match": match, "commit": commit}, 1.0, 1_000)["by"])

    assert by(1.0, 0.9, 0.0) == "matching"
    assert by(1.0, 0.2, 0.9) == "the store's transactions"
    assert by(1.0, 0.1, 0.0).startswith("the router's event loop")
    assert by(0.5, 0.3, 0.0).startswith("the load generator")
