"""Rows that nothing refers to any more, and what was forgotten long ago, removed a few at a time (C7)."""

from __future__ import annotations

from sqlalchemy import Connection, text

from butler.storage import deleted, memories

MOST_ROWS = 500
_ORPHANS = tuple(
    text(
        f"DELETE FROM {table} WHERE rowid IN (SELECT o.rowid FROM {table} o WHERE o.action_id IS NOT NULL "
        f"AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.action_id = o.action_id) LIMIT {MOST_ROWS})"
    )
    for table in ("sightings", "links", "notifications")
)


def sweep(connection: Connection) -> int:
    """Remove orphans, old forgotten memories and what is left of deleted threads; 0 when there was nothing to do.

    The search index needs no sweep: its triggers keep it in step with the transcript.
    """
    gone = sum(connection.execute(orphans).rowcount for orphans in _ORPHANS)
    return gone + memories.sweep(connection) + deleted.sweep(connection)
