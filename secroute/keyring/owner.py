"""The owner's keyring: makes the space, rotates its epochs, grants them to members and takes members out.

TRUSTED side. All changes are in memory; ``OwnerKeyring.edit`` puts them on disk in one step or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from secroute import limits
from secroute.encoding.profile import Profile
from secroute.errors import EpochError, GrantError, KeyringError
from secroute.keyring.epochs import TIME_S_MAX, EpochKeys, Timeline, Window
from secroute.keyring.grants import seal_grant
from secroute.keyring.identity import Identity, PublicIdentity, RandomBytes
from secroute.keyring.keyring import Keyring, read_timeline
from secroute.keyring.records import Record, blob, check_name

DEFAULT_OVERLAP_S = 3_600
DEFAULT_VALID_S = 90 * 86_400
CLOCK_SKEW_S = 300  # a grant is valid from a little before it was made


@dataclass(frozen=True, slots=True)
class Member:
    """One member as the owner knows it."""

    name: str
    identity: PublicIdentity
    granted: tuple[int, ...]
    """Every epoch this member was ever given; it keeps those keys whatever happens later."""
    sequence: int
    granted_s: int
    revoked_s: int | None = None


@dataclass(frozen=True, slots=True)
class Revocation:
    """What a revocation did, and what it cannot undo."""

    epoch: EpochKeys
    """The first epoch that the revoked members do not hold."""
    exposed: dict[str, tuple[tuple[int, Window | None], ...]]
    """By revoked member: the epochs it was ever given, with the times they serve (None: the owner has forgotten)."""
    grants: dict[str, bytes] = field(repr=False)
    """New grants for the remaining members, by name."""


class OwnerKeyring(Keyring):
    """A space in its owner's hands."""

    kind = "owner"

    def __init__(
        self,
        space: bytes,
        name: str,
        *,
        owner_key: bytes,
        durable_secret: bytes,
        identity: Identity,
        timeline: Timeline,
        members: dict[str, Member],
        sequence: int,
    ) -> None:
        super().__init__()
        self.space = space
        self.name = name
        self.identity = identity
        self.timeline = timeline
        self.members = members
        self.sequence = sequence
        self._owner_key = Ed25519PrivateKey.from_private_bytes(owner_key)
        self._durable_secret = durable_secret

    @classmethod
    def new(
        cls,
        name: str,
        profile: Profile,
        *,
        now: float,
        overlap_s: int = DEFAULT_OVERLAP_S,
        random_bytes: RandomBytes = os.urandom,
    ) -> Self:
        """A fresh space whose epoch 1 is active at once."""
        keyring = cls(
            random_bytes(limits.SPACE_ID_BYTES),
            check_name(name, "a space's name"),
            owner_key=random_bytes(limits.KEY_BYTES),
            durable_secret=random_bytes(limits.KEY_BYTES),
            identity=Identity.new(random_bytes=random_bytes),
            timeline=Timeline(()),
            members={},
            sequence=0,
        )
        keyring._add_epoch(1, profile, int(now), overlap_s, random_bytes)
        return keyring

    @property
    def owner(self) -> bytes:
        """The owner's public key, which members pin and can compare by another channel."""
        return self._owner_key.public_key().public_bytes_raw()

    def require_valid(self, now: float) -> None:
        """An owner's keys do not expire."""

    def scheduled(self, now: float) -> tuple[EpochKeys, ...]:
        """Epochs that publishers do not use yet."""
        return tuple(epoch for epoch in self.timeline.epochs if epoch.activates_s > now)

    def rotate(
        self,
        *,
        now: float,
        activates_s: int,
        overlap_s: int = DEFAULT_OVERLAP_S,
        profile: Profile | None = None,
        number: int | None = None,
        random_bytes: RandomBytes = os.urandom,
    ) -> EpochKeys:
        """Schedule the next epoch (with the last one's profile unless another is given)."""
        waiting = self.scheduled(now)
        if waiting:
            raise EpochError(f"epoch {waiting[0].number} is already scheduled; rotate again once it is active")
        return self._next_epoch(now, activates_s, overlap_s, profile, number, random_bytes)

    def grant(
        self, member: str, identity: PublicIdentity | None = None, *, now: float, valid_s: int = DEFAULT_VALID_S
    ) -> bytes:
        """A grant of the current and later epochs; a new member needs its identity, a known one may leave it out."""
        check_name(member, "a member's name")
        if valid_s <= 0 or not 0 <= now <= TIME_S_MAX:
            raise GrantError("a grant is valid for some time from now on")
        known = self.members.get(member)
        if known is not None and known.revoked_s is not None and identity is None:
            raise GrantError(f"{member!r} was revoked; give its identity to take it in again")
        if known is not None and known.revoked_s is None and identity not in (None, known.identity):
            raise GrantError(f"{member!r} is registered with another identity; revoke it first")
        if identity is None:
            if known is None:
                raise GrantError(f"no member {member!r}; give its identity")
            identity = known.identity
        self._refuse_twin(member, identity)
        if known is None and len(self.members) >= limits.KEYRING_MEMBERS_MAX:
            raise KeyringError(f"a space has at most {limits.KEYRING_MEMBERS_MAX} members")
        current = self.timeline.publishing(now)
        later = [epoch for epoch in self.timeline.epochs if epoch.number > current.number]
        epochs = (current, *later[1 - limits.GRANT_EPOCHS_MAX :])
        # Going with the clock keeps the sequence rising even after an old backup was restored.
        self.sequence = max(self.sequence + 1, int(now))
        data = seal_grant(
            self._owner_key,
            identity,
            epochs,
            name=self.name,
            durable_secret=self._durable_secret,
            sequence=self.sequence,
            not_before_s=max(0, int(now) - CLOCK_SKEW_S),
            not_after_s=min(int(now) + valid_s, TIME_S_MAX),
        )
        held = sorted(set(known.granted if known is not None else ()) | {epoch.number for epoch in epochs})
        # As many as a file takes; what is forgotten here was granted thousands of epochs ago.
        recent = tuple(held[-limits.KEYRING_EPOCHS_MAX :])
        self.members[member] = Member(member, identity, recent, self.sequence, int(now))
        return data

    def grant_all(self, *, now: float, valid_s: int = DEFAULT_VALID_S) -> dict[str, bytes]:
        """New grants for every member that is not revoked."""
        names = [member.name for member in self.members.values() if member.revoked_s is None]
        return {name: self.grant(name, now=now, valid_s=valid_s) for name in sorted(names)}

    def revoke(
        self,
        members: Sequence[str],
        *,
        now: float,
        activates_s: int,
        overlap_s: int = DEFAULT_OVERLAP_S,
        valid_s: int = DEFAULT_VALID_S,
        random_bytes: RandomBytes = os.urandom,
    ) -> Revocation:
        """Take members out: rotate, and grant the new epoch to everybody else."""
        leaving = [self._member(name) for name in dict.fromkeys(members)]
        if not leaving:
            raise GrantError("nobody to revoke")
        # They may hold an epoch that is only scheduled: the new one must be in use before that would be.
        activates_s = min([activates_s, *(epoch.activates_s for epoch in self.scheduled(now))])
        epoch = self._next_epoch(now, activates_s, overlap_s, None, None, random_bytes)
        for member in leaving:
            self.members[member.name] = replace(member, revoked_s=int(now))
        held = {old.number for old in self.timeline.epochs}
        exposed = {
            member.name: tuple((number, self.window(number) if number in held else None) for number in member.granted)
            for member in leaving
        }
        return Revocation(epoch, exposed, self.grant_all(now=now, valid_s=valid_s))

    def _member(self, name: str) -> Member:
        member = self.members.get(name)
        if member is None:
            raise GrantError(f"no member {name!r}")
        if member.revoked_s is not None:
            raise GrantError(f"{name!r} was already revoked")
        return member

    def _next_epoch(
        self,
        now: float,
        activates_s: int,
        overlap_s: int,
        profile: Profile | None,
        number: int | None,
        random_bytes: RandomBytes,
    ) -> EpochKeys:
        last = self.timeline.epochs[-1]
        number = last.number + 1 if number is None else number
        if number <= last.number:
            raise EpochError(f"epoch {number} is not above {last.number}, the last one")
        if activates_s < int(now):
            raise EpochError("an epoch cannot be activated in the past: publishers would have to have known it")
        return self._add_epoch(number, profile or last.profile, activates_s, overlap_s, random_bytes)

    def _add_epoch(
        self, number: int, profile: Profile, activates_s: int, overlap_s: int, random_bytes: RandomBytes
    ) -> EpochKeys:
        if len(self.timeline) >= limits.KEYRING_EPOCHS_MAX:
            raise EpochError(f"a keyring holds at most {limits.KEYRING_EPOCHS_MAX} epochs; forget ended ones")
        epoch = EpochKeys(
            self.space,
            number,
            profile,
            secret=random_bytes(limits.KEY_BYTES),
            durable_secret=self._durable_secret,
            activates_s=activates_s,
            overlap_s=overlap_s,
        )
        self.timeline = Timeline((*self.timeline.epochs, epoch))
        return epoch

    def _refuse_twin(self, member: str, identity: PublicIdentity) -> None:
        for other in self.members.values():
            if other.name != member and other.identity == identity and other.revoked_s is None:
                raise GrantError(f"this identity is already a member, as {other.name!r}")

    def to_record(self) -> dict[str, Any]:
        """For key files only: this shows every secret."""
        return {
            "space": blob(self.space),
            "name": self.name,
            "owner_key": blob(self._owner_key.private_bytes_raw()),
            "durable_secret": blob(self._durable_secret),
            "identity": self.identity.to_record(),
            "epochs": [epoch.to_record() for epoch in self.timeline.epochs],
            "members": [_member_record(member) for member in self.members.values()],
            "sequence": self.sequence,
        }

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The keyring of a key file."""
        space = record.blob("space", limits.SPACE_ID_BYTES)
        durable_secret = record.blob("durable_secret", limits.KEY_BYTES)
        members = [_read_member(entry) for entry in record.records("members", limits.KEYRING_MEMBERS_MAX)]
        keyring = cls(
            space,
            record.text("name", limits.KEY_NAME_BYTES_MAX),
            owner_key=record.blob("owner_key", limits.KEY_BYTES),
            durable_secret=durable_secret,
            identity=Identity.from_record(record.needed("identity")),
            timeline=read_timeline(record, space, durable_secret),
            members={member.name: member for member in members},
            sequence=record.number("sequence", 0, TIME_S_MAX),
        )
        record.done()
        return keyring


def _member_record(member: Member) -> dict[str, Any]:
    return {
        "name": member.name,
        "identity": str(member.identity),
        "granted": [{"number": number} for number in member.granted],
        "sequence": member.sequence,
        "granted_s": member.granted_s,
        "revoked_s": member.revoked_s,
    }


def _read_member(record: Record) -> Member:
    member = Member(
        name=record.text("name", limits.KEY_NAME_BYTES_MAX),
        identity=PublicIdentity.parse(record.text("identity", limits.KEY_NAME_BYTES_MAX)),
        granted=tuple(
            entry.number("number", 0, limits.EPOCH_MAX)
            for entry in record.records("granted", limits.KEYRING_EPOCHS_MAX)
        ),
        sequence=record.number("sequence", 0, TIME_S_MAX),
        granted_s=record.number("granted_s", 0, TIME_S_MAX),
        revoked_s=record.maybe_number("revoked_s", 0, TIME_S_MAX),
    )
    record.done()
    return member
