"""Epochs: one secret, one profile and one place in time each; and the keys that derive from the secret.

TRUSTED side, pure. Payload keys and the token root are siblings under the epoch's secret, so that the token root can
be handed out (to audit workers) without any way to a payload. Durable names derive from a secret of the space, not of
the epoch: a durable subscription keeps one id through every rotation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any

from secroute import limits
from secroute.encoding.derivation import KeyHandle, derive
from secroute.encoding.profile import Profile
from secroute.errors import EpochError, InputError, KeyringDamagedError, KeyringError, LimitError, SecrouteError
from secroute.keyring.records import Record, blob
from secroute.opaque import Scope

TIME_S_MAX = 2**53
DURABLE_NAME_BYTES = 16
_TOKEN_KEYS_CACHED_MAX = 4_096


def _name_bytes(name: str, bytes_max: int, what: str) -> bytes:
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} is not valid Unicode text (it holds a lone surrogate)") from None
    if not 0 < len(data) <= bytes_max:
        raise LimitError(f"{what} has 1..{bytes_max} bytes, not {len(data)}")
    return data


class TokenKeys(KeyHandle):
    """Encodes messages and predicates of one epoch; opens nothing."""

    __slots__ = ("_cache", "_place", "_root", "profile", "scope")

    def __init__(self, scope: Scope, profile: Profile, token_root: bytes) -> None:
        if scope.profile != profile.digest:
            raise KeyringError("the scope names another profile than the one given")
        if len(token_root) != limits.KEY_BYTES:
            raise KeyringError(f"a token root has {limits.KEY_BYTES} bytes, not {len(token_root)}")
        self.scope = scope
        self.profile = profile
        self._root = token_root
        self._place = (scope.space, scope.epoch.to_bytes(4, "big"))
        self._cache: dict[str, bytes] = {}

    def token_key(self, attribute: str) -> bytes:
        """The key of one attribute's tokens in this space and epoch."""
        key = self._cache.get(attribute)
        if key is None:
            name = _name_bytes(attribute, limits.NAME_BYTES_MAX, "an attribute name")
            key = derive(self._root, "token", *self._place, name)
            if len(self._cache) < _TOKEN_KEYS_CACHED_MAX:
                self._cache[attribute] = key
        return key

    def hardening_key(self) -> bytes:
        """The key of the PRF that hardening draws from."""
        return derive(self._root, "hardening", *self._place)

    def export_token_root(self) -> bytes:
        """The 32 bytes behind every token key. A secret: for a 0600 file, see ``save_token_keys``."""
        return self._root

    def __repr__(self) -> str:
        return f"<{type(self).__name__} space={self.scope.space.hex()} epoch={self.scope.epoch}>"


class EpochKeys(KeyHandle):
    """All keys of one epoch of a space."""

    __slots__ = ("_durable_secret", "_secret", "_tokens", "activates_s", "number", "overlap_s", "profile", "scope")

    def __init__(
        self,
        space: bytes,
        number: int,
        profile: Profile,
        *,
        secret: bytes,
        durable_secret: bytes,
        activates_s: int = 0,
        overlap_s: int = 0,
    ) -> None:
        if len(secret) != limits.KEY_BYTES or len(durable_secret) != limits.KEY_BYTES:
            raise KeyringError(f"an epoch's secrets have {limits.KEY_BYTES} bytes each")
        if not 0 <= activates_s <= TIME_S_MAX or not 0 <= overlap_s <= limits.OVERLAP_S_MAX:
            raise KeyringError(f"activation or overlap is out of range (overlap at most {limits.OVERLAP_S_MAX} s)")
        if len(profile.to_bytes()) > limits.PROFILE_BYTES_MAX:
            raise LimitError(f"a profile has at most {limits.PROFILE_BYTES_MAX} bytes in canonical form")
        self.scope = Scope(space, number, profile.digest)
        self.number = number
        self.profile = profile
        self.activates_s = activates_s
        self.overlap_s = overlap_s
        self._secret = secret
        self._durable_secret = durable_secret
        place = (space, number.to_bytes(4, "big"))
        self._tokens = TokenKeys(self.scope, profile, derive(secret, "token-root", *place))

    def token_key(self, attribute: str) -> bytes:
        """The key of one attribute's tokens in this space and epoch."""
        return self._tokens.token_key(attribute)

    def hardening_key(self) -> bytes:
        """The key of the PRF that hardening draws from."""
        return self._tokens.hardening_key()

    def payload_key(self) -> bytes:
        """The key that payload sealing derives its session keys from."""
        return derive(self._secret, "payload", self.scope.space, self.number.to_bytes(4, "big"))

    def durable_name(self, name: str) -> bytes:
        """The opaque 16-byte id of a durable subscription's name, the same in every epoch of the space."""
        data = _name_bytes(name, limits.KEY_NAME_BYTES_MAX, "a durable subscription's name")
        return derive(self._durable_secret, "durable-name", self.scope.space, data, length=DURABLE_NAME_BYTES)

    def token_only(self) -> TokenKeys:
        """A handle that encodes but cannot open payloads, nor lead to a key that can."""
        return self._tokens

    def same_as(self, other: EpochKeys) -> bool:
        """Whether both are the same epoch in every part."""
        return self._facts() == other._facts() and compare_digest(self._secret, other._secret)

    def _facts(self) -> tuple[object, ...]:
        return self.scope, self.activates_s, self.overlap_s

    def to_record(self) -> dict[str, Any]:
        """For key files and sealed grants only: this shows the secret."""
        return {
            "number": self.number,
            "activates_s": self.activates_s,
            "overlap_s": self.overlap_s,
            "profile": blob(self.profile.to_bytes()),
            "secret": blob(self._secret),
        }

    @classmethod
    def from_record(cls, record: Record, space: bytes, durable_secret: bytes) -> EpochKeys:
        """The epoch of a key file or grant."""
        number = record.number("number", 0, limits.EPOCH_MAX)
        try:
            profile = Profile.from_bytes(record.blob("profile", bytes_max=limits.PROFILE_BYTES_MAX))
        except KeyringError:
            raise
        except SecrouteError as error:
            raise KeyringDamagedError(f"epoch {number}: its profile cannot be used: {error}") from None
        epoch = cls(
            space,
            number,
            profile,
            secret=record.blob("secret", limits.KEY_BYTES),
            durable_secret=durable_secret,
            activates_s=record.number("activates_s", 0, TIME_S_MAX),
            overlap_s=record.number("overlap_s", 0, limits.OVERLAP_S_MAX),
        )
        record.done()
        return epoch

    def __repr__(self) -> str:
        return f"<EpochKeys space={self.scope.space.hex()} epoch={self.number}>"


@dataclass(frozen=True, slots=True)
class Window:
    """When subscribers hold an epoch's filters; publishers switch at ``activates_s``. ``end_s`` None: still open."""

    start_s: int
    activates_s: int
    end_s: int | None


class Timeline(KeyHandle):
    """The epochs of a space in order of their numbers, and which of them serve at a given time.

    The overlap lies on both sides of a switch: subscribers take up the new epoch that long before publishers use it
    and keep the old one that long after, so that neither clocks nor slow grants make anyone deaf.
    """

    __slots__ = ("_epochs",)

    def __init__(self, epochs: Iterable[EpochKeys]) -> None:
        self._epochs = {epoch.number: epoch for epoch in sorted(epochs, key=lambda epoch: epoch.number)}

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def epochs(self) -> tuple[EpochKeys, ...]:
        """All epochs, oldest first."""
        return tuple(self._epochs.values())

    def epoch(self, number: int) -> EpochKeys:
        """One epoch, whether or not its time has come or gone (received payloads are opened with it)."""
        if number not in self._epochs:
            raise EpochError(f"the keyring holds no epoch {number}; it holds {_numbers(self._epochs)}")
        return self._epochs[number]

    def window(self, number: int) -> Window:
        """When the epoch serves."""
        epoch = self.epoch(number)
        later = [other for other in self.epochs if other.number > number]
        end = max(later[0].activates_s, epoch.activates_s) + later[0].overlap_s if later else None
        return Window(max(0, epoch.activates_s - epoch.overlap_s), epoch.activates_s, end)

    def publishing(self, now: float) -> EpochKeys:
        """The epoch that publishers use at ``now``: the newest whose activation has come."""
        ready = [epoch for epoch in self.epochs if epoch.activates_s <= now]
        if not ready:
            raise EpochError("no epoch is active yet" if self._epochs else "the keyring holds no epoch; accept a grant")
        return ready[-1]

    def subscribing(self, now: float) -> tuple[EpochKeys, ...]:
        """The epochs that subscribers hold filters under at ``now``, oldest first."""
        active = [epoch for epoch in self.epochs if self._serves(epoch, now)]
        if not active:
            raise EpochError("no epoch is active yet" if self._epochs else "the keyring holds no epoch; accept a grant")
        return tuple(active)

    def ended(self, now: float) -> tuple[EpochKeys, ...]:
        """Epochs whose window is over: their keys may go once everything under them is drained."""
        ends = ((epoch, self.window(epoch.number).end_s) for epoch in self.epochs)
        return tuple(epoch for epoch, end in ends if end is not None and end <= now)

    def _serves(self, epoch: EpochKeys, now: float) -> bool:
        window = self.window(epoch.number)
        return window.start_s <= now and (window.end_s is None or now < window.end_s)


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
