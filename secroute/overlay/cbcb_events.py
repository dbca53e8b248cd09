"""What CBCB routers hear, say and are told: plain values.

UNTRUSTED side, pure.
"""

from __future__ import annotations

from dataclasses import dataclass

Filter = int  # the bits of one encoded filter as a number: g covers f iff g & ~f == 0
Key = tuple[int, Filter]  # (origin, filter)


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A local receiver asks for a filter; the same filter may be asked for several times."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A local receiver gives a filter up."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Advertise:
    """Somebody at ``origin`` wants what this filter matches."""

    origin: int
    filter: Filter


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Nobody at ``origin`` asks for this filter any more."""

    origin: int
    filter: Filter


@dataclass(frozen=True, slots=True)
class Request:
    """A sender asks everybody in its tree what they want."""

    issuer: int
    number: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What the routers of the sender's tree behind this link want, by origin."""

    issuer: int
    number: int
    entries: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Unwanted:
    """Many of your messages match nothing here or behind me: your table for me is too wide."""


@dataclass(frozen=True, slots=True)
class Synced:
    """After a reset: everything that the sender has to say of its present state has been said."""


Message = Advertise | Withdraw | Request | Reply | Unwanted | Synced


@dataclass(frozen=True, slots=True)
class Heard:
    """A message from a neighbour."""

    neighbour: int
    message: Message


@dataclass(frozen=True, slots=True)
class Send:
    """A message for a neighbour."""

    neighbour: int
    message: Message


@dataclass(frozen=True, slots=True)
class Pull:
    """Ask everybody what they want, to make the tables narrow again."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The link to a neighbour is new: either side may have forgotten what was said over the old one."""

    neighbour: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message came over a link; whether anybody here or further on wanted it."""

    neighbour: int
    wanted: bool


Event = Subscribe | Unsubscribe | Heard | Pull | Reset | Arrived
