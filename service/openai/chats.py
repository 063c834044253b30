"""Taking a client's message in: into its thread, once (E1)."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import structlog

from butler.people import Principal
from butler.storage import client_chats
from butler.storage.database import Database
from service.butler import ButlerService
from service.events import RunLog
from service.openai.reading import Wish

log = structlog.get_logger("butler.openai")


@dataclass(frozen=True)
class Turn:
    """A run to be told, from a place in its log on; `queued` when it may not have begun."""

    thread_id: str
    run_id: str
    log: RunLog
    position: int
    queued: bool = False


class Chats:
    """Finds the thread of each request, one at a time for each chat: two that come together would begin two."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(self, service: ButlerService, person: Principal, wish: Wish) -> Turn:
        """Begin a turn with the message, or give the one that it began before (see `client_chats`).

        Raises: ButlerError ``not_found`` for a thread that is not there for this person.
        """
        lock = self._locks.setdefault((person.user_id, wish.asked.chat), asyncio.Lock())
        async with lock:
            if wish.thread_id is not None:
                await service.thread(person, wish.thread_id)
            # Not on a reader: what was noted of the answer before this request has to be seen.
            place = await service.database.write(
                partial(client_chats.place, user_id=person.user_id, asked=wish.asked, thread_id=wish.thread_id)
            )
            if place.run_id is not None and place.thread_id is not None:
                run_log = await service.run_log(person, place.run_id)
                return Turn(place.thread_id, place.run_id, run_log, 0, queued=True)
            return await self._begin(service, person, wish, place.thread_id)

    async def _begin(self, service: ButlerService, person: Principal, wish: Wish, thread_id: str | None) -> Turn:
        noted = partial(client_chats.note, user_id=person.user_id, asked=wish.asked)
        ticket = await service.chat(person, wish.message, thread_id, "queue", noted)
        queued = ticket.settled is not None and ticket.settled["status"] == "queued"
        return Turn(ticket.thread_id, ticket.run_id, ticket.log, ticket.position, queued)


def note_answer(database: Database, person: Principal, wish: Wish, run_id: str, *, over: bool) -> None:
    """Keep that the answer has been sent whole; `over` when it is the turn's last. Nobody waits for this."""
    note = partial(client_chats.answered, user_id=person.user_id, asked=wish.asked, run_id=run_id, over=over)
    database.write_soon(note).add_done_callback(_tell_failure)


def _tell_failure(written: Future[Any]) -> None:
    if (error := written.exception()) is not None:
        log.warning("answer_not_noted", error=str(error))
