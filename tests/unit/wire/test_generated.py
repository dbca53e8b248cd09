"""The generated code that is checked in is what the ``.proto`` files say, and the codec needs no gRPC."""

from __future__ import annotations

import subprocess
import sys

from secroute.wire.generate import differences, generate


def test_generated_code_is_up_to_date() -> None:
    assert differences(generate()) == [], "run: python -m secroute.wire.generate"


def test_the_codec_does_not_import_grpc() -> None:
    code = "import sys, secroute.wire.client_frames, secroute.wire.router_frames; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
