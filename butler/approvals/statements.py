"""The ledger's most frequent statements, put together once.

SQLAlchemy takes longer to put a statement together than SQLite takes to run it.
"""

from __future__ import annotations

from sqlalchemy import bindparam, insert, select

from butler.storage.tables import actions, runs

ADD_ACTION = insert(actions).returning(actions)
GET_ACTION = select(actions).where(actions.c.action_id == bindparam("wanted"))
ACTIONS_OF_RUN = (
    select(actions).where(actions.c.run_id == bindparam("wanted")).order_by(actions.c.requested_at, actions.c.position)
)
PENDING_OF_THREAD = (
    select(actions)
    .where(actions.c.thread_id == bindparam("wanted"), actions.c.status == "pending")
    .order_by(actions.c.requested_at, actions.c.position)
)
STATUS_OF_RUN = select(runs.c.status).where(runs.c.run_id == bindparam("wanted"))
