"""Append-only record of who asked, who decided and what happened (A9, B6)."""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import Connection, insert, select

from butler.clock import stamp
from butler.storage.tables import audit

AuditEvent = Literal[
    "requested", "allowed", "refused", "approved", "edited", "responded", "rejected", "expired", "cancelled",
    "attempt_refused", "started", "done", "failed", "unknown", "repeated", "granted", "revoked", "thread_deleted",
    "approved_in_part", "escalated", "changes_requested", "shown",
    "user_added", "role_changed", "user_disabled", "user_enabled", "token_created", "token_rotated", "token_revoked",
]  # fmt: skip


ADD_ROW = insert(audit)
"""Built once: SQLAlchemy takes longer to put a statement together than SQLite to run it."""


def record(
    connection: Connection,
    event: AuditEvent,
    *,
    actor: str,
    via: str,
    thread_id: str | None = None,
    run_id: str | None = None,
    action_id: str | None = None,
    **data: Any,
) -> None:
    """Append one row in the transaction of what it records, so that neither exists without the other."""
    connection.execute(
        ADD_ROW,
        {
            "at": stamp(), "event": event, "actor": actor, "via": via, "thread_id": thread_id, "run_id": run_id,
            "action_id": action_id, "data": data,
        },
    )  # fmt: skip


def rows_since(connection: Connection, since: str | None, limit: int) -> list[dict[str, Any]]:
    """Rows at or after the time `since`, oldest first, at most `limit`."""
    query = select(audit).order_by(audit.c.seq).limit(limit)
    if since is not None:
        query = query.where(audit.c.at >= since)
    return [{str(name): value for name, value in row._mapping.items()} for row in connection.execute(query)]
