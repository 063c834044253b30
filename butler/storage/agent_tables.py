"""The tables of downstream agents, and of the thread that a person's socket talks in (B5)."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, String, Table, Text

from butler.storage.chat_tables import metadata

__all__ = ["agents", "metadata", "socket_threads"]

agents = Table(
    "agents",
    metadata,
    # An agent is a user with the role `agent`; one without a row here has said and been told nothing yet.
    Column("agent_id", ForeignKey("users.user_id", ondelete="CASCADE"), primary_key=True),
    Column("description", Text, nullable=False, server_default=""),
    Column("capabilities", JSON, nullable=False, server_default="[]"),
    Column("last_seen", String(32)),
    # Since when the user's name is this agent's; NULL: since the user was made.
    Column("named_at", String(32)),
    Column("last_report", Text),
    Column("reported_at", String(32)),
)

socket_threads = Table(
    "socket_threads",
    metadata,
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), primary_key=True),
    Column("thread_id", String(64), nullable=False),
)
