"""ButlerService: what any face of the house can ask for. It knows people, threads and runs, but no
transport (B1).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert

from butler.approvals import grants, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import may_see
from butler.approvals.show import approval, for_whom
from butler.clock import stamp
from butler.commands import HouseCommand, parse_house_command
from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.ids import new_id
from butler.maids import store as maid_store
from butler.maids.applying import being_applied
from butler.maids.closing import close_tasks
from butler.maids.store import MaidRun
from butler.people import Principal
from butler.said import kept
from butler.storage import audit, conversations, deleted
from butler.storage.conversations import Entry, Run
from butler.storage.database import Database
from butler.storage.tables import runs
from butler.types import Json
from nodes.context import Faculties
from service.attempts import Attempts
from service.background import Background
from service.carried import carried_through
from service.commands import Commands, compaction_of
from service.decisions import Decisions
from service.events import RunLog
from service.memory import MemoryService
from service.notify.links import SignedLinks
from service.outcomes import outcome
from service.runs import Runs
from service.showings import Showings
from service.tickets import Noted, Ticket, not_noted
from service.typed import Answer

IfParked = Literal["queue", "decline", "reject"]
APPLYING_SECONDS, APPLYING_PAUSE = 60.0, 0.05
"""How long the deletion of a thread waits for work that is being applied, and how often it looks."""


class ButlerService:
    """Chat, cancel and read, for one person at a time; decisions are in `decisions`."""

    def __init__(
        self, faculties: Faculties, database: Database, running: Runs, decisions: Decisions, links: SignedLinks
    ) -> None:
        self.links = links
        self.faculties = faculties
        self.database = database
        self.runs = running
        self.decisions = decisions
        self.memory = MemoryService(database, faculties.redactor)
        self.showings = Showings(database)
        self.attempts = Attempts(database)
        self.background = Background()
        self._commands = Commands(faculties, database, decisions, self.showings)

    @carried_through
    async def chat(
        self, person: Principal, message: str, thread_id: str | None, if_parked: IfParked, noted: Noted = not_noted
    ) -> Ticket:
        """Take a message in; once this returns it is on disk (http-api, *Chat*).

        Args:
            noted: is told, in the same commit as the message, which run answers it.
        """
        if message.startswith("/"):
            # A tool that a server brings has to be known before its secret arguments can be masked.
            await self.faculties.tools.prepare(message[1:].partition(" ")[0])
        command = parse_house_command(message, self.faculties.tools.names())
        if command is not None:
            ticket = await self._command(person, command, message, thread_id)
            if noted is not not_noted:
                await self.database.write(partial(noted, thread_id=ticket.thread_id, run_id=ticket.run_id))
            return ticket
        if if_parked == "decline" and thread_id is not None and await self._is_parked(person, thread_id):
            try:
                decided = await self.decisions.decline_all(thread_id, message, person)
                return Ticket(thread_id, decided.run_id, decided.log, decided.position)
            except ButlerError as error:
                if error.code != "not_parked":
                    raise
                # Somebody decided the last one in this moment; the message is a turn like any other.
        run, pending = await self._accept(person, message, thread_id, if_parked, noted)
        if run.status == "running":
            log = self.runs.drive(run, fresh=True, person=person)
            return Ticket(run.thread_id, run.run_id, log, 0)
        return Ticket.of_outcome(self._outcome(run, pending))

    async def _accept(
        self, person: Principal, message: str, thread_id: str | None, if_parked: IfParked, noted: Noted
    ) -> tuple[Run, list[Action]]:
        lease, line = self.runs.lease(), kept(message, self.faculties.tools)

        def transaction(connection: Connection) -> tuple[Run, list[Action]]:
            if thread_id is None:
                target = conversations.create_thread(connection, person, line)
            else:
                target = thread_id
                thread = conversations.owned_thread(connection, thread_id, person)
                if thread.status == "parked" and if_parked == "reject":
                    pending = ledger.pending_of_thread(connection, thread_id)
                    raise ButlerError(
                        "parked", "This thread waits for decisions; your message was not taken in.",
                        approvals=[self._approval(action) for action in pending],
                    )  # fmt: skip
            run = conversations.accept(connection, target, person, message, lease, line=line, hold=self.runs.draining)
            noted(connection, thread_id=run.thread_id, run_id=run.run_id)
            return run, ledger.pending_of_thread(connection, target) if run.status == "queued" else []

        crash_point("accept_before_commit")
        accepted = await self.database.write(transaction)
        crash_point("accept_after_commit")
        return accepted

    async def _is_parked(self, person: Principal, thread_id: str) -> bool:
        thread = await self.thread(person, thread_id)
        return bool(thread["status"] == "parked")

    async def _command(self, person: Principal, command: HouseCommand, text: str, thread_id: str | None) -> Ticket:
        """Answer a house command; a failing one is an answer too, with the same code as on every face."""
        text = kept(text, self.faculties.tools)
        if thread_id is None or command.name == "new":
            if thread_id is not None:
                await self.thread(person, thread_id)
            target = await self.database.write(lambda connection: conversations.create_thread(connection, person, text))
        else:
            await self.thread(person, thread_id)
            target = thread_id
        error: Json | None = None
        try:
            answer = await self._answer(command, text, target, person)
        except ButlerError as refusal:
            answer, error = Answer(refusal.detail), {"code": refusal.code, "detail": refusal.detail}
        if answer.decided is not None:
            return Ticket(target, answer.decided.run_id, answer.decided.log, answer.decided.position)
        return Ticket.of_outcome(await self._record_answer(person, target, text, answer.text, error))

    async def _answer(self, command: HouseCommand, text: str, thread_id: str, person: Principal) -> Answer:
        if command.name == "new":
            return Answer("This is a new thread. What can I do for you?")
        if command.name == "compact":
            return Answer(await self._compact(thread_id))
        return await self._commands.run(command, text, thread_id, person)

    async def _compact(self, thread_id: str) -> str:
        compactor = compaction_of(self.faculties)
        messages, summary, notes = await self.runs.brain.context_of(thread_id)
        compactor.start(thread_id, messages, summary, notes, wished=True)
        begun = compactor.under_way(thread_id)
        if await compactor.settle(thread_id):
            return "The older part of this talk is folded into its summary from your next message on."
        if not begun:
            return "Nothing to fold yet: only turns before the newest messages and before a waiting call are folded."
        why = f": {reason}" if (reason := compactor.why_not(thread_id)) else ""
        return f"Folding did not work out{why}. So nothing has changed; it will be tried again later."

    async def _record_answer(
        self, person: Principal, thread_id: str, text: str, reply: str, error: Json | None
    ) -> Json:
        """A command's turn is over at once: it never waits behind the thread's own runs."""
        moment = stamp()
        shown = self.faculties.redactor.text(reply)

        def transaction(connection: Connection) -> tuple[Run, list[Action]]:
            conversations.owned_thread(connection, thread_id, person)
            turn = conversations.next_turn(connection, thread_id)
            row = connection.execute(
                insert(runs)
                .values(
                    run_id=new_id(), thread_id=thread_id, turn=turn, requester_id=person.user_id, message=text,
                    status="failed" if error else "done", reply=shown, error=error, created_at=moment,
                    updated_at=moment,
                )
                .returning(runs)
            ).one()  # fmt: skip
            run = Run.of_row(row)
            entries = [
                Entry(f"{run.run_id}:user", "user", text),
                Entry(f"{run.run_id}:0", "assistant", shown),
            ]
            conversations.write_entries(connection, run, entries)
            return run, ledger.pending_of_thread(connection, thread_id)

        return self._outcome(*await self.database.write(transaction))

    @carried_through
    async def cancel(self, person: Principal, run_id: str, via: str) -> None:
        """End a run as ``cancelled``; the wish is on disk before this returns (http-api, *Streaming*)."""
        lease = self.runs.lease()

        def transaction(connection: Connection) -> tuple[Run, Run | None]:
            run = _owned_run(connection, run_id, person)
            asked = conversations.ask_to_cancel(connection, run)
            if asked.status == "cancelled":
                close_tasks(connection, run_id, "cancelled", "It was cancelled before it had begun.")
            return asked, self.runs.claim_parked(connection, run_id, lease)

        run, woken = await self.database.write(transaction)
        if run.status == "cancelled":
            log = self.runs.logs.open(run_id, run.epoch)
            log.begin(run.thread_id)
            log.end(self._outcome(run, []))
        elif run.status in ("running", "parked"):
            self.runs.cancel_running(run_id, actor=person.name, via=via)
            if woken is not None:
                self.runs.drive(woken)

    async def run_outcome(self, person: Principal, run_id: str) -> Json:
        """The Outcome of a run."""
        run, pending = await self._run(person, run_id)
        return self._outcome(run, pending)

    async def run_log(self, person: Principal, run_id: str) -> RunLog:
        """The event log of a run; one that ended in an earlier process is told from what the database has."""
        run, pending = await self._run(person, run_id)
        log = self.runs.logs.get(run_id)
        if log is not None:
            return log
        if run.status in ("queued", "running"):
            return self.runs.logs.open(run_id, run.epoch)
        log = RunLog(run_id, run.epoch + 1)
        log.begin(run.thread_id)
        for action in pending:
            log.emit("approval", self._approval(action))
        if run.reply:
            log.emit("token", {"text": run.reply})
        log.end(self._outcome(run, pending))
        return log

    async def _run(self, person: Principal, run_id: str) -> tuple[Run, list[Action]]:
        def query(connection: Connection) -> tuple[Run, list[Action]]:
            run = _owned_run(connection, run_id, person)
            waits = run.status in ("parked", "queued")
            return run, ledger.pending_of_thread(connection, run.thread_id) if waits else []

        return await self.database.read(query)

    async def approval(self, person: Principal, action_id: str, *, waits_for: bool = False) -> Json:
        """One Approval; on demand with whom it waits for, if that is somebody else."""
        action = await self.database.read(lambda connection: ledger.get(connection, action_id))
        if action is None or action.status in ledger.NOT_ASKED or not may_see(action, person):
            raise ButlerError("not_found", f"There is no approval {action_id!r}.")
        return for_whom(self._approval(action), action, person) if waits_for else self._approval(action)

    async def thread(self, person: Principal, thread_id: str) -> Json:
        """One thread as lists show it."""

        def query(connection: Connection) -> Json:
            row = conversations.owned_thread(connection, thread_id, person)
            return thread_item(row, len(ledger.pending_of_thread(connection, thread_id)))

        return await self.database.read(query)

    @carried_through
    async def delete_thread(self, person: Principal, thread_id: str, via: str) -> None:
        """Remove a thread: its run is cancelled, pending approvals too; audit rows stay (http-api, *Threads*)."""

        def transaction(connection: Connection) -> tuple[list[str], list[MaidRun], bool] | None:
            conversations.owned_thread(connection, thread_id, person)
            if being_applied(connection, thread_id):
                return None  # a crash now would leave half of it in the project, and nobody to go on
            run_ids = conversations.run_ids(connection, thread_id)
            for run_id in run_ids:
                ledger.cancel_open(connection, run_id, actor=person.name, via=via, why="the thread was deleted")
            grants.end_with_thread(connection, thread_id, person, via)
            tasks = maid_store.delete_of_thread(connection, thread_id)
            more = deleted.delete_thread(connection, thread_id)
            audit.record(connection, "thread_deleted", actor=person.name, via=via, thread_id=thread_id)
            return run_ids, tasks, more

        until = time.monotonic() + APPLYING_SECONDS
        while (done := await self.database.write(transaction)) is None:
            if time.monotonic() > until:
                raise ButlerError("thread_busy", "Work is being applied to a project. Try again in a minute.")
            await asyncio.sleep(APPLYING_PAUSE)
        run_ids, tasks, more = done
        if self.faculties.compactor is not None:
            self.faculties.compactor.forget(thread_id)
        await self.runs.forget_thread(thread_id, run_ids)
        if self.faculties.maids is not None:
            await self.faculties.maids.forget(tasks)
        # One transaction after the other, so that other writes get in between; the daily sweep ends what a crash cuts.
        while more:
            more = await self.database.write(partial(deleted.remove_more, thread_id=thread_id))

    def _approval(self, action: Action) -> Json:
        return approval(action, self.faculties.tools, self.faculties.redactor)

    def _outcome(self, run: Run, pending: Sequence[Action]) -> Json:
        return outcome(run, pending, self.faculties.tools, self.faculties.redactor)


def _owned_run(connection: Connection, run_id: str, person: Principal) -> Run:
    """The run. Raises ButlerError ``not_found`` also when it is of somebody else's thread."""
    run = conversations.get_run(connection, run_id)
    if run is not None:
        try:
            conversations.owned_thread(connection, run.thread_id, person)
            return run
        except ButlerError:
            run = None
    raise ButlerError("not_found", f"There is no run {run_id!r}.")


def thread_item(row: Row[Any], pending: int) -> Json:
    """A thread as http-api lists it."""
    return {
        "thread_id": row.thread_id, "title": row.title, "status": row.status, "updated_at": row.updated_at,
        "pending": pending,
    }  # fmt: skip
