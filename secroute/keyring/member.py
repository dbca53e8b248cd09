"""A member's keyring: an identity, the pinned owner, and the epochs that its grants brought.

TRUSTED side. It starts as an identity alone; the first accepted grant ties it to one space and one owner for good.
"""

from __future__ import annotations

import os
from hmac import compare_digest
from typing import Any, Self

from secroute import limits
from secroute.errors import GrantError, GrantExpiredError, GrantSignatureError, KeyringDamagedError
from secroute.keyring.epochs import TIME_S_MAX, Timeline
from secroute.keyring.grants import OpenedGrant, open_grant
from secroute.keyring.identity import Identity, RandomBytes
from secroute.keyring.keyring import Keyring, read_timeline
from secroute.keyring.records import Record, blob


class MemberKeyring(Keyring):
    """What one member holds of one space."""

    kind = "member"

    def __init__(self, identity: Identity) -> None:
        super().__init__()
        self.identity = identity
        self.space = b""
        self.name = ""
        self.owner = b""
        """The owner's public key, pinned at the first accept."""
        self.sequence = 0
        self.not_after_s = 0
        self.timeline = Timeline(())
        self._durable_secret = b""

    @classmethod
    def new(cls, *, random_bytes: RandomBytes = os.urandom) -> Self:
        """A fresh identity without a grant."""
        return cls(Identity.new(random_bytes=random_bytes))

    def require_valid(self, now: float) -> None:
        """Raise once the last accepted grant has run out: an owner who stopped granting must not be ignored."""
        if self.owner and now >= self.not_after_s:
            raise GrantExpiredError("the last accepted grant has expired; ask the owner for a new one")

    def accept(self, grant: bytes, *, now: float, owner: bytes | None = None) -> OpenedGrant:
        """Take in a grant; ``owner``: the owner's key as known from another channel (else the first one is pinned)."""
        if owner is not None and self.owner and not compare_digest(owner, self.owner):
            raise GrantSignatureError(f"this keyring has pinned another owner, {self.owner.hex()[:16]}")
        opened = open_grant(
            grant, self.identity, now=now, pinned_owner=self.owner or owner, last_sequence=self.sequence
        )
        if self.space and not compare_digest(opened.header.space, self.space):
            raise GrantError(
                f"this keyring serves space {self.space.hex()}, the grant is for {opened.header.space.hex()}; "
                "make another identity for another space"
            )
        if self._durable_secret and not compare_digest(self._durable_secret, opened.durable_secret):
            raise GrantError("the grant changes the space's durable-name secret; that never happens in one space")
        merged = {epoch.number: epoch for epoch in self.timeline.epochs}
        for epoch in opened.epochs:
            if epoch.number in merged and not merged[epoch.number].same_as(epoch):
                raise GrantError(
                    f"epoch {epoch.number} is known with other keys, profile or times; an epoch never changes "
                    "(was the owner's keyring restored from an old backup?)"
                )
            merged[epoch.number] = epoch
        if len(merged) > limits.KEYRING_EPOCHS_MAX:
            raise GrantError(f"a keyring holds at most {limits.KEYRING_EPOCHS_MAX} epochs; forget ended ones")
        header = opened.header
        self.space, self.name, self.owner = header.space, opened.name, header.owner
        self.sequence, self.not_after_s = header.sequence, header.not_after_s
        self._durable_secret = opened.durable_secret
        self.timeline = Timeline(merged.values())
        return opened

    def to_record(self) -> dict[str, Any]:
        """For key files only: this shows every secret."""
        record: dict[str, Any] = {"identity": self.identity.to_record(), "membership": None}
        if self.owner:
            record["membership"] = {
                "space": blob(self.space),
                "name": self.name,
                "owner": blob(self.owner),
                "durable_secret": blob(self._durable_secret),
                "sequence": self.sequence,
                "not_after_s": self.not_after_s,
                "epochs": [epoch.to_record() for epoch in self.timeline.epochs],
            }
        return record

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The keyring of a key file."""
        keyring = cls(Identity.from_record(record.needed("identity")))
        membership = record.record("membership")
        record.done()
        if membership is not None:
            keyring.space = membership.blob("space", limits.SPACE_ID_BYTES)
            keyring.name = membership.text("name", limits.KEY_NAME_BYTES_MAX)
            keyring.owner = membership.blob("owner", limits.KEY_BYTES)
            keyring._durable_secret = membership.blob("durable_secret", limits.KEY_BYTES)
            keyring.sequence = membership.number("sequence", 1, TIME_S_MAX)
            keyring.not_after_s = membership.number("not_after_s", 0, TIME_S_MAX)
            keyring.timeline = read_timeline(membership, keyring.space, keyring._durable_secret)
            membership.done()
            if not len(keyring.timeline):
                raise KeyringDamagedError("keyring: a membership without an epoch")
        return keyring
