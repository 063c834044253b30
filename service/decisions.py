"""Decisions of people on their way to the ledger: whom they name, all or none, then the thread is woken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from butler.approvals import deadlines, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide, find_pending_code, first_duplicate, may_see
from butler.approvals.judge import Judge
from butler.clock import stamp
from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import audit, conversations
from butler.storage.conversations import Entry, Run
from butler.storage.database import Database
from butler.storage.tables import actions
from service.carried import carried_through
from service.events import RunLog
from service.runs import Runs


@dataclass(frozen=True)
class Named:
    """A decision and the action it is for: by id, by code, or by its place among the pending ones."""

    decision: Decision
    action_id: str | None = None
    code: str | None = None
    tool: str | None = None


@dataclass(frozen=True)
class Decided:
    """What a set of decisions led to: the actions as they stand, and where their run goes on."""

    actions: list[Action]
    run_id: str
    log: RunLog
    position: int


Choose = Callable[[Connection], list[tuple[str, Decision]]]


class Decisions:
    """Every face's way to `decide()`."""

    def __init__(self, database: Database, runs: Runs, judge: Judge) -> None:
        self._database = database
        self._runs = runs
        self._judge = judge

    async def in_thread(self, thread_id: str, named: Sequence[Named], person: Principal, via: str) -> Decided:
        """Decide actions of one thread, all of `named` or none (http-api, *Resume*)."""

        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            thread = conversations.owned_thread(connection, thread_id, person)
            return resolve(connection, thread_id, str(thread.status), named)

        return await self._decide(choose, person, via)

    async def one(self, action_id: str, decision: Decision, person: Principal, via: str) -> Decided:
        """Decide one action wherever it is."""

        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            action = ledger.get(connection, action_id)
            if action is None or not may_see(action, person):
                raise ButlerError("not_found", f"There is no approval {action_id!r}.")
            return [(action_id, decision)]

        return await self._decide(choose, person, via)

    async def by_code(
        self, code: str, decision: Decision, person: Principal, via: str, said: tuple[str, str] | None = None
    ) -> Decided:
        """Decide the pending action with a typing code; `said` is (thread, text) to keep if it is that thread's."""

        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            action = find_pending_code(connection, code, person)
            if action is None:
                raise ButlerError(
                    "not_found", f"Nothing with the code {code!r} waits for you. /approvals lists what does."
                )
            return [(action.action_id, decision)]

        return await self._decide(choose, person, via, said)

    async def decline_all(self, thread_id: str, message: str, person: Principal) -> Decided:
        """Reject every pending action of a thread with the message as the reason, and keep the message."""

        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            conversations.owned_thread(connection, thread_id, person)
            pending = [one for one in ledger.pending_of_thread(connection, thread_id) if not one.has_expired]
            if not pending:
                raise ButlerError("not_parked", "Nothing of this thread waits for a decision any more.")
            return [(action.action_id, Decision("reject", reason=message)) for action in pending]

        return await self._decide(choose, person, "chat", (thread_id, message))

    @carried_through
    async def _decide(
        self, choose: Choose, person: Principal, via: str, said: tuple[str, str] | None = None
    ) -> Decided:
        lease = self._runs.lease()

        def transaction(connection: Connection) -> tuple[list[Action], Run | None]:
            decided = [
                decide(connection, action_id, decision, person, via=via, judge=self._judge)
                for action_id, decision in choose(connection)
            ]
            run_id = decided[0].run_id
            woken = self._runs.claim_parked(connection, run_id, lease)
            if woken is None and conversations.get_run(connection, run_id) is None:
                raise ButlerError("not_found", "The thread of this approval has been deleted.")
            if said is not None and said[0] == decided[0].thread_id:
                run = woken or conversations.get_run(connection, run_id)
                if run is not None:
                    entry = Entry(f"{run_id}:said:{stamp()}", "user", said[1])
                    conversations.write_entries(connection, run, [entry])
            return decided, woken

        crash_point("decision_before")
        known = self._runs.logs.positions()
        try:
            decided, woken = await self._database.write(transaction)
        except ButlerError as error:
            if error.code in ("not_an_approver", "forbidden"):
                await self._note_refusal(error, person, via, choose)
            raise
        crash_point("decision_after")
        run_id = decided[0].run_id
        log = self._runs.logs.get(run_id)
        # Taken before the commit: an end that was told before the decision is not the answer to it.
        position = known.get(run_id, 0)
        if woken is not None:
            # Without an event log this process did not see the park: the checkpoints are looked at before going on.
            log = self._runs.drive(woken, fresh=False if log else None)
            return Decided(decided, run_id, log, position)
        self._runs.stir(run_id)
        if log is None:
            log = self._runs.logs.open(run_id)
        if log.outcome is None:
            # Its run is on its way already; a stream of this decision begins with `run` all the same.
            position = log.position
            log.emit("run", {"thread_id": decided[0].thread_id, "run_id": run_id})
        return Decided(decided, run_id, log, position)

    async def _note_refusal(self, error: ButlerError, person: Principal, via: str, choose: Choose) -> None:
        """A valid decision by someone who may not decide is audited (http-api, *Resume*)."""

        def transaction(connection: Connection) -> None:
            for action_id, decision in choose(connection):
                action = ledger.get(connection, action_id)
                audit.record(
                    connection, "attempt_refused", actor=person.name, via=via, action_id=action_id,
                    thread_id=action.thread_id if action else None, run_id=action.run_id if action else None,
                    code=error.code, decision=decision.kind,
                )  # fmt: skip

        await self._database.write(transaction)

    @carried_through
    async def expire(self, moment: str) -> None:
        """Expire what is due and wake the threads that waited for it (A9)."""
        lease = self._runs.lease()

        def transaction(connection: Connection) -> tuple[set[str], list[Run]]:
            run_ids = {action.run_id for action in deadlines.expire_due(connection, moment)}
            woken = [self._runs.claim_parked(connection, run_id, lease) for run_id in run_ids]
            return run_ids, [run for run in woken if run is not None]

        run_ids, woken = await self._database.write(transaction)
        for run in woken:
            self._runs.drive(run, fresh=None)
        for run_id in run_ids:
            self._runs.stir(run_id)


def resolve(
    connection: Connection, thread_id: str, thread_status: str, named: Sequence[Named]
) -> list[tuple[str, Decision]]:
    """Find the actions that a resume names.

    Raises: ButlerError ``not_parked`` or ``thread_busy`` when nothing of the thread is pending (unless a named action
    was decided already, which `decide` then says), ``not_found``, ``invalid_request`` for wrong counts.
    """
    pending = ledger.pending_of_thread(connection, thread_id)
    ids: list[str]
    if all(one.action_id is None and one.code is None for one in named):
        if pending and len(pending) != len(named):
            raise ButlerError(
                "invalid_request",
                f"{len(named)} decisions were given, but {len(pending)} actions are pending; "
                "give one for each, in order, or name each action.",
            )
        ids = [action.action_id for action in pending]
    else:
        ids = [_find(connection, thread_id, pending, one) or "" for one in named]
    known = [action_id for action_id in ids if action_id]
    if not pending and not known:
        if thread_status == "running":
            raise ButlerError("thread_busy", "A turn of this thread is running; nothing of it waits for a decision.")
        raise ButlerError("not_parked", "Nothing of this thread waits for a decision.")
    if len(known) < len(ids):
        raise ButlerError("not_found", "One of the named actions is not an action of this thread.")
    if (twice := first_duplicate(ids)) is not None:
        raise ButlerError("invalid_request", f"The action {twice!r} is named twice.")
    for action, one in zip(pending, named, strict=False):
        if one.tool is not None and one.tool != action.tool:
            raise ButlerError("invalid_request", f"An edit can't change the tool from {action.tool!r} to {one.tool!r}.")
    return [(action_id, one.decision) for action_id, one in zip(ids, named, strict=True)]


def _find(connection: Connection, thread_id: str, pending: Sequence[Action], one: Named) -> str | None:
    if one.code is not None:
        code = one.code.strip().upper()
        return next((action.action_id for action in pending if action.code == code), None)
    return connection.execute(
        select(actions.c.action_id).where(
            actions.c.action_id == one.action_id,
            actions.c.thread_id == thread_id,
            actions.c.status.not_in(("allowed", "refused")),
        )
    ).scalar()
