"""A clock that only a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Self
from unittest.mock import patch


class MovingClock:
    """Stands in for `butler.clock.now` while it is entered; each look is a microsecond later than the last."""

    def __init__(self, start: datetime = datetime(2031, 5, 4, 12, tzinfo=UTC)) -> None:
        self.moment = start
        self._patches = [patch(f"{module}.now", self.look) for module in ("butler.clock", "butler.approvals.actions")]

    def look(self) -> datetime:
        """What `now()` gives."""
        self.moment += timedelta(microseconds=1)
        return self.moment

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.moment += timedelta(seconds=seconds)

    def __enter__(self) -> Self:
        for one in self._patches:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._patches:
            one.stop()
