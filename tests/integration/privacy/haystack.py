"""What to look for and how: planted secrets in every spelling in which they could leak."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator

KEEP = 8  # characters of a base64 needle that do not depend on its neighbours, at least


def spellings(secret: bytes) -> Iterator[bytes]:
    """In clear, in UTF-16, in hexadecimal, and in base64 at each of its three alignments."""
    yield secret
    yield b"\x00".join(secret[at : at + 1] for at in range(len(secret)))
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for skip in range(3):
        # Leave out the first and last characters: they also depend on what stands beside the secret.
        text = base64.b64encode(bytes(skip) + secret)[skip and skip + 1 :].rstrip(b"=")[:-1]
        if len(text) >= KEEP:
            yield text
            yield text.replace(b"+", b"-").replace(b"/", b"_")


def found_in(haystack: bytes, secrets: Iterable[bytes]) -> list[bytes]:
    """The secrets that occur in any spelling."""
    return [secret for secret in secrets if any(needle in haystack for needle in spellings(secret))]
