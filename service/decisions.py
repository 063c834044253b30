"""Decisions of people on their way to the ledger: whom they name, all or none, then the thread is woken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Connection

from butler.approvals import deadlines, grants, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.approvals.grants import Grant
from butler.approvals.judge import Judge
from butler.approvals.preview import preview_for
from butler.approvals.wishes import note_on
from butler.clock import stamp
from butler.crashpoints import crash_point
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import audit, conversations
from butler.storage.conversations import Entry, Run
from butler.storage.database import Database
from service.carried import carried_through
from service.events import RunLog
from service.hidden import note_hidden
from service.naming import Named, find_named, resolve
from service.runs import Runs

REFUSALS = ("not_an_approver", "forbidden")
"""Errors of decisions that were understood but are not this person's to take; they are audited."""


@dataclass(frozen=True)
class Given:
    """A grant that was given beside an approve, and what its giver should know about it."""

    grant: Grant
    note: str | None


@dataclass(frozen=True)
class Decided:
    """What a set of decisions led to: the actions as they stand, and where their run goes on.

    `in_part`: nothing has moved, since more people have to approve.
    """

    actions: list[Action]
    run_id: str
    log: RunLog
    position: int
    grants: dict[str, Given] = field(default_factory=dict)
    in_part: bool = False


@dataclass(frozen=True)
class Settled:
    """What one of many decisions led to; `error` when it was refused, and then nothing else."""

    named: Named
    action_id: str = ""
    action: Action | None = None
    given: Given | None = None
    error: ButlerError | None = None


Choose = Callable[[Connection], list[tuple[str, Decision]]]
Use = Callable[[Connection], None]


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
            return resolve(connection, thread_id, str(thread.status), named, person)

        return await self._decide(choose, person, via, named=named, thread_id=thread_id)

    async def one(self, action_id: str, decision: Decision, person: Principal, via: str) -> Decided:
        """Decide one action wherever it is."""

        return await self._named(Named(decision, action_id=action_id), person, via)

    async def by_link(self, action_id: str, decision: Decision, person: Principal, use: Use) -> Decided:
        """Decide with a signed link; `use` spends the link in the same transaction, or refuses and undoes it."""

        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            return [(find_named(connection, Named(decision, action_id=action_id), person).action_id, decision)]

        return await self._decide(choose, person, "link", use=use)

    async def by_code(
        self, code: str, decision: Decision, person: Principal, via: str, said: tuple[str, str] | None = None
    ) -> Decided:
        """Decide the pending action with a typing code; `said` is (thread, text) to keep if it is that thread's."""

        return await self._named(Named(decision, code=code), person, via, said)

    async def _named(self, named: Named, person: Principal, via: str, said: tuple[str, str] | None = None) -> Decided:
        def choose(connection: Connection) -> list[tuple[str, Decision]]:
            return [(find_named(connection, named, person).action_id, named.decision)]

        return await self._decide(choose, person, via, said, named=[named])

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
        self, choose: Choose, person: Principal, via: str, said: tuple[str, str] | None = None, *,
        named: Sequence[Named] = (), thread_id: str | None = None, use: Use | None = None,
    ) -> Decided:  # fmt: skip
        lease = self._runs.lease()

        at: list[tuple[str, Decision]] = []

        def transaction(connection: Connection) -> tuple[list[Action], dict[str, Given], Run | None]:
            done = []
            for chosen in choose(connection):
                at[:] = [chosen]
                done.append(self._one(connection, *chosen, person, via))
            decided = [action for action, _ in done]
            if use is not None:
                use(connection)
            given = {action.action_id: one for action, one in done if one is not None}
            if all(action.status == "pending" for action in decided):
                return decided, given, None
            run_id = decided[0].run_id
            woken = self._runs.claim_parked(connection, run_id, lease)
            if said is not None and said[0] == decided[0].thread_id:
                run = woken or conversations.get_run(connection, run_id)
                if run is not None:
                    entry = Entry(f"{run_id}:said:{stamp()}", "user", said[1])
                    conversations.write_entries(connection, run, [entry])
            return decided, given, woken

        crash_point("decision_before")
        known = self._runs.logs.positions()
        try:
            decided, given, woken = await self._database.write(transaction)
        except ButlerError as error:
            for action_id, decision in at:
                await self._add_preview(error, action_id, decision, person)
            if error.code in REFUSALS:
                await self._note_refusal(error, person, via, choose, {action_id for action_id, _ in at})
            elif error.code == "not_found":
                await self._database.write(
                    partial(note_hidden, named=named, thread_id=thread_id, person=person, via=via)
                )
            raise
        crash_point("decision_after")
        run_id = decided[0].run_id
        log = self._runs.logs.get(run_id)
        # Taken before the commit: an end that was told before the decision is not the answer to it.
        position = known.get(run_id, 0)
        if all(action.status == "pending" for action in decided):
            return Decided(decided, run_id, log or RunLog(run_id), position, given, in_part=True)
        if woken is not None:
            # Without an event log this process did not see the park: the checkpoints are looked at before going on.
            log = self._runs.drive(woken, fresh=False if log else None)
            tell_grants(log, given.values())
            return Decided(decided, run_id, log, position, given)
        self._runs.stir(run_id)
        if log is None:
            log = self._runs.logs.open(run_id)
        if log.outcome is None:
            # Its run is on its way already; a stream of this decision begins with `run` all the same.
            position = log.position
            log.emit("run", {"thread_id": decided[0].thread_id, "run_id": run_id})
            tell_grants(log, given.values())
        return Decided(decided, run_id, log, position, given)

    def _one(
        self, connection: Connection, action_id: str, decision: Decision, person: Principal, via: str
    ) -> tuple[Action, Given | None]:
        action = decide(connection, action_id, decision, person, via=via, judge=self._judge)
        if conversations.get_run(connection, action.run_id) is None:
            raise ButlerError("not_found", "The thread of this approval has been deleted.")
        if decision.grant is None:
            return action, None
        grant = grants.given_with(connection, action_id)
        return action, Given(grant, note_on(action, person, self._judge)) if grant else None

    async def _add_preview(self, error: ButlerError, action_id: str, decision: Decision, person: Principal) -> None:
        """Say of a grant that lacks something what it would have covered; looked up while nobody waits to write."""
        if decision.grant is None or "needs" not in error.extras:
            return
        look = partial(preview_for, action_id=action_id, wish=decision.grant, person=person, judge=self._judge)
        try:
            error.extras["preview"] = await self._database.read(look)
        except ButlerError as gone:
            # Somebody else has decided it in the meantime.
            error.extras["preview"] = None
            error.add_note(gone.detail)

    @carried_through
    async def many(self, named: Sequence[Named], person: Principal, via: str) -> list[Settled]:
        """Decide any number of actions of any threads, each on its own; every thread is woken once."""
        lease = self._runs.lease()

        def transaction(connection: Connection) -> tuple[list[Settled], list[Run]]:
            settled = [self._settle(connection, one, person, via) for one in named]
            moved = [one.action for one in settled if one.action is not None and one.action.status != "pending"]
            run_ids = list(dict.fromkeys(action.run_id for action in moved))
            woken = [self._runs.claim_parked(connection, run_id, lease) for run_id in run_ids]
            return settled, [run for run in woken if run is not None]

        crash_point("decision_before")
        settled, woken = await self._database.write(transaction)
        crash_point("decision_after")
        for run in woken:
            self._runs.drive(run, fresh=False if self._runs.logs.get(run.run_id) else None)
        for one in settled:
            if one.error is not None:
                await self._add_preview(one.error, one.action_id, one.named.decision, person)
            if one.action is None or one.action.status == "pending":
                continue
            self._runs.stir(one.action.run_id)
            log = self._runs.logs.get(one.action.run_id)
            if one.given is not None and log is not None and log.outcome is None:
                tell_grants(log, [one.given])
        return settled

    def _settle(self, connection: Connection, one: Named, person: Principal, via: str) -> Settled:
        """One of many: what is refused leaves nothing behind but an audit row."""
        action_id = ""
        try:
            with connection.begin_nested():
                action_id = find_named(connection, one, person).action_id
                action, given = self._one(connection, action_id, one.decision, person, via)
        except ButlerError as error:
            if error.code in REFUSALS:
                self._record_refusal(connection, error.code, action_id, one.decision, person, via)
            elif error.code == "not_found":
                note_hidden(connection, [one], None, person, via)
            return Settled(one, action_id=action_id, error=error)
        return Settled(one, action_id, action, given)

    async def _note_refusal(
        self, error: ButlerError, person: Principal, via: str, choose: Choose, refused: set[str]
    ) -> None:
        """A valid decision by someone who may not decide is audited (http-api, *Resume*).

        Of several, the one that was refused, and those that are not theirs either; not what they might have decided.
        """

        def transaction(connection: Connection) -> None:
            for action_id, decision in choose(connection):
                action = ledger.get(connection, action_id)
                if action_id in refused:
                    self._record_refusal(connection, error.code, action_id, decision, person, via)
                elif action is not None and not action.may_be_decided_by(person):
                    self._record_refusal(connection, "not_an_approver", action_id, decision, person, via)

        await self._database.write(transaction)

    @staticmethod
    def _record_refusal(
        connection: Connection, code: str, action_id: str, decision: Decision, person: Principal, via: str
    ) -> None:
        action = ledger.get(connection, action_id)
        wish = {"grant": {"scope": decision.grant.scope, "args": decision.grant.args}} if decision.grant else {}
        audit.record(
            connection, "attempt_refused", actor=person.name, via=via, action_id=action_id,
            thread_id=action.thread_id if action else None, run_id=action.run_id if action else None,
            code=code, decision=decision.kind, **wish,
        )  # fmt: skip

    async def escalate(self, moment: str) -> None:
        """Write down that further people may decide what nobody has decided in time."""
        await self._database.write(partial(deadlines.escalate_due, moment=moment))

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


def tell_grants(log: RunLog, given: Iterable[Given]) -> None:
    """Say in the run what was granted beside an approve."""
    for one in given:
        where = {"thread": "in this thread", "user": "for whoever asked", "everyone": "for everyone"}[one.grant.scope]
        text = f"Granted {where}: later calls of {one.grant.tool} like this one."
        log.emit("notice", {"text": f"{text} {one.note}" if one.note else text})
