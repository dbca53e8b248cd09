"""Keys for Spark workers: a 0600 file that holds token keys alone, found by its path, read once in each process.

TRUSTED side. A key in a closure or a broadcast ends in clear text in Spark's local directories and event log, so the
only thing that travels is the path. The file of a run is made in a private directory and removed when the run ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from secroute.encoding.encoder import Encoder
from secroute.encoding.profile import Profile
from secroute.keyring import Keyring, Passphrase, TokenKeys, load_token_keys, save_token_keys, throwaway_token_keys
from secroute.opaque import Scope

_PREFIX = "secroute-audit-keys-"
_YOUNG_S = 60.0  # a folder this young may be one that its run has not locked yet


@contextmanager
def worker_key_file(keys: TokenKeys) -> Iterator[str]:
    """A private file with the token keys, for workers on this host; it is gone afterwards.

    A run that is killed outright cannot clean up: its folder is then no longer locked, and the next run removes it.
    """
    remove_stale()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mkdtemp makes it 0700
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        path = folder / "tokens.key"
        save_token_keys(keys, path)
        yield str(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def remove_stale() -> None:
    """Remove the key folders of this user that no living run holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            about = folder.lstat()
            if about.st_uid != os.getuid() or time.time() - about.st_mtime < _YOUNG_S:
                continue
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # gone meanwhile, or no folder
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:  # in use
            pass
        finally:
            os.close(held)


def run_keys(profile: Profile, keyring: str | None, epoch: int | None, passphrase: Passphrase = None) -> TokenKeys:
    """The token keys of a keyring's epoch, or throw-away ones: false positives do not depend on which key."""
    if keyring is None:
        return throwaway_token_keys(profile)
    ring = Keyring.load(keyring, passphrase)
    if epoch is None:
        return ring.publishing(time.time()).token_only()
    return ring.epoch(epoch).token_only()


@lru_cache(maxsize=8)
def token_keys(key_path: str, profile: bytes) -> TokenKeys:
    """In a worker: the keys of a file. ``profile`` may differ from the file's (sweeps, hardening variants)."""
    keys = load_token_keys(key_path)
    wanted = Profile.from_bytes(profile)
    if wanted.digest == keys.profile.digest:
        return keys
    scope = Scope(keys.scope.space, keys.scope.epoch, wanted.digest)
    return TokenKeys(scope, wanted, keys.export_token_root())


@lru_cache(maxsize=8)
def encoder(key_path: str, profile: bytes) -> Encoder:
    """In a worker: the encoder of a key file."""
    keys = token_keys(key_path, profile)
    return Encoder(keys.profile, keys)
