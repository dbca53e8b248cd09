"""One forwarding table per scope, and which profile each (space, epoch) is pinned to. UNTRUSTED side.

The first batch or filter of an epoch pins its profile digest and width unless the configuration names the digest;
anything else in that epoch is refused, because two sides with different profiles would miss each other silently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from secroute.engine import LiveTable
from secroute.errors import ProfileMismatchError, QuotaError
from secroute.opaque import Scope


@dataclass(slots=True)
class ScopeTable:
    """The table of one scope, and when it was last of use."""

    scope: Scope
    words: int
    table: LiveTable
    by_config: bool
    used: float
    messages: int = 0


class ScopeTables:
    """All tables of a node. Lookups come from the event loop, builds and updates from its control thread."""

    def __init__(self, engine: str, on_pin: Callable[[Scope, int], None], tables_max: int) -> None:
        """``on_pin`` is told of every new pin, before anything is accepted under it."""
        self._engine = engine
        self.tables_max = tables_max
        self._on_pin = on_pin
        self._lock = threading.Lock()
        self._tables: dict[tuple[bytes, int], ScopeTable] = {}
        self._fixed: dict[tuple[bytes, int], Scope] = {}

    def fix(self, scopes: Iterable[Scope]) -> None:
        """Profiles that the configuration names."""
        self._fixed = {(scope.space, scope.epoch): scope for scope in scopes}

    def restore(self, scope: Scope, words: int, now: float) -> ScopeTable:
        """A pin or subscription read back from the store."""
        with self._lock:
            return self._make(scope, words, now)

    def find(self, scope: Scope, words: int) -> ScopeTable | None:
        """The table of a scope if it exists; raises on another profile or width than the pinned one."""
        known = self._tables.get((scope.space, scope.epoch))
        fixed = self._fixed.get((scope.space, scope.epoch))
        if fixed is not None:
            fixed.require(scope)
        if known is None:
            return None
        known.scope.require(scope)
        if words != known.words:
            where = f"space {scope.space.hex()[:16]} epoch {scope.epoch}"
            raise ProfileMismatchError(f"rows are {words} words wide, those of {where} are {known.words}")
        return known

    def get(self, scope: Scope, words: int, now: float) -> ScopeTable:
        """The table of a scope, made (and its profile pinned) at the first use of the epoch. May block."""
        with self._lock:
            known = self.find(scope, words)
            if known is None:
                if len(self._tables) >= self.tables_max:
                    raise QuotaError(f"{len(self._tables)} epochs of spaces are in use here; no more are allowed")
                self._on_pin(scope, words)
                known = self._make(scope, words, now)
        known.used = now
        return known

    def _make(self, scope: Scope, words: int, now: float) -> ScopeTable:
        key = (scope.space, scope.epoch)
        if key not in self._tables:
            table = LiveTable(words, engine=self._engine, match_all=True)
            self._tables[key] = ScopeTable(scope, words, table, key in self._fixed, now)
        return self._tables[key]

    def idle(self, now: float, idle_s: float) -> list[ScopeTable]:
        """Tables without filters that nobody has used for a while."""
        tables = list(self._tables.values())
        return [t for t in tables if now - t.used > idle_s and not t.table.stats().interfaces]

    def drop(self, table: ScopeTable) -> None:
        """Forget an epoch."""
        with self._lock:
            if self._tables.pop((table.scope.space, table.scope.epoch), None) is not None:
                table.table.close()

    def all(self) -> list[ScopeTable]:
        """Every table."""
        return list(self._tables.values())

    def close(self) -> None:
        """Close every table."""
        for table in self.all():
            self.drop(table)
