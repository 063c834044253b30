"""What happens to a pending action when its time comes: it expires, or further people may decide it (A9)."""

from __future__ import annotations

from sqlalchemy import Connection, or_, select, update

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


def escalate_due(connection: Connection, moment: str, action_id: str | None = None) -> list[Action]:
    """Write down that `escalate_to` may decide what nobody decided in time, of one action or of all."""
    one = () if action_id is None else (actions.c.action_id == action_id,)
    rows = connection.execute(
        update(actions)
        .where(
            actions.c.status == "pending",
            actions.c.escalate_at.is_not(None),
            actions.c.escalated_at.is_(None),
            actions.c.escalate_at <= moment,
            # What has expired by now is nobody's to decide any more.
            or_(actions.c.expires_at.is_(None), actions.c.expires_at > moment),
            *one,
        )
        .values(escalated_at=moment)
        .returning(actions)
    ).all()
    escalated = [Action.of_row(row) for row in rows]
    for action in escalated:
        note(connection, action, "escalated", actor="butler", via="clock", to=action.escalate_to)
    return escalated


def next_escalation(connection: Connection) -> str | None:
    """When the next pending action escalates."""
    return connection.execute(
        select(actions.c.escalate_at)
        .where(actions.c.status == "pending", actions.c.escalate_at.is_not(None), actions.c.escalated_at.is_(None))
        .order_by(actions.c.escalate_at)
        .limit(1)
    ).scalar()
