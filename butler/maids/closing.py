"""Ending what a run, a thread or a dead process leaves of delegated tasks (D7, F3)."""

from __future__ import annotations

from sqlalchemy import Connection, update

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.clock import stamp
from butler.maids import store
from butler.maids.contract import MaidRunStatus
from butler.maids.reporting import told
from butler.maids.store import MaidRun
from butler.storage.tables import actions
from butler.types import ToolResult

WITHDRAWN = "Not run: the task was over before this was needed."


def close_tasks(connection: Connection, run_id: str, status: MaidRunStatus, why: str) -> list[MaidRun]:
    """Give every open task of a run its outcome, and its call the result, in the transaction that ends the run."""
    closed = store.close_of_run(connection, run_id, status, why)
    for run in closed:
        action = ledger.get(connection, run.action_id) if run.action_id else None
        if action is not None and action.execution == "started":
            text = told(run, store.attempts_of(connection, run.maid_run_id))
            ledger.finish(connection, action.action_id, action.attempts, ToolResult(text, is_error=True))
    return closed


def withdraw_requests(connection: Connection, run: MaidRun) -> list[Action]:
    """Take back what the maid of a task that is over had asked for and nobody needs to answer any more."""
    rows = connection.execute(
        update(actions)
        .where(
            actions.c.run_id == run.run_id, actions.c.tool.startswith("maid:"),
            actions.c.call_id.startswith(f"{run.call_id}:p", autoescape=True), actions.c.execution == "none",
            actions.c.status.in_(("pending", "allowed", "approved")),
        )
        .values(status="cancelled", code=None, result=WITHDRAWN, result_is_error=True, finished_at=stamp())
        .returning(actions)
    ).all()  # fmt: skip
    withdrawn = [Action.of_row(row) for row in rows]
    for action in withdrawn:
        ledger.note(connection, action, "cancelled", actor="butler", via="maid", why=WITHDRAWN)
    return withdrawn


def close_unstarted(connection: Connection, run_id: str) -> list[MaidRun]:
    """End tasks whose call never began, since it was refused, rejected or could not be read; the ledger says why."""
    open_tasks = [run for run in store.of_run(connection, run_id) if not run.is_over]
    if not open_tasks:
        return []
    action = next((one for one in ledger.of_run(connection, run_id) if one.tool == "delegate"), None)
    why = (action.result if action is not None else None) or "The turn ended before the task had begun."
    return store.close_of_run(connection, run_id, "failed", why)
