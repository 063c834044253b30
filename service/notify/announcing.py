"""Finding out whom to tell of what.

Approval requests are found by looking, not queued on the turn's way: what waits for a decision stands in the ledger
until it is decided, so a crash can't lose it and a turn pays nothing. Of a finished reply nothing says later that
nobody was told, so its rows are added in the commit that ends the run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Connection

from butler.approvals.actions import Action
from butler.clock import stamp
from butler.people import Principal
from butler.storage.conversations import Run
from butler.storage.database import Database
from butler.storage.users import active_people
from butler.types import Json
from service.notify import queue
from service.notify.channels import Channels

PAGE = 500
ESCALATIONS_SECONDS = 5.0
AROUND_SECONDS = 60.0


class Replies:
    """Queues the reply of a run for its requester, inside the commit that ends the run."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._users = frozenset(user for user in channels.users() if channels.of(user, "replies"))

    def ended(self, connection: Connection, run: Run) -> None:
        """Add the rows for a run that is done or has failed; no statement where nobody wants to hear of any."""
        if not self._users or run.status not in ("done", "failed"):
            return
        who = queue.person(connection, run.requester_id)
        if who is None or who.name not in self._users:
            return
        channels = self._channels.of(who.name, "replies")
        queue.add(connection, [queue.row_of("reply", run.run_id, who, one, run_id=run.run_id) for one in channels])


@dataclass
class _Clock:
    """Says when something is due that is done now and then; at first at once."""

    seconds: float
    next_at: float = 0.0

    def strikes(self) -> bool:
        moment = time.monotonic()
        if moment < self.next_at:
            return False
        self.next_at = moment + self.seconds
        return True


@dataclass
class Announcer:
    """Queues approval requests for everyone who may decide them, and again for those who may after escalation."""

    database: Database
    channels: Channels
    _place: tuple[str, str] = ("", "")
    _late_place: tuple[str, str] = ("", "")
    _around: _Clock = field(default_factory=lambda: _Clock(AROUND_SECONDS))
    _escalations: _Clock = field(default_factory=lambda: _Clock(ESCALATIONS_SECONDS))

    async def look(self) -> None:
        """Queue what is new; now and then look at all that is pending, should the clock have been set back."""
        if self._around.strikes():
            self._place = self._late_place = ("", "")
        while found := await self.database.read(partial(self._requests, place=self._place)):
            last, rows = found
            if rows:
                await self.database.write(partial(queue.add, rows=rows))
            self._place = (last.requested_at, last.action_id)
        if not self._escalations.strikes():
            return
        while late := await self.database.read(partial(self._late_requests, place=self._late_place)):
            last, rows = late
            if rows:
                await self.database.write(partial(queue.add, rows=rows))
            self._late_place = (last.escalate_at or "", last.action_id)

    def _requests(self, connection: Connection, place: tuple[str, str]) -> tuple[Action, list[Json]] | None:
        """One page: the last action of it, and the rows to add."""
        found = queue.unannounced(connection, place, PAGE)
        if not found:
            return None
        everyone = active_people(connection)
        rows: list[Json] = []
        for action in found:
            about = f"{action.action_id}:{action.requested_at}"
            for who in everyone:
                if action.may_be_decided_by(who):
                    rows += self._rows("approval", about, action, who)
        return found[-1], rows

    def _late_requests(self, connection: Connection, place: tuple[str, str]) -> tuple[Action, list[Json]] | None:
        """One page, as `_requests`."""
        found = queue.unescalated(connection, stamp(), place, PAGE)
        if not found:
            return None
        everyone = active_people(connection)
        rows: list[Json] = []
        for action in found:
            words = set(action.escalate_to or ())
            about = f"{action.action_id}:{action.escalate_at}"
            for who in everyone:
                called = {who.name, who.role, *(["requester"] if who.user_id == action.requester_id else [])}
                if words & called and action.may_be_decided_by(who):
                    rows += self._rows("escalation", about, action, who)
        return found[-1], rows

    def _rows(self, kind: queue.Kind, about: str, action: Action, who: Principal) -> list[Json]:
        channels = self.channels.of(who.name, "approvals")
        return [queue.row_of(kind, about, who, channel, action_id=action.action_id) for channel in channels]
