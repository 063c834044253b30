"""Who was shown which approval, and through which channel: the first time goes into the audit (A9)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import orjson
import structlog
from sqlalchemy import Connection, bindparam, select
from sqlalchemy.dialects.sqlite import insert

from butler.clock import stamp
from butler.people import Principal
from butler.storage import audit
from butler.storage.database import Database
from butler.storage.tables import actions, sightings
from butler.types import Json

log = structlog.get_logger("butler.showings")

MOST_KNOWN = 50_000
EVENTS_WITH_APPROVALS = (b"\nevent: approval\n", b"\nevent: end\n")

# Built once: a list of approvals asks for up to 200 of each.
ADD_SIGHTING = insert(sightings).on_conflict_do_nothing()
WHERE_OF = select(actions.c.thread_id, actions.c.run_id).where(actions.c.action_id == bindparam("wanted"))

Key = tuple[str, str, str]


class Showings:
    """Remembers what was shown; what it knows already costs no write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[Key, None] = OrderedDict()

    def saw(self, person: Principal, action_ids: Sequence[str], via: str) -> None:
        """Note that `person` is being shown these approvals, before they are sent.

        Only queued: the one writer takes it before any decision that answers to what was shown. What can't be
        written is logged and tried again at the next showing.
        """
        new = [action_id for action_id in action_ids if self._is_new((action_id, person.user_id, via))]
        if new:
            written = self._database.write_soon(partial(note_sightings, person=person, action_ids=new, via=via))
            written.add_done_callback(partial(self._written, [(action_id, person.user_id, via) for action_id in new]))

    def outcome(self, person: Principal, outcome: Json, via: str) -> Json:
        """Note the approvals of an Outcome, and give it back."""
        if outcome["approvals"]:
            self.saw(person, [one["action_id"] for one in outcome["approvals"]], via)
        return outcome

    def events(self, person: Principal, chunk: bytes, via: str) -> None:
        """Note the approvals in a piece of an event stream (whole events, as `RunLog.follow` gives them)."""
        if not any(mark in chunk for mark in EVENTS_WITH_APPROVALS):
            return
        shown: list[str] = []
        for event in chunk.split(b"\n\n"):
            _, mark, data = event.partition(b"\nevent: approval\ndata: ")
            if mark:
                shown.append(orjson.loads(data)["action_id"])
            _, mark, data = event.partition(b"\nevent: end\ndata: ")
            if mark:
                shown += [one["action_id"] for one in orjson.loads(data)["approvals"]]
        self.saw(person, shown, via)

    def _is_new(self, key: Key) -> bool:
        if key in self._known:
            self._known.move_to_end(key)
            return False
        self._known[key] = None
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return True

    def _written(self, keys: list[Key], future: Future[Any]) -> None:
        if future.exception() is not None:
            for key in keys:
                self._known.pop(key, None)
        tell_failure(future)


def tell_failure(future: Future[Any]) -> None:
    """Log what a queued row of the audit failed with; nobody waits for it."""
    error = future.exception()
    if error is not None:
        log.warning("audit_row_lost", error=str(error))


def note_sightings(connection: Connection, person: Principal, action_ids: Sequence[str], via: str) -> None:
    """Store each first showing, and tell the audit; a second one through the same channel changes nothing."""
    for action_id in action_ids:
        added = connection.execute(
            ADD_SIGHTING, {"action_id": action_id, "user_id": person.user_id, "via": via, "at": stamp()}
        )
        if added.rowcount:
            where = connection.execute(WHERE_OF, {"wanted": action_id}).first()
            audit.record(
                connection, "shown", actor=person.name, via=via, action_id=action_id,
                thread_id=where.thread_id if where else None, run_id=where.run_id if where else None,
            )  # fmt: skip
