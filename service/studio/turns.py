"""The books of turns that the dev server runs: taken in, parked and ended as the server's own are (E1, F3)."""

from __future__ import annotations

import uuid
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langgraph.types import StateSnapshot
from sqlalchemy import Connection

from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
from butler.said import kept
from butler.storage import conversations, users
from butler.storage.conversations import Run
from butler.storage.database import Database
from butler.types import Json
from config.settings import Settings
from graph.studio import Asked, Stretch, say
from nodes.context import Faculties, TurnContext
from nodes.rounds import Round
from service.brain import Brain
from service.effects import settle_effects
from service.events import RunLog, RunLogs
from service.runs import Runs
from service.showings import Showings
from service.studio.deciding import VIA, StudioDecisions
from service.studio.reading import Answers, GoOn, Message, Wish, read_wish


@dataclass(frozen=True)
class Turn(Stretch):
    """A stretch and the run that it belongs to."""

    run: Run
    log: RunLog
    person: Principal


class StudioBrain(Brain):
    """A brain that keeps the steps of turns that are over, for looking at; the server prunes them at its next start."""

    async def prune(self, thread_id: str) -> None:
        """Keep them."""


class StudioTurns(Runs):
    """`Runs` whose stretches are driven by the dev server instead of by tasks of its own."""

    def __init__(self, brain: Brain, faculties: Faculties, database: Database, settings: Settings) -> None:
        super().__init__(brain, faculties, database, RunLogs())
        self.faculties = faculties
        self._decisions = StudioDecisions(database, self, faculties.judge, as_admin=settings.studio_admin)
        self._showings = Showings(database)

    def drive(self, run: Run, *, fresh: bool | None = False, person: Principal | None = None) -> RunLog:
        """Only open its log: whoever runs the thread next goes on with a run that was moved to ``running``."""
        log = self.logs.open(run.run_id, run.epoch)
        log.begin(run.thread_id)
        return log

    def holding(self, thread_id: str) -> AbstractAsyncContextManager[Any]:
        """One run of a thread at a time."""
        return self._lock(thread_id)

    async def begin(self, asked: Asked) -> Turn | None:
        """Take in a message or decisions, or find what there is to go on with.

        Raises: ButlerError for what is refused; nothing has changed then.
        """
        person = await self._person(asked.user)
        wish = read_wish(asked.given, asked.questions, self.faculties.tools)
        await self._decisions.expire(stamp())
        await self._take_in(asked, wish, person)
        run = await self._database.read(lambda connection: conversations.active_run(connection, asked.thread_id))
        if run is not None and run.status == "parked":
            if isinstance(wish, Message):
                return None  # Sent again by the dev server after a restart; its turn has parked since.
            # Nothing was decided, or not by enough people: the question is put again, under the same id.
            run = await self._claim_parked(run)
        return await self._turn(run, person) if run is not None else None

    async def settle(self, stretch: Stretch, snapshot: StateSnapshot) -> Turn | None:
        """Park or end the run; goes on when it was answered on the way, or with the thread's next message."""
        turn = _own(stretch)
        state: Json = {**snapshot.values, "__interrupt__": snapshot.interrupts}
        if snapshot.interrupts:
            stop = await self._park(turn.run, turn.log, state)
            if stop == "parked":
                shown = [str(one.value["action_id"]) for one in snapshot.interrupts]
                self._showings.saw(turn.person, shown, VIA)
            return self._stretch(turn.run, turn.log, turn.person, None) if stop == "answered" else None
        if snapshot.next:
            return None  # Stopped at a breakpoint of the client's; an empty input goes on.
        following = await self._end_finished(turn.run, turn.log, state)
        return await self._turn(following, turn.person) if following is not None else None

    async def fail(self, stretch: Stretch, error: Exception) -> None:
        """End the run as failed, with an incident number."""
        turn = _own(stretch)
        await self._end_failed(turn.run, turn.log, error)

    async def cancel(self, stretch: Stretch) -> None:
        """End the run as cancelled: the client went away or asked for it."""
        turn = _own(stretch)
        self._cancelled[turn.run.run_id] = (turn.person.name, VIA)
        await self._end_cancelled(turn.run, turn.log)

    async def _person(self, user: Any) -> Principal:
        identity = str(user["identity"]) if user else ""

        def look_up(connection: Connection) -> Principal | None:
            return None if users.is_shut_out(connection, identity) else users.get_user(connection, identity)

        person = await self._database.read(look_up)
        if person is None or not person.is_admin:
            raise ButlerError("unauthorized", "Studio is for admins: send the token of one.")
        return person

    async def _take_in(self, asked: Asked, wish: Wish, person: Principal) -> None:
        match wish:
            case Message(text):
                await self._accept(asked, text, person)
            case Answers(named):
                await self._decisions.answered(asked.thread_id, named, person, _moment_of(asked.run_id))
            case GoOn():
                return

    async def _accept(self, asked: Asked, text: str, person: Principal) -> None:
        """Take a message in, as a run with the dev server's id: what that server repeats is known again."""
        lease, line = self.lease(), kept(text, self.faculties.tools)

        def transaction(connection: Connection) -> None:
            if conversations.get_run(connection, asked.run_id) is not None:
                return
            try:
                thread = conversations.owned_thread(connection, asked.thread_id, person)
            except ButlerError:
                conversations.create_thread(connection, person, line, asked.thread_id)
            else:
                if thread.status == "parked":
                    raise ButlerError(
                        "parked", "This thread waits for decisions; your message was not taken in. Decide first."
                    )
            conversations.accept(
                connection, asked.thread_id, person, text, lease, line=line, run_id=asked.run_id or None
            )

        await self._database.write(transaction)

    async def _turn(self, run: Run | None, person: Principal) -> Turn | None:
        """What is left to do of a run that is marked running: all of it, the rest, or only to say that it is lost."""
        while run is not None:
            log = self.drive(run)
            await settle_effects(self._database, self.faculties.tools, run.run_id)
            head = await self.brain.head_of(run.thread_id, run.run_id)
            if head != "lost":
                fresh = head == "absent"
                return self._stretch(run, log, person, {"incoming": await self._incoming(run, None)} if fresh else None)
            run = await self._end_lost(run, log)
        return None

    def _stretch(self, run: Run, log: RunLog, person: Principal, state_in: Json | None) -> Turn:
        calls = self._rounds[run.run_id] = Round()
        draft = self._drafts[run.run_id] = []

        def emit(kind: str, data: Json) -> None:
            log.emit(kind, data)
            say(kind, data)

        return Turn(run.run_id, state_in, TurnContext(self.faculties, emit, calls, draft), run, log, person)


def _own(stretch: Stretch) -> Turn:
    assert isinstance(stretch, Turn)
    return stretch


def _moment_of(run_id: str) -> str:
    """When the dev server made a run: its ids begin with the time in milliseconds (UUID version 7)."""
    known = uuid.UUID(run_id) if run_id else None
    if known is None or known.version != 7:
        return stamp()
    return stamp(datetime.fromtimestamp(((known.int >> 80) + 1) / 1000, UTC))
