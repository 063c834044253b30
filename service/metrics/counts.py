"""What this process has counted since it began. Plain numbers: counting costs next to nothing, asked for or not."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from butler.types import Json
from service.events import RunLog, RunLogs

TURN_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
TOKEN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass
class Histogram:
    """How many values were at most each bound, in seconds."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulated(self) -> list[tuple[str, float]]:
        """Pairs of bound and count, the last one without a bound."""
        names = [*(str(bound) for bound in self.bounds), "+Inf"]
        found, so_far = list[tuple[str, float]](), 0
        for name, count in zip(names, self.counts, strict=True):
            so_far += count
            found.append((name, so_far))
        return found


@dataclass
class Turns:
    """Turns as their event logs tell them. A turn that parks and goes on counts once for each stretch.

    `ended` is by status, `errors` and `tools` by code and by phase.
    """

    ended: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    usage: Counter[str] = field(default_factory=Counter)
    seconds: Histogram = field(default_factory=lambda: Histogram(TURN_SECONDS))
    first_token: Histogram = field(default_factory=lambda: Histogram(TOKEN_SECONDS))
    clock: Callable[[], float] = time.monotonic
    _began: dict[str, float] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)

    def listen(self, logs: RunLogs) -> None:
        """Hear the events of every run from here on, after whoever hears them already."""
        logs.taps.append(self.heard)

    def heard(self, log: RunLog, event: str, data: Json) -> None:
        """Count one event."""
        if event == "token":
            if log.run_id in self._silent:
                self._silent.discard(log.run_id)
                self.first_token.add(self.clock() - self._began[log.run_id])
        elif event == "run":
            self._began[log.run_id] = self.clock()
            self._silent.add(log.run_id)
        elif event == "tool":
            self.tools[str(data["phase"])] += 1
        elif event == "end":
            self._ended(log.run_id, data)

    def _ended(self, run_id: str, outcome: Json) -> None:
        self.ended[outcome["status"]] += 1
        self._silent.discard(run_id)
        if (began := self._began.pop(run_id, None)) is not None:
            self.seconds.add(self.clock() - began)
        if outcome["error"]:
            self.errors[outcome["error"]["code"]] += 1
        if outcome["status"] != "parked":
            # Usage adds up over the stretches of a turn, so it is taken at its end.
            self.usage.update(outcome["usage"])
