"""The line: importing any untrusted package in a fresh interpreter loads no trusted module."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNTRUSTED = ["opaque", "engine", "overlay", "wire", "router", "sim"]
TRUSTED = ("content", "exact", "keyring", "encoding", "client", "audit")

SCRIPT = """
import importlib, pkgutil, sys
package = importlib.import_module("secroute.{name}")
for module in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
    importlib.import_module(module.name)
crossed = [m for m in sys.modules if m.startswith({trusted!r})]
sys.exit(f"loaded: {{crossed}}" if crossed else 0)
"""


@pytest.mark.parametrize("name", UNTRUSTED)
def test_no_trusted_module_is_loaded(name: str) -> None:
    script = SCRIPT.format(name=name, trusted=tuple(f"secroute.{t}" for t in TRUSTED))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
