"""Which tasks have their diff in the middle of being applied, by the ledger (D6, A8)."""

from __future__ import annotations

from sqlalchemy import Connection, select

from butler.maids.store import MaidRun
from butler.storage.maid_tables import maid_runs
from butler.storage.tables import actions


def being_applied(connection: Connection, thread_id: str | None = None) -> list[MaidRun]:
    """The tasks (of a thread) whose diff is approved and begun; where a process died, half of it may be there."""
    query = (
        select(maid_runs)
        .join(actions, actions.c.run_id == maid_runs.c.run_id)
        .where(
            actions.c.tool == "session_complete", actions.c.execution == "started",
            actions.c.call_id.startswith(maid_runs.c.call_id.concat(":review")),
        )
    )  # fmt: skip
    if thread_id is not None:
        query = query.where(maid_runs.c.thread_id == thread_id)
    return [MaidRun.of_row(row) for row in connection.execute(query)]
