"""Files that hold token capability without payload capability, for audit workers.

TRUSTED side, I/O. The file carries the token root of one epoch and its profile: enough to encode, not to open.
"""

from __future__ import annotations

import os

from secroute import limits
from secroute.encoding.profile import Profile
from secroute.errors import KeyringDamagedError, KeyringError, SecrouteError
from secroute.keyring import files
from secroute.keyring.epochs import TokenKeys
from secroute.keyring.identity import RandomBytes
from secroute.keyring.records import blob
from secroute.opaque import Scope

_KIND = "tokens"


def save_token_keys(keys: TokenKeys, path: str | os.PathLike[str]) -> None:
    """Write a new 0600 file; an existing one is never touched."""
    body = {
        "space": blob(keys.scope.space),
        "epoch": keys.scope.epoch,
        "profile": blob(keys.profile.to_bytes()),
        "token_root": blob(keys.export_token_root()),
    }
    files.create(path, files.encode(files.key_file(_KIND, body, None)))


def load_token_keys(path: str | os.PathLike[str]) -> TokenKeys:
    """The token keys of such a file; a keyring is refused here, so that a worker cannot be handed too much."""
    file = files.read(path)
    if file.kind != _KIND:
        raise KeyringError(f"{path}: is a file of kind {file.kind!r}; token keys are wanted here, and nothing more")
    record = files.body_record(file, str(path))
    try:
        profile = Profile.from_bytes(record.blob("profile", bytes_max=limits.PROFILE_BYTES_MAX))
    except KeyringError:
        raise
    except SecrouteError as error:
        raise KeyringDamagedError(f"{path}: its profile cannot be used: {error}") from None
    scope = Scope(
        record.blob("space", limits.SPACE_ID_BYTES), record.number("epoch", 0, limits.EPOCH_MAX), profile.digest
    )
    keys = TokenKeys(scope, profile, record.blob("token_root", limits.KEY_BYTES))
    record.done()
    return keys


def throwaway_token_keys(profile: Profile, *, random_bytes: RandomBytes = os.urandom) -> TokenKeys:
    """Keys of no space, for one run: false positives do not depend on which key."""
    scope = Scope(random_bytes(limits.SPACE_ID_BYTES), 0, profile.digest)
    return TokenKeys(scope, profile, random_bytes(limits.KEY_BYTES))
