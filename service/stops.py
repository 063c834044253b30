"""How a run stops, in one commit each: parked, or over with the thread's next message begun (F3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, select

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.maids.closing import close_tasks, close_unstarted
from butler.storage import audit, conversations, users
from butler.storage.conversations import Entry, Lease, Run
from butler.storage.tables import actions
from butler.types import Json
from service.notify.hooks import Told

NOT_STARTED = "This message was not started: whoever sent it may not sign in any more."


@dataclass(frozen=True)
class Next:
    """The run that a thread goes on with, if any, and those before it that were ended without a start."""

    run: Run | None
    dropped: tuple[Run, ...] = ()


def park(
    connection: Connection, run: Run, waiting: Sequence[str], entries: Sequence[Entry], reply: str, usage: Json | None
) -> tuple[Run, list[Action]] | Literal["answered", "gone"]:
    """Mark a run parked, unless one of the actions it waits for has been answered meanwhile or it was deleted."""
    if conversations.get_run(connection, run.run_id) is None:
        return "gone"
    open_questions = connection.execute(
        select(func.count()).select_from(actions).where(actions.c.action_id.in_(waiting), actions.c.status == "pending")
    ).scalar_one()
    if open_questions < len(waiting):
        return "answered"
    parked = conversations.move_run(
        connection, run.run_id, ["running"], "parked", reply=reply, usage=usage, lease_owner=None, lease_until=None
    )
    if parked is None:
        return "gone"
    conversations.write_entries(connection, parked, entries)
    return parked, ledger.pending_of_thread(connection, run.thread_id)


def end(
    connection: Connection,
    run: Run,
    status: Literal["done", "failed", "cancelled"],
    entries: Sequence[Entry],
    *,
    reply: str,
    error: Json | None,
    usage: Json | None,
    tell: Told,
) -> Run | None:
    """Write the outcome and the transcript; None when the run was deleted."""
    ended = conversations.move_run(
        connection, run.run_id, ["running"], status, reply=reply, error=error, usage=usage, lease_owner=None,
        lease_until=None, message=run.message_head,
    )  # fmt: skip
    if ended is not None:
        close_unstarted(connection, run.run_id)
        conversations.write_entries(connection, ended, entries)
        tell(connection, ended)
    return ended


def cancel_open(
    connection: Connection, run_id: str, status: Literal["failed", "cancelled"], *, actor: str, via: str, why: str
) -> list[Action]:
    """End what a run leaves open: its delegated tasks, then every other call."""
    close_tasks(connection, run_id, status, f"{why[0].upper()}{why[1:]}.")
    return ledger.cancel_open(connection, run_id, actor=actor, via=via, why=why)


def start_next(connection: Connection, thread_id: str, lease: Lease) -> Next:
    """Begin the oldest queued run whose sender may still chat; those before it end as cancelled, and say why."""
    dropped: list[Run] = []
    while (run := conversations.start_next(connection, thread_id, lease)) is not None:
        if not users.is_shut_out(connection, run.requester_id):
            break
        dropped.append(_drop(connection, run))
    return Next(run, tuple(dropped))


def _drop(connection: Connection, run: Run) -> Run:
    ended = conversations.move_run(
        connection, run.run_id, ["running"], "cancelled", reply=NOT_STARTED, lease_owner=None, lease_until=None
    )
    close_tasks(connection, run.run_id, "cancelled", NOT_STARTED)
    conversations.write_entries(connection, run, [Entry(f"{run.run_id}:reply", "assistant", NOT_STARTED)])
    audit.record(
        connection, "cancelled", actor="butler", via="run", thread_id=run.thread_id, run_id=run.run_id, why=NOT_STARTED
    )
    return ended or run
