"""Attempts of people at what only an admin may: in the audit, but a busy client can't fill it (A9)."""

from __future__ import annotations

import time
from collections import OrderedDict

from butler.people import Principal
from butler.storage import audit
from butler.storage.database import Database

PAUSE_SECONDS = 60.0
MOST_KNOWN = 1024


class Attempts:
    """Writes one row a minute for the same person and the same wish."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def refused(self, person: Principal, wish: str, via: str) -> None:
        """Write the row, unless there is one of the last minute."""
        key, moment = (person.user_id, wish), time.monotonic()
        if moment < self._known.get(key, 0.0):
            return
        self._known[key] = moment + PAUSE_SECONDS
        self._known.move_to_end(key)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        await self._database.write(
            lambda connection: audit.record(
                connection, "attempt_refused", actor=person.name, via=via, code="forbidden", wish=wish
            )
        )
