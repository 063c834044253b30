"""The thread that a person's socket talks in when a message names none."""

from __future__ import annotations

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from butler.storage.agent_tables import socket_threads


def thread_of(connection: Connection, user_id: str) -> str | None:
    """That thread, if there is one; it may have been deleted since."""
    query = select(socket_threads.c.thread_id).where(socket_threads.c.user_id == user_id)
    found: str | None = connection.execute(query).scalar()
    return found


def keep_thread(connection: Connection, user_id: str, thread_id: str) -> None:
    """Remember the thread."""
    connection.execute(
        insert(socket_threads)
        .values(user_id=user_id, thread_id=thread_id)
        .on_conflict_do_update(index_elements=["user_id"], set_={"thread_id": thread_id})
    )
