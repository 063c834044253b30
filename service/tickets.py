"""What a caller holds after a request was taken in: an outcome at once, or a run to wait for or to follow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from butler.types import Json
from service.events import RunLog


class Noted(Protocol):
    """Keeps which run answers a message, in the transaction that takes it in."""

    def __call__(self, connection: Connection, /, *, thread_id: str, run_id: str) -> None: ...


def not_noted(_connection: Connection, /, *, thread_id: str, run_id: str) -> None:
    """Most faces know their messages by the thread."""


@dataclass(frozen=True)
class Ticket:
    """`settled` is the outcome when there is nothing to wait for; else `log` from `position` on tells the rest."""

    thread_id: str
    run_id: str
    log: RunLog
    position: int
    settled: Json | None = None

    @classmethod
    def of_outcome(cls, outcome: Json) -> Ticket:
        """A ticket whose answer is there already; followed as a stream it tells the same."""
        log = RunLog(outcome["run_id"])
        log.begin(outcome["thread_id"])
        for approval in outcome["approvals"]:
            log.emit("approval", approval)
        if outcome["reply"]:
            log.emit("token", {"text": outcome["reply"]})
        log.end(outcome)
        return cls(outcome["thread_id"], outcome["run_id"], log, 0, outcome)

    async def outcome(self) -> Json | None:
        """Wait until the turn ends or parks; None when the server stops before that."""
        return self.settled if self.settled is not None else await self.log.ended(self.position)

    def follow(self) -> AsyncIterator[bytes]:
        """The events from here to the end."""
        return self.log.follow(self.position)
