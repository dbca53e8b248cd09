"""The client's view of its keyring: which epochs to publish and subscribe under now, and their encoders and keys.

TRUSTED. Encoders and sealers are made once per epoch. ``refresh`` picks up a changed keyring file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from secroute import limits
from secroute.client.options import Options
from secroute.content import Node, Value
from secroute.encoding.encoder import SEED_BYTES, Encoder
from secroute.encoding.seal import SALT_BYTES, Opened, Opener, Sealer
from secroute.errors import EpochError, ProfileMismatchError, SealError
from secroute.keyring import EpochKeys, Keyring
from secroute.opaque import EncodedBatch, EncodedFilters, Scope


class EpochBook:
    """Encodes, seals and opens under the right epoch."""

    def __init__(self, keyring: Keyring, options: Options, clock: Callable[[], float] = time.time) -> None:
        self._keyring = keyring
        self._options = options
        self._clock = clock
        self._encoders: dict[Scope, Encoder] = {}
        self._sealers: dict[Scope, Sealer] = {}
        self._opener = Opener(require_signature=options.require_signature, publishers=options.publishers)
        self._known: set[Scope] = set()

    def refresh(self) -> None:
        """Look at the keyring's file again."""
        self._keyring = self._keyring.reloaded()

    # --- publishing ---

    def seal(self, messages: Sequence[Mapping[str, Value]], bodies: Sequence[bytes]) -> EncodedBatch:
        """Encode and seal under the epoch that publishers use now."""
        keys = self._keyring.publishing(self._clock())
        encoder = self._encoder(keys)
        bits = encoder.encode_messages(messages, os.urandom(SEED_BYTES))
        noise = os.urandom(limits.MESSAGE_ID_BYTES * len(messages))
        step = limits.MESSAGE_ID_BYTES
        ids = [noise[at : at + step] for at in range(0, len(noise), step)]
        return EncodedBatch.of(keys.scope, bits, ids, self._sealer(keys).seal_batch(ids, bits, bodies))

    def _encoder(self, keys: EpochKeys) -> Encoder:
        encoder = self._encoders.get(keys.scope)
        if encoder is None:
            encoder = self._encoders[keys.scope] = Encoder(keys.profile, keys)
        return encoder

    def _sealer(self, keys: EpochKeys) -> Sealer:
        sealer = self._sealers.get(keys.scope)
        if sealer is None:
            identity = self._keyring.identity
            sealer = self._sealers[keys.scope] = Sealer(
                keys.payload_key(),
                keys.scope,
                publisher=identity.public.signing,
                salt=os.urandom(SALT_BYTES),
                signer=identity.sign if self._options.sign else None,
            )
        return sealer

    # --- subscribing ---

    def filters(self, predicate: Node, match_all: bool) -> tuple[EncodedFilters, ...]:
        """A predicate's filters under every epoch that subscribers hold now, oldest first."""
        epochs = self._keyring.subscribing(self._clock())[-limits.SUBSCRIBE_SCOPES_MAX :]
        return tuple(self._encoder(keys).encode_predicate(predicate, match_all=match_all) for keys in epochs)

    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that subscribers hold filters under now."""
        epochs = self._keyring.subscribing(self._clock())[-limits.SUBSCRIBE_SCOPES_MAX :]
        return tuple(keys.scope for keys in epochs)

    def ended(self, scope: Scope) -> bool:
        """Whether an epoch's window is over (not merely missing from the keyring)."""
        return scope in {keys.scope for keys in self._keyring.ended(self._clock())}

    def durable_name(self, name: str) -> bytes:
        """The opaque id of a durable subscription: the same in every epoch of the space."""
        return self._keyring.subscribing(self._clock())[-1].durable_name(name)

    # --- receiving ---

    def open(self, batch: EncodedBatch) -> list[Opened | SealError] | None:
        """Open a batch; None if the keyring does not hold its epoch."""
        if not self._knows(batch.scope):
            return None
        ids = [row.tobytes() for row in batch.ids]
        sealed = [batch.payload(row) for row in range(len(batch))]
        return self._opener.open_batch(batch.scope, ids, batch.bits, sealed)

    def _knows(self, scope: Scope) -> bool:
        if scope in self._known:
            return True
        try:
            keys = self._keyring.epoch(scope.epoch)
        except EpochError:
            self.refresh()
            try:
                keys = self._keyring.epoch(scope.epoch)
            except EpochError:
                return False
        if keys.scope != scope:
            raise ProfileMismatchError(f"a router sent messages of space {scope.space.hex()}, profile not ours")
        self._opener.add(scope, keys.payload_key())
        self._known.add(scope)
        return True
