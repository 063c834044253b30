"""Threads, runs and the visible transcript; a queued message is a run that has not begun (B4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, bindparam, insert, or_, select, update
from sqlalchemy.dialects import sqlite

from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import Principal
from butler.storage.tables import messages, runs, threads
from butler.types import Json

RunStatus = Literal["queued", "running", "parked", "done", "failed", "cancelled"]
ACTIVE = ("running", "parked")
TITLE_LENGTH = 80
HEAD_LENGTH = 200
# Built once: SQLAlchemy takes longer to put a statement together than SQLite to run it.
ADD_THREAD = insert(threads)
ADD_RUN = insert(runs).returning(runs)
GET_RUN = select(runs).where(runs.c.run_id == bindparam("wanted"))
SHOW_THREAD = update(threads).where(threads.c.thread_id == bindparam("wanted"))
UNFINISHED_OF_THREAD = (
    select(runs.c.run_id)
    .where(runs.c.thread_id == bindparam("wanted"), runs.c.status.in_(("queued", *ACTIVE)))
    .limit(1)
)
OLDEST_QUEUED = (
    select(runs.c.run_id)
    .where(runs.c.thread_id == bindparam("wanted"), runs.c.status == "queued")
    .order_by(runs.c.turn)
    .limit(1)
)
_IN_SIGHT = threads.c.turns >= 0  # Else it is deleted, see `butler.storage.deleted`.
ADD_MESSAGES = sqlite.insert(messages).on_conflict_do_nothing(index_elements=["message_id"])


@dataclass(frozen=True)
class Run:
    """One turn on its way from message to outcome; keeps its id through parks and restarts."""

    run_id: str
    thread_id: str
    turn: int
    requester_id: str
    message: str
    status: RunStatus
    reply: str
    error: Json | None
    usage: Json | None
    cancel_requested: bool
    epoch: int
    lease_owner: str | None
    lease_until: float | None
    created_at: str
    updated_at: str

    @property
    def message_head(self) -> str:
        """What a run that has ended keeps of its message; the transcript has the whole."""
        return self.message[:HEAD_LENGTH]

    @classmethod
    def of_row(cls, row: Row[Any]) -> Run:
        """Read a row of ``SELECT runs.*``."""
        return cls(**row._mapping)


@dataclass(frozen=True)
class Lease:
    """Who drives running runs, and until when (seconds since the epoch) that holds without a heartbeat."""

    owner: str
    until: float


@dataclass(frozen=True)
class Entry:
    """One line of the transcript; `message_id` is derived from the run, so a second write changes nothing."""

    message_id: str
    role: Literal["user", "assistant", "tool"]
    text: str
    extra: Json | None = None


def owned_thread(connection: Connection, thread_id: str, person: Principal) -> Row[Any]:
    """The thread's row. Raises ButlerError ``not_found`` also when it is somebody else's and `person` no admin."""
    row = connection.execute(select(threads).where(threads.c.thread_id == thread_id, _IN_SIGHT)).first()
    if row is None or not (person.is_admin or row.owner_id == person.user_id):
        raise ButlerError("not_found", f"There is no thread {thread_id!r}.")
    return row


def create_thread(connection: Connection, person: Principal, title: str, thread_id: str | None = None) -> str:
    """Open an empty thread and give its id, a new one unless one is given."""
    thread_id = thread_id or new_id()
    moment = stamp()
    connection.execute(
        ADD_THREAD,
        {
            "thread_id": thread_id, "owner_id": person.user_id, "title": _short(title), "status": "idle", "turns": 0,
            "created_at": moment, "updated_at": moment,
        },
    )  # fmt: skip
    return thread_id


def _short(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1] + "…"


def active_run(connection: Connection, thread_id: str) -> Run | None:
    """The run that holds the thread: running or parked."""
    row = connection.execute(select(runs).where(runs.c.thread_id == thread_id, runs.c.status.in_(ACTIVE))).first()
    return Run.of_row(row) if row else None


def accept(
    connection: Connection,
    thread_id: str,
    person: Principal,
    message: str,
    lease: Lease,
    *,
    line: str | None = None,
    hold: bool = False,
    run_id: str | None = None,
) -> Run:
    """Take a message in: its run starts at once when the thread is free and is queued otherwise, or on `hold`.

    The transcript keeps `line` in its place, if there is one. The run gets a new id unless one is given.

    Once this transaction is on disk the message survives anything (design, *Persistence*).
    """
    ahead = connection.execute(UNFINISHED_OF_THREAD, {"wanted": thread_id}).first()
    waiting = hold or ahead is not None
    moment = stamp()
    turn = connection.execute(
        update(threads)
        .where(threads.c.thread_id == thread_id)
        .values(
            turns=threads.c.turns + 1,
            updated_at=moment,
            **({} if waiting else {"status": "running"}),
        )
        .returning(threads.c.turns)
    ).scalar_one()
    row = connection.execute(
        ADD_RUN,
        {
            "run_id": run_id or new_id(), "thread_id": thread_id, "turn": turn, "requester_id": person.user_id,
            "message": message, "status": "queued" if waiting else "running", "created_at": moment,
            "updated_at": moment, "lease_owner": None if waiting else lease.owner,
            "lease_until": None if waiting else lease.until,
        },
    ).one()  # fmt: skip
    run = Run.of_row(row)
    write_entries(connection, run, [Entry(f"{run.run_id}:user", "user", message if line is None else line)])
    return run


def write_entries(connection: Connection, run: Run, entries: Sequence[Entry]) -> None:
    """Add lines to the transcript; lines that are there already stay as they are."""
    if not entries:
        return
    moment = stamp()
    rows = [
        {
            "message_id": entry.message_id, "thread_id": run.thread_id, "run_id": run.run_id, "turn": run.turn,
            "role": entry.role, "text": entry.text, "extra": entry.extra, "created_at": moment,
        }
        for entry in entries
    ]  # fmt: skip
    connection.execute(ADD_MESSAGES, rows)


def get_run(connection: Connection, run_id: str) -> Run | None:
    """The run with that id."""
    row = connection.execute(GET_RUN, {"wanted": run_id}).first()
    return Run.of_row(row) if row else None


def move_run(
    connection: Connection, run_id: str, old: Sequence[RunStatus], new: RunStatus, **values: Any
) -> Run | None:
    """Change a run's status if it is one of `old`; None when somebody else was faster. Keeps the thread in step."""
    moment = stamp()
    row = connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id, runs.c.status.in_(old))
        .values(status=new, updated_at=moment, **values)
        .returning(runs)
    ).first()
    if row is None:
        return None
    run = Run.of_row(row)
    if new != "queued":
        shown = new if new in ACTIVE else "idle"
        connection.execute(SHOW_THREAD, {"wanted": run.thread_id, "status": shown, "updated_at": moment})
    return run


def start_next(connection: Connection, thread_id: str, lease: Lease) -> Run | None:
    """Begin the oldest queued run of a free thread."""
    queued = connection.execute(OLDEST_QUEUED, {"wanted": thread_id}).scalar()
    if queued is None or active_run(connection, thread_id) is not None:
        return None
    return move_run(connection, queued, ["queued"], "running", lease_owner=lease.owner, lease_until=lease.until)


def next_turn(connection: Connection, thread_id: str) -> int:
    """Take the thread's next turn number without holding the thread."""
    turn: int = connection.execute(
        update(threads)
        .where(threads.c.thread_id == thread_id)
        .values(turns=threads.c.turns + 1, updated_at=stamp())
        .returning(threads.c.turns)
    ).scalar_one()
    return turn


def ask_to_cancel(connection: Connection, run: Run) -> Run:
    """Cancel a queued run at once; note the wish on a running or parked one, so that a crash doesn't lose it."""
    row = connection.execute(
        update(runs)
        .where(runs.c.run_id == run.run_id, runs.c.status == "queued")
        .values(status="cancelled", updated_at=stamp())
        .returning(runs)
    ).first()
    if row is not None:
        return Run.of_row(row)
    connection.execute(
        update(runs).where(runs.c.run_id == run.run_id, runs.c.status.in_(ACTIVE)).values(cancel_requested=True)
    )
    return run


def run_ids(connection: Connection, thread_id: str) -> list[str]:
    """The ids of a thread's runs that have not ended."""
    return list(
        connection.execute(
            select(runs.c.run_id).where(runs.c.thread_id == thread_id, runs.c.status.in_(("queued", *ACTIVE)))
        ).scalars()
    )


def unfinished(connection: Connection) -> tuple[list[Run], list[str]]:
    """Runs that are marked running, and threads where a queued message waits and nothing holds the thread."""
    running = connection.execute(select(runs).where(runs.c.status == "running")).all()
    active = select(runs.c.thread_id).where(runs.c.status.in_(ACTIVE))
    waiting = connection.execute(
        select(runs.c.thread_id).where(runs.c.status == "queued", runs.c.thread_id.not_in(active)).distinct()
    ).scalars()
    return [Run.of_row(row) for row in running], list(waiting)


def renew_leases(connection: Connection, lease: Lease) -> None:
    """Heartbeat: everything that this server drives is its own for another while."""
    connection.execute(
        update(runs)
        .where(runs.c.status == "running", runs.c.lease_owner == lease.owner)
        .values(lease_until=lease.until)
    )


def list_threads(
    connection: Connection, person: Principal, limit: int, before: tuple[str, str] | None
) -> list[Row[Any]]:
    """Threads that `person` may see, most recently changed first; `before` is (updated_at, thread_id) of the last."""
    query = (
        select(threads).where(_IN_SIGHT).order_by(threads.c.updated_at.desc(), threads.c.thread_id.desc()).limit(limit)
    )
    if not person.is_admin:
        query = query.where(threads.c.owner_id == person.user_id)
    if before is not None:
        moment, thread_id = before
        query = query.where(
            or_(
                threads.c.updated_at < moment,
                (threads.c.updated_at == moment) & (threads.c.thread_id < thread_id),
            )
        )
    return list(connection.execute(query).all())


def transcript(connection: Connection, thread_id: str, limit: int, before: str | None) -> list[Row[Any]]:
    """The newest `limit` lines of the transcript, or of what stands before line `before`, oldest first."""
    query = (
        select(messages)
        .where(messages.c.thread_id == thread_id)
        .order_by(messages.c.turn.desc(), messages.c.seq.desc())
        .limit(limit)
    )
    if before is not None:
        mark = connection.execute(
            select(messages.c.turn, messages.c.seq).where(
                messages.c.thread_id == thread_id, messages.c.message_id == before
            )
        ).first()
        if mark is None:
            raise ButlerError("not_found", f"There is no message {before!r} in this thread.")
        query = query.where(
            or_(messages.c.turn < mark.turn, (messages.c.turn == mark.turn) & (messages.c.seq < mark.seq))
        )
    return list(reversed(connection.execute(query).all()))


def thread_ids(connection: Connection) -> tuple[set[str], list[str]]:
    """The ids of all threads but deleted ones, and of those that are idle."""
    rows = connection.execute(select(threads.c.thread_id, threads.c.status).where(_IN_SIGHT)).all()
    return {row.thread_id for row in rows}, [row.thread_id for row in rows if row.status == "idle"]
