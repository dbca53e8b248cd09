"""Small keyrings with fixed randomness and a clock that stands at NOW."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from secroute.encoding.profile import Profile
from secroute.keyring import MemberKeyring, OwnerKeyring

NOW = 1_800_000_000


def seeded(seed: str) -> Callable[[int], bytes]:
    """Random bytes that are the same in every run."""
    counter = iter(range(1 << 30))
    return lambda size: hashlib.shake_256(f"{seed}/{next(counter)}".encode()).digest(size)


@pytest.fixture
def owner() -> OwnerKeyring:
    """A space called flights."""
    return OwnerKeyring.new("flights", Profile.default(), now=NOW, random_bytes=seeded("owner"))


@pytest.fixture
def desk() -> MemberKeyring:
    """A member without a grant."""
    return MemberKeyring.new(random_bytes=seeded("desk"))
