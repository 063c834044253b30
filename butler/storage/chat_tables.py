"""The table that ties the chats of OpenAI clients, which name no thread, to threads (E1)."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, text

from butler.storage.maid_tables import metadata

__all__ = ["client_turns", "metadata"]
"""`metadata` comes through the file before, so that whoever takes it from here has every table."""

client_turns = Table(
    "client_turns",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), nullable=False),
    Column("thread_id", ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("run_id", String(64), nullable=False),
    # SHA-256 each, never the words: what the chat goes by, and all that its user had said so far.
    Column("chat", String(64), nullable=False),
    Column("said", String(64), nullable=False),
    Column("delivered", Boolean, nullable=False, server_default=text("0")),
    Column("created_at", String(32), nullable=False),
    Index("client_turns_of_chat", "user_id", "chat", "seq"),
    Index("client_turns_of_thread", "thread_id", "seq"),
)
