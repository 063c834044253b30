"""What happens to a pending action when its time comes (A9)."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from butler.approvals.actions import Action
from butler.approvals.ledger import note
from butler.storage.tables import actions


def expire_due(connection: Connection, moment: str) -> list[Action]:
    """Expire every pending action whose time is over; nobody answered, so nothing runs (A9)."""
    rows = connection.execute(
        update(actions)
        .where(actions.c.status == "pending", actions.c.expires_at.is_not(None), actions.c.expires_at <= moment)
        .values(
            status="expired", code=None, result_is_error=True, finished_at=moment,
            result="Not run: nobody answered the approval request in time, so it expired.",
        )
        .returning(actions)
    ).all()  # fmt: skip
    expired = [Action.of_row(row) for row in rows]
    for action in expired:
        note(connection, action, "expired", actor="butler", via="clock")
    return expired


def next_expiry(connection: Connection) -> str | None:
    """When the next pending action expires."""
    return connection.execute(
        select(actions.c.expires_at)
        .where(actions.c.status == "pending", actions.c.expires_at.is_not(None))
        .order_by(actions.c.expires_at)
        .limit(1)
    ).scalar()
