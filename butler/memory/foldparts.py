"""The parts of a fold: thresholds, the model call, what is handed over, back-off and counts (C3, C4)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from butler.memory.checks import Reason
from butler.types import ChatMessage, Json

BACK_OFF_SECONDS = 60.0
LONGEST_BACK_OFF_SECONDS = 3600.0


class Completer(Protocol):
    """The hidden model call that makes a summary, and where it is made."""

    @property
    def endpoint(self) -> str:
        """The address, to know which turns it may hold up."""

    async def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        purpose: Literal["compaction"],
        timeout: float,  # noqa: ASYNC109 - it bounds tries and waits as well
        max_tokens: int | None = None,
        schema: Json | None = None,
    ) -> str:
        """Give the model's whole answer, held to `schema` where the endpoint can; no token of it is ever shown."""


@dataclass(frozen=True)
class CompactionConfig:
    """Thresholds in tokens and messages; `recent_window` messages stay verbatim; `timeout` is in seconds.

    `request_tokens` bounds one request: what is longer is folded in several steps.
    """

    trigger_tokens: int
    trigger_messages: int
    recent_window: int
    timeout: float
    request_tokens: int = 32_768


@dataclass(frozen=True)
class Folded:
    """Notes, and the summary they make, that replace the oldest messages of a thread."""

    summary: str
    notes: list[Json]
    remaining: list[Json]
    at: str
    notice: str


@dataclass
class FoldCounts:
    """What became of the folds of this process; `refused` and `notes_left` are counted by reason."""

    folded: int = 0
    gave_way: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    notes_left: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        skipped = ", ".join(f"{count} {reason}" for reason, count in self.refused.most_common())
        parts = [f"{self.folded} folds done", f"{self.refused.total()} skipped" + (f" ({skipped})" if skipped else "")]
        return ", ".join(parts) + (f", {self.gave_way} put off for a turn" if self.gave_way else "")


@dataclass
class BackOff:
    """The failures of a thread's folds in a row; `cuts` are those where the answer was too long for its limit."""

    failures: int = 0
    until: float = 0.0
    reason: Reason = "error"
    cuts: int = 0

    def grow(self, reason: Reason) -> float:
        """One more failure; gives the seconds until the next try."""
        self.reason = reason
        self.cuts += reason == "cut"
        seconds = min(BACK_OFF_SECONDS * 2.0 ** min(self.failures, 10), LONGEST_BACK_OFF_SECONDS)
        self.failures += 1
        self.until = time.monotonic() + seconds
        return seconds
