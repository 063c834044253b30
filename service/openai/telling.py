"""A turn as a chat client is told it: pieces of text, then how it ended (B3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import orjson
from sqlalchemy import Connection

from butler.approvals import ledger
from butler.approvals.show import approval, for_whom
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import conversations
from butler.storage.conversations import Run
from butler.types import Json
from nodes.think import CUT
from service.butler import ButlerService
from service.events import KEEP_ALIVE_SECONDS, RunLog
from service.openai.showing import parked_text, queued_text
from service.outcomes import NO_USAGE

FACE = "openai"
LOOK_AGAIN_SECONDS = 0.05
CANCELLED = "(This turn was cancelled.)"
STOPPING = "Butler is being stopped. Your message is kept; ask the same again to hear the answer."


@dataclass(frozen=True)
class Ended:
    """How a turn stands now."""

    status: str
    usage: Json
    finish: Literal["stop", "length"] = "stop"
    approvals: tuple[Json, ...] = ()
    error: Json | None = None


@dataclass
class _Text:
    """Puts a break between what is said before and after tools ran."""

    said: bool = False
    gap: bool = field(default=False)

    def next(self, text: str) -> str:
        lead = "\n\n" if self.gap and self.said else ""
        self.said, self.gap = True, False
        return lead + text


class Teller:
    """Tells one person one run, from a place in its log on."""

    def __init__(self, service: ButlerService, person: Principal) -> None:
        self._service = service
        self._person = person

    async def tell(self, run_id: str, log: RunLog, position: int, *, queued: bool) -> AsyncIterator[str | Ended | None]:
        """Text pieces, None where a stream has to be kept alive, and `Ended` last.

        Args:
            queued: the run may wait for others: behind a turn it waits too, behind a decision it says so.

        Raises: ButlerError ``model_unavailable`` when the server stops first.
        """
        if queued:
            begins = asyncio.ensure_future(self._begins(run_id))
            while not (await asyncio.wait([begins], timeout=KEEP_ALIVE_SECONDS))[0]:
                yield None
            if (waiting := begins.result()) is not None:
                yield queued_text(waiting)
                yield Ended("queued", dict(NO_USAGE), approvals=tuple(waiting))
                return
            log, position = await self._service.run_log(self._person, run_id), 0
        text, finish = _Text(), "stop"
        async for chunk in log.follow(position):
            if chunk.startswith(b":"):
                yield None
            for name, data in events_of(chunk):
                if name == "token" and data["text"]:
                    yield text.next(data["text"])
                elif name == "tool":
                    text.gap = True
                elif name == "notice" and data["text"] == CUT:
                    finish = "length"
                elif name == "end":
                    async for last in self._end(data, text, "length" if finish == "length" else "stop"):
                        yield last
                    return
        raise ButlerError("model_unavailable", STOPPING)

    async def _end(
        self, outcome: Json, text: _Text, finish: Literal["stop", "length"]
    ) -> AsyncIterator[str | Ended]:  # fmt: skip
        status, waiting = outcome["status"], tuple[Json, ...]()
        text.gap = True
        if status == "parked":
            waiting = tuple(await self._waiting(outcome["thread_id"]))
            yield text.next(parked_text(waiting))
        elif status == "cancelled":
            yield text.next(CANCELLED)
        elif not text.said:
            yield outcome["reply"] or "(No answer.)"
        yield Ended(status, outcome["usage"], finish, waiting, outcome["error"])

    async def _begins(self, run_id: str) -> list[Json] | None:
        """Wait until a queued run begins; gives what is to be decided first, if that is what it waits for."""
        while True:
            run, active = await self._service.database.read(partial(_run_and_active, run_id=run_id))
            if run is None or run.status != "queued":
                return None
            if active is None or active.status == "parked":
                return await self._waiting(run.thread_id)
            log = self._service.runs.logs.get(active.run_id)
            if log is None or log.outcome is not None:
                # It has just begun, or just ended: the database and the logs are about to agree again.
                await asyncio.sleep(LOOK_AGAIN_SECONDS)
            elif await log.ended(log.position) is None:
                raise ButlerError("model_unavailable", STOPPING)

    async def _waiting(self, thread_id: str) -> list[Json]:
        """The pending approvals of a thread, each with whom it waits for, noted as shown."""
        faculties = self._service.faculties
        pending = await self._service.database.read(partial(ledger.pending_of_thread, thread_id=thread_id))
        self._service.showings.saw(self._person, [action.action_id for action in pending], FACE)
        return [
            for_whom(approval(action, faculties.tools, faculties.redactor), action, self._person) for action in pending
        ]


def _run_and_active(connection: Connection, run_id: str) -> tuple[Run | None, Run | None]:
    run = conversations.get_run(connection, run_id)
    return run, conversations.active_run(connection, run.thread_id) if run else None


def events_of(chunk: bytes) -> Iterator[tuple[str, Json]]:
    """The events in a piece of an event stream (whole events, as `RunLog.follow` gives them)."""
    for frame in chunk.split(b"\n\n"):
        _, mark, rest = frame.partition(b"event: ")
        name, mark, data = rest.partition(b"\ndata: ")
        if mark:
            yield name.decode(), orjson.loads(data)
