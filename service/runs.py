"""Driving runs: one task per running thread, from message to outcome, independent of any request (F3)."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
import time
from functools import partial
from typing import Any, Literal
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.crashpoints import crash_point
from butler.ids import new_id
from butler.people import Principal
from butler.storage import conversations, users
from butler.storage.conversations import Lease, Run
from butler.storage.database import Database
from butler.storage.tables import runs
from butler.types import Json
from nodes.context import Faculties
from nodes.rounds import Round
from service import stops
from service.brain import Brain
from service.effects import settle_effects
from service.events import RunLog, RunLogs
from service.notify.hooks import Told, nobody
from service.outcomes import NO_USAGE, entries_of_turn, outcome, said_so_far
from service.stops import Next

log = structlog.get_logger("butler.runs")

LEASE_SECONDS = 30.0
RETRY_SECONDS = 5.0
STOP_SECONDS = 8.0
TROUBLE = (OperationalError, sqlite3.OperationalError, OSError)
"""The disk or its locks: the run is tried again, since nothing can be written down meanwhile."""


class Runs:
    """Starts, drives, parks, finishes and cancels runs. Whoever moved a run to ``running`` calls `drive` once."""

    def __init__(
        self, brain: Brain, faculties: Faculties, database: Database, logs: RunLogs, tell: Told = nobody
    ) -> None:
        self.owner = new_id()
        self.logs = logs
        self.brain = brain
        self._faculties = faculties
        self._database = database
        self._tell = tell
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._rounds: WeakValueDictionary[str, Round] = WeakValueDictionary()
        self._working: dict[str, asyncio.Task[Any]] = {}
        self._cancelled: dict[str, tuple[str, str]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._drafts: dict[str, list[str]] = {}
        self._stop_by: float | None = None

    def lease(self) -> Lease:
        """A fresh lease for this server."""
        return Lease(self.owner, time.time() + LEASE_SECONDS)

    def drive(self, run: Run, *, fresh: bool | None = False, person: Principal | None = None) -> RunLog:
        """Begin or go on with a run that this server has just moved to ``running``; returns its event log.

        `fresh` says whether the graph has yet to hear of the run; None looks it up in the checkpoints.
        """
        run_log = self.logs.open(run.run_id, run.epoch)
        run_log.begin(run.thread_id)
        task = asyncio.create_task(self._drive_thread(run, run_log, fresh, person))
        self._tasks[task] = run.thread_id
        task.add_done_callback(self._tasks.pop)
        return run_log

    async def _drive_thread(self, run: Run, run_log: RunLog, fresh: bool | None, person: Principal | None) -> None:
        """Drive a run to its end or park, then the thread's queue, one after the other."""
        following: Run | None = run
        while following is not None:
            current = following
            try:
                async with self._lock(current.thread_id):
                    following = await self._drive_run(current, run_log, fresh, person)
            except Exception as error:
                # Not even the failure could be written down. The run is still this server's, so it tries again;
                # `settle_effects` sees to it that nothing which was started runs a second time.
                log.error("run_held_up", run_id=current.run_id, retry_in=RETRY_SECONDS, exc_info=error)
                await asyncio.sleep(RETRY_SECONDS)
                fresh = None
                continue
            if following is not None:
                fresh, person = True, None
                run_log = self.logs.open(following.run_id, following.epoch)
                run_log.begin(following.thread_id)

    def _lock(self, thread_id: str) -> asyncio.Lock:
        """The lock around everything that touches a thread's checkpoints; it lives as long as someone holds it."""
        lock = self._locks.get(thread_id)
        if lock is None:
            lock = self._locks[thread_id] = asyncio.Lock()
        return lock

    async def _drive_run(self, run: Run, run_log: RunLog, fresh: bool | None, person: Principal | None) -> Run | None:
        """One run to its next stop. Returns the run that the thread goes on with, if any."""
        try:
            return await self._go_on(run, run_log, fresh, person)
        except TROUBLE:
            raise
        except Exception as error:
            return await self._end_failed(run, run_log, error)

    async def _go_on(self, run: Run, run_log: RunLog, fresh: bool | None, person: Principal | None) -> Run | None:
        if fresh is None:
            await settle_effects(self._database, self._faculties.tools, run.run_id)
            head = await self.brain.head_of(run.thread_id, run.run_id)
            if head == "lost":
                return await self._end_lost(run, run_log)
            fresh = head == "absent"
        if not fresh:
            crash_point("resume_before")
        state_in: Json | None = {"incoming": await self._incoming(run, person)} if fresh else None
        while True:
            if run.run_id in self._cancelled:
                return await self._end_cancelled(run, run_log)
            calls = self._rounds[run.run_id] = Round()
            draft = self._drafts[run.run_id] = []
            work = asyncio.create_task(
                self.brain.invoke(run.thread_id, run.run_id, state_in, run_log.emit, calls, draft)
            )
            self._working[run.run_id] = work
            try:
                state = await work
            except asyncio.CancelledError:
                work.cancel()
                await asyncio.wait([work])
                if run.run_id not in self._cancelled:
                    raise  # The server stops; the run stays ``running`` and is picked up at the next start.
                return await self._end_cancelled(run, run_log)
            except TROUBLE:
                raise
            except Exception as error:
                return await self._end_failed(run, run_log, error)
            finally:
                self._working.pop(run.run_id, None)
            crash_point("resume_after")
            if not state.get("__interrupt__"):
                return await self._end_finished(run, run_log, state)
            stop = await self._park(run, run_log, state)
            if stop == "gone":
                return None
            if stop == "parked" and (run.run_id not in self._cancelled or await self._claim_parked(run) is None):
                return None
            state_in = None  # A decision, or the wish to cancel, arrived on the way to the park.

    async def _claim_parked(self, run: Run) -> Run | None:
        lease = self.lease()
        return await self._database.write(lambda connection: self.claim_parked(connection, run.run_id, lease))

    def claim_parked(self, connection: Connection, run_id: str, lease: Lease) -> Run | None:
        """Move a parked run to ``running`` in the transaction of what wakes it; the winner has to `drive` it.

        A process that has no event log of the run begins a new stretch of sequence numbers.
        """
        epoch = {} if self.logs.get(run_id) else {"epoch": runs.c.epoch + 1}
        return conversations.move_run(
            connection,
            run_id,
            ["parked"],
            "running",
            lease_owner=lease.owner,
            lease_until=lease.until,
            **epoch,
        )

    async def _incoming(self, run: Run, person: Principal | None) -> Json:
        if person is None:
            person = await self._database.read(lambda connection: users.get_user(connection, run.requester_id))
        person = person or Principal(run.requester_id, "unknown", "member")
        return {
            "run_id": run.run_id, "thread_id": run.thread_id, "message": run.message, "user_id": person.user_id,
            "user_name": person.name, "user_role": person.role,
        }  # fmt: skip

    async def _park(self, run: Run, run_log: RunLog, state: Json) -> Literal["parked", "answered", "gone"]:
        """Mark the run parked, unless an open question has been answered meanwhile or the run was deleted."""
        waiting = [entry.value["action_id"] for entry in state["__interrupt__"]]
        entries = entries_of_turn(run.run_id, state, self._faculties.redactor)
        reply = self._faculties.redactor.text(said_so_far(state))

        def transaction(connection: Connection) -> tuple[Run, list[Action]] | Literal["answered", "gone"]:
            return stops.park(connection, run, waiting, entries, reply, state.get("usage"))

        crash_point("park_before")
        parked = await self._database.write(transaction)
        if parked == "gone":
            self._end_gone(run, run_log)
        if isinstance(parked, str):
            return parked
        crash_point("park_after")
        run_log.end(outcome(*parked, self._faculties.tools, self._faculties.redactor))
        return "parked"

    def _end_gone(self, run: Run, run_log: RunLog) -> None:
        """Tell whoever follows that the run's thread was deleted."""
        self._cancelled.pop(run.run_id, None)
        gone = dataclasses.replace(run, status="cancelled", reply="", error=None)
        run_log.end(outcome(gone, [], self._faculties.tools, self._faculties.redactor))

    async def _end_finished(self, run: Run, run_log: RunLog, state: Json) -> Run | None:
        ending = state.get("ending") or {
            "status": "failed", "reply": "", "error": {"code": "internal", "detail": "The turn stopped half-way."},
        }  # fmt: skip
        return await self._end(
            run, run_log, ending["status"], reply=ending["reply"], error=ending["error"], state=state
        )

    async def _end_failed(self, run: Run, run_log: RunLog, error: Exception) -> Run | None:
        """A fault of our own: the person gets an incident number, the log gets the trace."""
        incident = new_id()
        log.error("run_failed", run_id=run.run_id, thread_id=run.thread_id, incident=incident, exc_info=error)
        detail = f"Something went wrong inside Butler (incident {incident}). Your message is kept; try again."
        return await self._end_apologising(run, run_log, "an internal error ended the turn", detail, incident=incident)

    async def _end_lost(self, run: Run, run_log: RunLog) -> Run | None:
        """The checkpoints know less than the ledger: say what has run rather than run it again."""
        recorded = await self._database.read(partial(ledger.of_run, run_id=run.run_id))
        ran = [action.title for action in recorded if action.execution in ("started", "done", "failed", "unknown")]
        detail = "Butler lost its place in this turn, probably in a power cut, and ended it. "
        detail += f"Started before that: {', '.join(ran) or 'nothing'}."
        return await self._end_apologising(run, run_log, "the turn's place was lost in a power cut", detail)

    async def _end_apologising(self, run: Run, run_log: RunLog, why: str, detail: str, **extras: str) -> Run | None:
        await self._database.write(
            lambda connection: stops.cancel_open(connection, run.run_id, "failed", actor="butler", via="run", why=why)
        )
        state = await self.brain.end_turn(run.thread_id, run.run_id, why)
        said = f"I'm sorry, I could not finish this: {detail}"
        run_log.emit("token", {"text": self._faculties.redactor.text(said)})
        error = {"code": "internal", "detail": detail, **extras}
        return await self._end(run, run_log, "failed", reply=said, error=error, state=state)

    async def _end_cancelled(self, run: Run, run_log: RunLog) -> Run | None:
        actor, via = self._cancelled[run.run_id]
        ended = await self._database.write(
            lambda connection: stops.cancel_open(
                connection, run.run_id, "cancelled", actor=actor, via=via, why="the turn was cancelled by a person"
            )
        )
        for action in ended:
            run_log.emit(
                "tool",
                {"action_id": action.action_id, "tool": action.tool, "args": {}, "verdict": action.verdict,
                 "phase": "failed", "result": action.result},
            )  # fmt: skip
        shown = "".join(self._drafts.get(run.run_id, ()))
        state = await self.brain.end_turn(run.thread_id, run.run_id, "the turn was cancelled by a person", shown)
        reply = (state.get("ending") or {}).get("reply", "") if state else ""
        return await self._end(run, run_log, "cancelled", reply=reply, error=None, state=state)

    async def _end(
        self,
        run: Run,
        run_log: RunLog,
        status: Any,
        *,
        reply: str,
        error: Json | None,
        state: Json | None = None,
    ) -> Run | None:
        """Write the outcome and the transcript, and claim the thread's next queued message, in one commit."""
        redactor = self._faculties.redactor
        entries = entries_of_turn(run.run_id, state, redactor) if state else []
        if reply and not any(redactor.text(reply) in entry.text for entry in entries):
            entries += [conversations.Entry(f"{run.run_id}:reply", "assistant", reply)]
        usage = (state or {}).get("usage")
        lease = self.lease()

        def transaction(connection: Connection) -> tuple[Run | None, Next]:
            ended = stops.end(
                connection, run, status, entries, reply=redactor.text(reply), error=error, usage=usage, tell=self._tell
            )
            return ended, Next(None) if self.draining else stops.start_next(connection, run.thread_id, lease)

        crash_point("finish_before")
        ended, following = await self._database.write(transaction)
        crash_point("finish_after")
        if ended is None:
            self._end_gone(run, run_log)
        else:
            run_log.end(outcome(ended, [], self._faculties.tools, redactor))
        self._cancelled.pop(run.run_id, None)
        self._drafts.pop(run.run_id, None)
        self.tell_dropped(following)
        if self._faculties.maids is not None:
            await self._faculties.maids.tidy(run.run_id)
        await self.brain.prune(run.thread_id)
        return following.run

    def tell_dropped(self, following: Next) -> None:
        """Give their outcome to whoever follows runs that were ended without a start."""
        for run in following.dropped:
            run_log = self.logs.open(run.run_id, run.epoch)
            run_log.begin(run.thread_id)
            run_log.end(outcome(run, [], self._faculties.tools, self._faculties.redactor))

    def cancel_running(self, run_id: str, *, actor: str, via: str) -> None:
        """Stop a run that this server drives; its outcome follows by itself."""
        self._cancelled[run_id] = (actor, via)
        if (work := self._working.get(run_id)) is not None:
            work.cancel()

    def stir(self, run_id: str) -> None:
        """Tell the calls of a run that wait beside a running one that something was decided."""
        if (calls := self._rounds.get(run_id)) is not None:
            calls.stir()

    async def recover(self, run: Run) -> None:
        """Go on with a run that was running when its server died (F3).

        A finished head (no tasks left) gives its outcome again, everything else goes on with the graph: what was
        decided meanwhile and what must not be repeated stands in the ledger.
        """
        lease = self.lease()
        renewed = await self._database.write(
            lambda connection: conversations.move_run(
                connection, run.run_id, ["running"], "running", epoch=runs.c.epoch + 1, lease_owner=lease.owner,
                lease_until=lease.until,
            )
        )  # fmt: skip
        if renewed is None:
            return
        if renewed.cancel_requested:
            self._cancelled[run.run_id] = ("butler", "recovery")
        run_log = self.drive(renewed, fresh=None)
        run_log.emit("notice", {"text": "Butler was restarted; an answer that was being written begins anew."})

    async def forget_thread(self, thread_id: str, run_ids: list[str]) -> None:
        """Stop what runs in a deleted thread, then remove its checkpoints."""
        for run_id in run_ids:
            self.cancel_running(run_id, actor="butler", via="delete")
        # Whoever drives the thread has to be out before its checkpoints go, or it would write new ones.
        if driving := [task for task, driven in self._tasks.items() if driven == thread_id]:
            await asyncio.wait(driving)
        async with self._lock(thread_id):
            await self.brain.forget(thread_id)
        for run_id in run_ids:
            self._cancelled.pop(run_id, None)
            log_of_run = self.logs.get(run_id)
            if log_of_run is not None and log_of_run.outcome is None:
                log_of_run.end(
                    {"thread_id": thread_id, "run_id": run_id, "status": "cancelled", "reply": "", "approvals": [],
                     "error": None, "usage": dict(NO_USAGE)}
                )  # fmt: skip
            self.logs.drop(run_id)

    def begin_to_stop(self) -> None:
        """Start no turn from here on; what runs has until the deadline."""
        if self._stop_by is None:
            self._stop_by = time.monotonic() + STOP_SECONDS

    @property
    def draining(self) -> bool:
        """Whether the server is on its way out."""
        return self._stop_by is not None

    async def drain(self) -> None:
        """Let running turns finish until the deadline, then leave the rest to the next start."""
        self.begin_to_stop()
        left = max(0.2, (self._stop_by or 0.0) - time.monotonic())
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=left)
        rest = list(self._tasks)
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    async def renew_leases(self) -> None:
        """Heartbeat of the runs that this server drives."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            if not self._tasks:
                continue
            try:
                await self._database.write(partial(conversations.renew_leases, lease=self.lease()))
            except TROUBLE as error:
                log.warning("lease_not_renewed", error=str(error))
