"""What every measure reports: a value, its interval, chance and the plaintext ceiling. TRUSTED side, pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured number."""

    measure: str
    value: float
    low: float
    high: float
    chance: float
    """What an attacker reaches, or what the measure shows, without looking."""
    ceiling: float
    """What the same measure shows if the router saw the plain text."""
    attribute: str = ""
    unit: str = "share"
    samples: int = 0

    @property
    def advantage(self) -> float:
        """How far from chance towards the ceiling: 0 none, 1 as good as plain text."""
        room = self.ceiling - self.chance
        return 0.0 if abs(room) < 1e-12 else min(1.0, max(0.0, (self.value - self.chance) / room))

    def row(self, **more: Any) -> dict[str, Any]:
        """A flat record for tables, of plain Python numbers."""
        numbers = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.type == "float"}
        return {**asdict(self), **numbers, "advantage": float(self.advantage), **more}
