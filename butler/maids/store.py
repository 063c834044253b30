"""Delegated tasks and their attempts in the database: each change one guarded statement that can lose (D7, D9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, func, insert, or_, select, update

from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import new_id
from butler.maids.contract import AttemptStatus, FailureClass, MaidRunStatus
from butler.people import Principal
from butler.storage.maid_tables import maid_attempts, maid_runs
from butler.types import Json

TASKS_OF_RUN = (
    select(maid_runs).where(maid_runs.c.run_id == bindparam("wanted")).order_by(maid_runs.c.created_at)
)  # fmt: skip
"""Asked at the end of every turn, so it is put together once."""

MOST_UNFINISHED = 50
"""How many tasks of one person may be without their outcome; more would wait for hours and fill the disk."""


@dataclass(frozen=True)
class MaidRun:
    """A delegated task; the fields are those of the table ``maid_runs``. `status` never says that it waits."""

    maid_run_id: str
    thread_id: str
    run_id: str
    action_id: str | None
    call_id: str | None
    requester_id: str
    requested_by: str
    intent: str
    instruction: str
    project_root: str
    constraints: list[str]
    expect: Json | None
    maid_id: str | None
    route: Json | None
    retry: Json | None
    status: MaidRunStatus
    reason: str
    workspace: Json | None
    diff: Json | None
    reviews: int
    extra_attempts: int
    feedback: str | None
    created_at: str
    updated_at: str
    finished_at: str | None

    @classmethod
    def of_row(cls, row: Row[Any]) -> MaidRun:
        """Read a row of ``SELECT maid_runs.*``."""
        return cls(**row._mapping)

    @property
    def is_over(self) -> bool:
        """Whether its outcome stands."""
        return self.status != "running"


@dataclass(frozen=True)
class Attempt:
    """One execution of a maid; the fields are those of the table ``maid_attempts``.

    `spends`: it counts against the bound. `finished_at` is set once the maid's process is gone; a `running` attempt
    with it only has to be verified.
    """

    attempt_id: str
    maid_run_id: str
    number: int
    status: AttemptStatus
    spends: bool
    failure_class: FailureClass | None
    started_at: str
    finished_at: str | None
    evidence: Json

    @classmethod
    def of_row(cls, row: Row[Any]) -> Attempt:
        """Read a row of ``SELECT maid_attempts.*``."""
        return cls(**row._mapping)


@dataclass(frozen=True)
class NewMaidRun:
    """What a caller asks for, as it goes into the database."""

    intent: str
    instruction: str
    project_root: str
    constraints: tuple[str, ...] = ()
    expect: Json | None = None


def add(
    connection: Connection, task: NewMaidRun, person: Principal, *, thread_id: str, run_id: str,
    action_id: str | None = None, call_id: str | None = None,
) -> MaidRun:  # fmt: skip
    """Store a task that begins. Raises ButlerError ``rate_limited`` when too many of this person are unfinished."""
    unfinished_ones = select(func.count()).where(
        maid_runs.c.requester_id == person.user_id, maid_runs.c.status == "running"
    )
    if connection.execute(unfinished_ones).scalar_one() >= MOST_UNFINISHED:
        raise ButlerError("rate_limited", f"{MOST_UNFINISHED} of your tasks are not over yet; wait or cancel some.")
    moment = stamp()
    row = connection.execute(
        insert(maid_runs)
        .values(
            maid_run_id=new_id(), thread_id=thread_id, run_id=run_id, action_id=action_id, call_id=call_id,
            requester_id=person.user_id, requested_by=person.name, intent=task.intent, instruction=task.instruction,
            project_root=task.project_root, constraints=list(task.constraints), expect=task.expect, status="running",
            created_at=moment, updated_at=moment,
        )
        .returning(maid_runs)
    ).one()  # fmt: skip
    return MaidRun.of_row(row)


def of_call(
    connection: Connection, task: NewMaidRun, person: Principal, *, thread_id: str, run_id: str, action_id: str,
    call_id: str,
) -> MaidRun:  # fmt: skip
    """The task of one `delegate` call: its own, the one that was begun with the run over HTTP, or a new one.

    Raises:
        ButlerError: ``rate_limited`` when a new one would be too many; what exists is never refused.
    """
    row = connection.execute(select(maid_runs).where(maid_runs.c.action_id == action_id)).first()
    if row is not None:
        return MaidRun.of_row(row)
    row = connection.execute(
        update(maid_runs)
        .where(maid_runs.c.run_id == run_id, maid_runs.c.action_id.is_(None), maid_runs.c.status == "running")
        # What runs is what stands in the ledger: a person may have edited the call before approving it.
        .values(
            action_id=action_id, call_id=call_id, intent=task.intent, instruction=task.instruction,
            project_root=task.project_root, constraints=list(task.constraints), expect=task.expect, updated_at=stamp(),
        )
        .returning(maid_runs)
    ).first()  # fmt: skip
    if row is not None:
        return MaidRun.of_row(row)
    return add(connection, task, person, thread_id=thread_id, run_id=run_id, action_id=action_id, call_id=call_id)


def get(connection: Connection, maid_run_id: str) -> MaidRun | None:
    """The task with that id."""
    row = connection.execute(select(maid_runs).where(maid_runs.c.maid_run_id == maid_run_id)).first()
    return MaidRun.of_row(row) if row else None


def of_run(connection: Connection, run_id: str) -> list[MaidRun]:
    """The tasks of a run, oldest first."""
    return [MaidRun.of_row(row) for row in connection.execute(TASKS_OF_RUN, {"wanted": run_id})]


def change(connection: Connection, maid_run_id: str, **values: Any) -> MaidRun | None:
    """Note something about a task that is not over; None when it is, or gone."""
    row = connection.execute(
        update(maid_runs)
        .where(maid_runs.c.maid_run_id == maid_run_id, maid_runs.c.status == "running")
        .values(updated_at=stamp(), **values)
        .returning(maid_runs)
    ).first()
    return MaidRun.of_row(row) if row else None


def finish(connection: Connection, maid_run_id: str, status: MaidRunStatus, reason: str) -> MaidRun | None:
    """Give a task its one outcome; None when it has one, or is gone."""
    return change(connection, maid_run_id, status=status, reason=reason, finished_at=stamp())


def next_review(connection: Connection, run: MaidRun, **values: Any) -> MaidRun | None:
    """Turn to the next question about the diff; None when somebody has done so already."""
    row = connection.execute(
        update(maid_runs)
        .where(
            maid_runs.c.maid_run_id == run.maid_run_id, maid_runs.c.status == "running",
            maid_runs.c.reviews == run.reviews,
        )
        .values(reviews=run.reviews + 1, updated_at=stamp(), **values)
        .returning(maid_runs)
    ).first()  # fmt: skip
    return MaidRun.of_row(row) if row else None


def attempts_of(connection: Connection, maid_run_id: str) -> list[Attempt]:
    """The attempts of a task in order."""
    query = select(maid_attempts).where(maid_attempts.c.maid_run_id == maid_run_id).order_by(maid_attempts.c.number)
    return [Attempt.of_row(row) for row in connection.execute(query)]


def begin_attempt(connection: Connection, maid_run_id: str, evidence: Json | None = None) -> Attempt | None:
    """Count an attempt before anything is launched; None when the task is over or an attempt is under way."""
    run = get(connection, maid_run_id)
    known = attempts_of(connection, maid_run_id)
    if run is None or run.is_over or any(one.status == "running" for one in known):
        return None
    evidence = dict(evidence or {})
    if run.feedback:
        evidence["feedback"] = run.feedback
        change(connection, maid_run_id, feedback=None)
    row = connection.execute(
        insert(maid_attempts)
        .values(
            attempt_id=new_id(), maid_run_id=maid_run_id, number=len(known) + 1, status="running", spends=True,
            started_at=stamp(), evidence=evidence,
        )
        .returning(maid_attempts)
    ).one()  # fmt: skip
    return Attempt.of_row(row)


def attempt_ended(connection: Connection, attempt_id: str, evidence: Json) -> Attempt | None:
    """The maid's process is gone; what it did has still to be looked at."""
    return _move(connection, attempt_id, evidence, finished_at=stamp())


def note_evidence(connection: Connection, attempt_id: str, evidence: Json) -> Attempt | None:
    """Keep what is known of an attempt that is being stopped; how it ended is told later."""
    return _move(connection, attempt_id, evidence, maid_attempts.c.finished_at.is_(None))


def settle_attempt(
    connection: Connection, attempt_id: str, status: AttemptStatus, *, evidence: Json | None = None,
    failure_class: FailureClass | None = None, spends: bool = True,
) -> Attempt | None:  # fmt: skip
    """Give a running attempt its result; None when it has one. `evidence` replaces what is stored."""
    moment = func.coalesce(maid_attempts.c.finished_at, stamp())
    return _move(
        connection, attempt_id, evidence, status=status, failure_class=failure_class, spends=spends, finished_at=moment
    )


def _move(
    connection: Connection, attempt_id: str, evidence: Json | None, *where: ColumnElement[bool], **values: Any
) -> Attempt | None:
    if evidence is not None:
        values["evidence"] = evidence
    if not values:
        return None
    row = connection.execute(
        update(maid_attempts)
        .where(maid_attempts.c.attempt_id == attempt_id, maid_attempts.c.status == "running", *where)
        .values(**values)
        .returning(maid_attempts)
    ).first()
    return Attempt.of_row(row) if row else None


def interrupt_attempts(connection: Connection, run_ids: Sequence[str] | None = None) -> list[Attempt]:
    """Attempts whose process died with this server become ``interrupted`` and keep their number (of all runs if None).

    Those whose maid had ended already stay: they only have to be verified.
    """
    of_these = [] if run_ids is None else [maid_runs.c.run_id.in_(run_ids)]
    tasks = select(maid_runs.c.maid_run_id).where(*of_these)
    rows = connection.execute(
        update(maid_attempts)
        .where(
            maid_attempts.c.status == "running", maid_attempts.c.finished_at.is_(None),
            maid_attempts.c.maid_run_id.in_(tasks),
        )
        .values(status="interrupted", finished_at=stamp())
        .returning(maid_attempts)
    ).all()  # fmt: skip
    return [Attempt.of_row(row) for row in rows]


def unspend(connection: Connection, attempt: Attempt) -> None:
    """Don't count an interrupted attempt against the bound."""
    ended = (maid_attempts.c.attempt_id == attempt.attempt_id) & (maid_attempts.c.status == "interrupted")
    connection.execute(update(maid_attempts).where(ended).values(spends=False))


def close_of_run(connection: Connection, run_id: str, status: MaidRunStatus, reason: str) -> list[MaidRun]:
    """End what a run leaves open when it ends: its tasks, and their attempts as ``cancelled``."""
    tasks = [run for run in of_run(connection, run_id) if not run.is_over]
    for run in tasks:
        connection.execute(
            update(maid_attempts)
            .where(maid_attempts.c.maid_run_id == run.maid_run_id, maid_attempts.c.status == "running")
            .values(status="cancelled", failure_class="cancelled", finished_at=stamp())
        )
    return [ended for run in tasks if (ended := finish(connection, run.maid_run_id, status, reason)) is not None]


def listed(connection: Connection, person: Principal, limit: int, before: tuple[str, str] | None) -> list[MaidRun]:
    """The newest tasks that `person` may see; `before` is (created_at, maid_run_id) of the last one seen."""
    query = select(maid_runs).order_by(maid_runs.c.created_at.desc(), maid_runs.c.maid_run_id.desc()).limit(limit)
    if not person.is_admin:
        query = query.where(maid_runs.c.requester_id == person.user_id)
    if before is not None:
        moment, maid_run_id = before
        earlier = (maid_runs.c.created_at == moment) & (maid_runs.c.maid_run_id < maid_run_id)
        query = query.where(or_(maid_runs.c.created_at < moment, earlier))
    return [MaidRun.of_row(row) for row in connection.execute(query)]


def set_aside(connection: Connection, attempt: Attempt) -> None:
    """Keep the tree of an interrupted attempt as its evidence; the next one gets a fresh tree."""
    run = get(connection, attempt.maid_run_id)
    if run is None or run.is_over or run.workspace is None:
        return
    connection.execute(
        update(maid_attempts)
        .where(maid_attempts.c.attempt_id == attempt.attempt_id)
        .values(evidence=attempt.evidence | {"workspace": run.workspace})
    )
    change(connection, run.maid_run_id, workspace=None, diff=None)


def delete_of_thread(connection: Connection, thread_id: str) -> list[MaidRun]:
    """Remove the tasks of a thread that is deleted; gives them, since their folders have to go too."""
    rows = connection.execute(delete(maid_runs).where(maid_runs.c.thread_id == thread_id).returning(maid_runs)).all()
    return [MaidRun.of_row(row) for row in rows]


def known_of(connection: Connection, ids: Sequence[str]) -> list[MaidRun]:
    """Those tasks of `ids` that there are."""
    query = select(maid_runs).where(maid_runs.c.maid_run_id.in_(ids))
    return [MaidRun.of_row(row) for row in connection.execute(query)]


def unfinished(connection: Connection) -> list[MaidRun]:
    """The tasks that are not over."""
    return [MaidRun.of_row(row) for row in connection.execute(select(maid_runs).where(maid_runs.c.status == "running"))]
