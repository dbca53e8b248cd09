"""Replay check by (publisher, sequence), in bounded memory.

TRUSTED side, pure. A publisher's runs count from zero each, so a stream is (publisher, session). Late and reordered
messages are fine within a window; only members can start sessions, so a router cannot push streams out.
"""

from __future__ import annotations

from collections import OrderedDict

from secroute import limits
from secroute.encoding.seal import Opened
from secroute.errors import ReplayError, ReplayWindowError


class ReplayGuard:
    """Remembers which sequence numbers came: exactly, for the newest ``window`` numbers of the newest streams."""

    def __init__(
        self, window: int = limits.REPLAY_WINDOW_MESSAGES, sessions_max: int = limits.REPLAY_SESSIONS_MAX
    ) -> None:
        self._window = window
        self._sessions_max = sessions_max
        self._all = (1 << window) - 1
        # stream -> (newest number, bit i set: number newest - i came)
        self._streams: OrderedDict[tuple[bytes, bytes], tuple[int, int]] = OrderedDict()
        self.forgotten = 0
        """Streams dropped to stay within ``sessions_max``; a replay of one of them would pass."""

    def __len__(self) -> int:
        return len(self._streams)

    def admit(self, opened: Opened) -> None:
        """Record a message that opened, or raise if it came before (or is too old to tell)."""
        stream = (opened.publisher, opened.session)
        newest, seen = self._streams.get(stream, (-1, 0))
        ahead = opened.sequence - newest
        if ahead > 0:
            seen = ((seen << ahead) & self._all | 1) if ahead < self._window else 1
            newest = opened.sequence
        elif -ahead >= self._window:
            raise ReplayWindowError(
                f"message {opened.sequence} of publisher {opened.publisher.hex()[:16]} is {-ahead} behind the newest; "
                f"the replay window is {self._window}"
            )
        elif seen >> -ahead & 1:
            raise ReplayError(f"message {opened.sequence} of publisher {opened.publisher.hex()[:16]} came before")
        else:
            seen |= 1 << -ahead
        self._streams[stream] = (newest, seen)
        self._streams.move_to_end(stream)
        if len(self._streams) > self._sessions_max:
            self._streams.popitem(last=False)
            self.forgotten += 1
