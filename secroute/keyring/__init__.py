"""Keys of the trusted side: spaces, epochs, grants, identities, their files, and development certificates.

TRUSTED side. A client needs ``Keyring.load(path)`` and the ``EpochKeys`` it gives; the rest is for owners and tools.
"""

from secroute.keyring.epochs import EpochKeys, Timeline, TokenKeys, Window
from secroute.keyring.files import Passphrase
from secroute.keyring.grants import GrantHeader, OpenedGrant
from secroute.keyring.identity import Identity, PublicIdentity
from secroute.keyring.keyring import Keyring
from secroute.keyring.member import MemberKeyring
from secroute.keyring.owner import Member, OwnerKeyring, Revocation
from secroute.keyring.tokens import load_token_keys, save_token_keys, throwaway_token_keys

__all__ = [
    "EpochKeys",
    "GrantHeader",
    "Identity",
    "Keyring",
    "Member",
    "MemberKeyring",
    "OpenedGrant",
    "OwnerKeyring",
    "Passphrase",
    "PublicIdentity",
    "Revocation",
    "Timeline",
    "TokenKeys",
    "Window",
    "load_token_keys",
    "save_token_keys",
    "throwaway_token_keys",
]
