"""The person's transcript as a searchable archive: caught up before it is asked and in quiet moments (C5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from butler.redact import Redactor
from butler.storage import search
from butler.storage.database import Database, TookTooLong
from butler.storage.search import Found

log = structlog.get_logger("butler.archive")

PAUSE_SECONDS = 5.0
BATCHES_BEFORE_A_SEARCH = 40
"""So much is caught up while someone waits; after a large upgrade the rest follows in the background."""
BEST_SECONDS = 2.0
NEWEST_SECONDS = 1.0
"""So long a search may take. Searches wait for each other alone, and for nothing else that reads."""
NEWEST_ALONE = "The search took too long, so these are the newest lines, not the best ones. Rarer words find more."
STOPPED = "The search took too long and was stopped. Search for fewer or rarer words."


@dataclass(frozen=True)
class Searched:
    """Lines that were found; `behind` counts those that are not indexed yet, `stopped` says that time was over."""

    found: list[Found]
    behind: int
    stopped: str = ""


class Archive:
    """Searches the transcript; a turn pays nothing for it, since lines are indexed later."""

    def __init__(self, database: Database, redactor: Redactor) -> None:
        self._database = database
        self._redactor = redactor

    async def search(self, owner_id: str, query: str, limit: int, *, first: str = "", without: str = "") -> Searched:
        """What was found (see `search.find`): the best lines, the newest where that takes too long, or none."""
        behind = 0 if await self.catch_up(BATCHES_BEFORE_A_SEARCH) else await self._database.read(search.lag)

        def look(connection: Connection, newest: bool) -> list[Found]:
            return search.find(
                connection, owner_id, query, limit, first=first, without=without, newest=newest,
                mask=self._redactor.text,
            )  # fmt: skip

        try:
            return Searched(await self._database.read_within(BEST_SECONDS, partial(look, newest=False)), behind)
        except TookTooLong:
            log.info("search_stopped", words=len(query.split()), seconds=BEST_SECONDS)
        try:
            found = await self._database.read_within(NEWEST_SECONDS, partial(look, newest=True))
        except TookTooLong:
            found = []
        return Searched(found, behind, NEWEST_ALONE if found else STOPPED)

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
