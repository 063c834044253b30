"""The person's transcript as a searchable archive: caught up before it is asked and in quiet moments (C5)."""

from __future__ import annotations

import asyncio
from functools import partial

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from butler.redact import Redactor
from butler.storage import search
from butler.storage.database import Database
from butler.storage.search import Found

log = structlog.get_logger("butler.archive")

PAUSE_SECONDS = 5.0
BATCHES_BEFORE_A_SEARCH = 40
"""So much is caught up while someone waits; after a large upgrade the rest follows in the background."""


class Archive:
    """Searches the transcript; a turn pays nothing for it, since lines are indexed later."""

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self._database = database
        self._redactor = redactor

    async def search(
        self, owner_id: str, query: str, limit: int, *, first: str = "", without: str = ""
    ) -> tuple[list[Found], int]:
        """What was found (see `search.find`), and how many lines could not be looked at yet."""
        behind = 0 if await self.catch_up(BATCHES_BEFORE_A_SEARCH) else await self._database.read(search.lag)

        def look(connection: Connection) -> list[Found]:
            return search.find(
                connection, owner_id, query, limit, first=first, without=without, mask=self._redactor.text
            )

        return await self._database.read(look), behind

    async def line(self, owner_id: str, message_id: str, start: int, length: int) -> tuple[Found, int]:
        """A part of one line and the length of the whole (see `search.read_line`)."""
        return await self._database.read(
            partial(
                search.read_line, owner_id=owner_id, message_id=message_id, start=start, length=length,
                mask=self._redactor.text,
            )
        )  # fmt: skip

    async def catch_up(self, batches: int) -> bool:
        """Index what is new, at most so many batches; True when nothing is left."""
        for _ in range(batches):
            # Looking first: a search of a quiet house writes nothing.
            if not await self._database.read(search.is_behind):
                return True
            if not await self._database.write(search.catch_up):
                return True
        return False

    async def keep_up(self) -> None:
        """Index in the background for as long as the house is open, one batch at a time."""
        await self._database.write(search.prepare)
        while True:
            try:
                done = await self.catch_up(1)
            except (SQLAlchemyError, OSError) as error:
                log.warning("index_held_up", error=str(error))
                done = True
            await asyncio.sleep(PAUSE_SECONDS if done else PAUSE_SECONDS / 100)
