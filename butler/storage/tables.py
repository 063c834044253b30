"""The tables of butler.db as SQLAlchemy Core metadata; migrations build exactly these."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)

metadata = MetaData()

NULLABLE_JSON = JSON(none_as_null=True)
"""Absent is NULL, so that an index or a condition can tell."""

users = Table(
    "users",
    metadata,
    Column("user_id", String(64), primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("disabled_at", String(32)),
    CheckConstraint("role IN ('admin', 'member', 'agent')", name="role_known"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("revoked_at", String(32)),
    Column("token_id", String(16), nullable=False, server_default=""),
    Column("label", String(64), nullable=False, server_default=""),
    Column("expires_at", String(32)),
    Index("tokens_of_user", "user_id"),
)

DELETED = -1_000_000_000
"""As the number of turns: the thread is deleted, and its lines are being removed. No count of turns comes near it."""

threads = Table(
    "threads",
    metadata,
    Column("thread_id", String(64), primary_key=True),
    Column("owner_id", ForeignKey("users.user_id"), nullable=False),
    Column("title", String(200), nullable=False),
    Column("status", String(16), nullable=False),
    Column("turns", Integer, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    CheckConstraint("status IN ('idle', 'running', 'parked')", name="thread_status_known"),
    Index("threads_by_owner", "owner_id", "updated_at"),
    Index("threads_by_update", "updated_at"),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("thread_id", ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("requester_id", ForeignKey("users.user_id"), nullable=False),
    Column("message", Text, nullable=False),
    Column("status", String(16), nullable=False),
    Column("reply", Text, nullable=False, server_default=""),
    Column("error", NULLABLE_JSON),
    Column("usage", NULLABLE_JSON),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("0")),
    Column("epoch", Integer, nullable=False, server_default=text("0")),
    Column("lease_owner", String(64)),
    Column("lease_until", Float),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    UniqueConstraint("thread_id", "turn", name="one_run_per_turn"),
    CheckConstraint(
        "status IN ('queued', 'running', 'parked', 'done', 'failed', 'cancelled')", name="run_status_known"
    ),
    # The race of two turns of one thread ends here: the second insert or update fails.
    Index(
        "one_active_run_per_thread",
        "thread_id",
        unique=True,
        sqlite_where=text("status IN ('running', 'parked')"),
        postgresql_where=text("status IN ('running', 'parked')"),
    ),
    Index(
        "runs_unfinished",
        "status",
        "thread_id",
        sqlite_where=text("status IN ('running', 'queued')"),
        postgresql_where=text("status IN ('running', 'queued')"),
    ),
)

messages = Table(
    "messages",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("message_id", String(64), nullable=False, unique=True),
    Column("thread_id", ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("run_id", String(64), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("role", String(16), nullable=False),
    Column("text", Text, nullable=False),
    Column("extra", NULLABLE_JSON),
    Column("created_at", String(32), nullable=False),
    CheckConstraint("role IN ('user', 'assistant', 'tool')", name="message_role_known"),
    Index("messages_of_thread", "thread_id", "turn", "seq"),
)

actions = Table(
    "actions",
    metadata,
    Column("action_id", String(64), primary_key=True),
    Column("code", String(8)),
    Column("thread_id", String(64), nullable=False),
    Column("run_id", String(64), nullable=False),
    Column("call_id", String(128), nullable=False),
    Column("position", Integer, nullable=False),
    Column("tool", String(128), nullable=False),
    Column("args", JSON, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("tool_digest", String(64), nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("title", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rule", String(128), nullable=False),
    Column("risk", String(16), nullable=False),
    Column("deciders", NULLABLE_JSON),
    Column("requested_by", String(64), nullable=False),
    Column("requester_id", String(64), nullable=False),
    Column("requester_role", String(16), nullable=False),
    Column("requested_at", String(32), nullable=False),
    Column("expires_at", String(32)),
    Column("status", String(16), nullable=False),
    Column("decision", NULLABLE_JSON),
    Column("run_args", NULLABLE_JSON),
    Column("run_fingerprint", String(64)),
    Column("execution", String(16), nullable=False),
    Column("started_at", String(32)),
    Column("finished_at", String(32)),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("result", Text),
    Column("result_is_error", Boolean),
    Column("approvals_needed", Integer, nullable=False, server_default=text("1")),
    Column("approved_by", NULLABLE_JSON),
    Column("escalate_at", String(32)),
    Column("escalate_to", NULLABLE_JSON),
    Column("escalated_at", String(32)),
    UniqueConstraint("run_id", "call_id", name="one_action_per_call"),
    CheckConstraint(
        "status IN ('allowed', 'refused', 'pending', 'approved', 'rejected', 'expired', 'cancelled')",
        name="action_status_known",
    ),
    CheckConstraint("execution IN ('none', 'started', 'done', 'failed', 'unknown')", name="execution_known"),
    Index("actions_of_run", "run_id", "position"),
    Index("actions_of_thread", "thread_id", "requested_at"),
    Index("actions_of_tool", "tool", "requested_at"),
    Index(
        "actions_pending",
        "requested_at",
        "action_id",
        sqlite_where=text("status = 'pending'"),
        postgresql_where=text("status = 'pending'"),
    ),
    Index(
        "actions_pending_of_requester",
        "requester_id",
        "requested_at",
        "action_id",
        sqlite_where=text("status = 'pending'"),
        postgresql_where=text("status = 'pending'"),
    ),
    Index(
        "one_pending_action_per_code",
        "code",
        unique=True,
        sqlite_where=text("status = 'pending'"),
        postgresql_where=text("status = 'pending'"),
    ),
    Index(
        "actions_expiring",
        "expires_at",
        sqlite_where=text("status = 'pending' AND expires_at IS NOT NULL"),
        postgresql_where=text("status = 'pending' AND expires_at IS NOT NULL"),
    ),
    Index(
        "actions_escalating",
        "escalate_at",
        sqlite_where=text("status = 'pending' AND escalate_at IS NOT NULL AND escalated_at IS NULL"),
        postgresql_where=text("status = 'pending' AND escalate_at IS NOT NULL AND escalated_at IS NULL"),
    ),
    Index(
        "actions_pending_named",
        "requested_at",
        "action_id",
        sqlite_where=text("status = 'pending' AND (deciders IS NOT NULL OR escalate_to IS NOT NULL)"),
        postgresql_where=text("status = 'pending' AND (deciders IS NOT NULL OR escalate_to IS NOT NULL)"),
    ),
    Index(
        "actions_started",
        "run_id",
        sqlite_where=text("execution = 'started'"),
        postgresql_where=text("execution = 'started'"),
    ),
)

grants = Table(
    "grants",
    metadata,
    Column("grant_id", String(64), primary_key=True),
    Column("tool", String(128), nullable=False),
    Column("tool_digest", String(64), nullable=False),
    Column("scope", String(16), nullable=False),
    Column("scope_id", String(64)),
    Column("args", JSON, nullable=False),
    Column("granted_by", String(64), nullable=False),
    Column("granted_at", String(32), nullable=False),
    Column("expires_at", String(32)),
    Column("uses_left", Integer),
    Column("revoked_at", String(32)),
    Column("action_id", String(64)),
    Column("closed", Boolean, nullable=False, server_default=text("0")),
    Column("revoked_by", String(64)),
    CheckConstraint("scope IN ('thread', 'user', 'everyone')", name="scope_known"),
    Index("grants_of_tool", "tool"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("at", String(32), nullable=False),
    Column("event", String(32), nullable=False),
    Column("actor", String(64), nullable=False),
    Column("via", String(16), nullable=False),
    Column("thread_id", String(64)),
    Column("run_id", String(64)),
    Column("action_id", String(64)),
    Column("data", JSON, nullable=False),
    Column("hash", String(64), nullable=False, server_default=""),
    Index("audit_by_action", "action_id"),
)

audit_head = Table(
    "audit_head",
    metadata,
    Column("only", Integer, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
    CheckConstraint("only = 1", name="one_head"),
)

AUDIT_TRIGGERS = (
    "CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit "
    "BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END",
    "CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit "
    "BEGIN SELECT RAISE(ABORT, 'audit rows are never deleted'); END",
    "CREATE TRIGGER audit_is_never_replaced BEFORE INSERT ON audit WHEN NEW.seq <= (SELECT max(seq) FROM audit) "
    "BEGIN SELECT RAISE(ABORT, 'audit rows are never replaced'); END",
)
"""SQLite itself refuses to touch an audit row; who goes round it is found by the chain of hashes."""

for statement in AUDIT_TRIGGERS:
    event.listen(audit, "after_create", DDL(statement).execute_if(dialect="sqlite"))  # type: ignore[no-untyped-call]

sightings = Table(
    "sightings",
    metadata,
    Column("action_id", String(64), primary_key=True),
    Column("user_id", String(64), primary_key=True),
    Column("via", String(16), primary_key=True),
    Column("at", String(32), nullable=False),
)

notifications = Table(
    "notifications",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("subject", String(300), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), nullable=False),
    Column("channel", String(64), nullable=False),
    Column("action_id", String(64)),
    Column("run_id", String(64)),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("next_at", String(32), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("finished_at", String(32)),
    Column("error", Text),
    CheckConstraint("status IN ('queued', 'sent', 'failed', 'dropped')", name="notification_status_known"),
    Index(
        "notifications_due",
        "next_at",
        sqlite_where=text("status = 'queued'"),
        postgresql_where=text("status = 'queued'"),
    ),
)

links = Table(
    "links",
    metadata,
    Column("link_id", String(64), primary_key=True),
    Column("action_id", String(64), nullable=False),
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("expires_at", String(32)),
    Column("used_at", String(32)),
    Index("links_of_action", "action_id"),
)

memories = Table(
    "memories",
    metadata,
    Column("memory_id", String(16), primary_key=True),
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), nullable=False),
    Column("text", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("importance", Integer, nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Column("by", String(64), nullable=False),
    Column("via", String(16), nullable=False),
    Column("thread_id", String(64)),
    Column("run_id", String(64)),
    Column("forgotten_at", String(32)),
    Column("merged_into", String(16)),
    CheckConstraint("importance BETWEEN 1 AND 10", name="importance_known"),
    Index("memories_of_user", "user_id", "importance", "updated_at"),
    Index("memories_merged", "merged_into", sqlite_where=text("merged_into IS NOT NULL")),
    Index(
        "one_memory_of_a_text",
        "user_id",
        "digest",
        unique=True,
        sqlite_where=text("forgotten_at IS NULL"),
        postgresql_where=text("forgotten_at IS NULL"),
    ),
)

memory_blocks = Table(
    "memory_blocks",
    metadata,
    Column("thread_id", ForeignKey("threads.thread_id", ondelete="CASCADE"), primary_key=True),
    Column("user_id", ForeignKey("users.user_id", ondelete="CASCADE"), nullable=False),
    Column("text", Text, nullable=False),
    Column("taken_at", String(32), nullable=False),
    Index("memory_blocks_of_user", "user_id"),
)
"""What a thread's prompt says of its person; here and not in the checkpoint, so that erasing reaches it at once."""

search_state = Table(
    "search_state",
    metadata,
    Column("only", Integer, primary_key=True),
    Column("upto", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    CheckConstraint("only = 1", name="one_search_state"),
)

SEARCH_STATEMENTS = (
    "CREATE VIRTUAL TABLE message_words USING fts5(words, content='', tokenize=\"unicode61 remove_diacritics 2\")",
    # A number may be given out again once its line is gone, so the mark goes back to the last line there is.
    "CREATE TRIGGER message_words_deleted AFTER DELETE ON messages BEGIN "
    "INSERT INTO message_words (message_words, rowid, words) SELECT 'delete', old.seq, spaced(old.text) "
    "FROM search_state WHERE old.seq <= upto; "
    "UPDATE search_state SET upto = (SELECT coalesce(max(seq), 0) FROM messages) "
    "WHERE upto > (SELECT coalesce(max(seq), 0) FROM messages); END",
    "CREATE TRIGGER message_words_changed AFTER UPDATE OF text ON messages BEGIN "
    "INSERT INTO message_words (message_words, rowid, words) SELECT 'delete', old.seq, spaced(old.text) "
    "FROM search_state WHERE old.seq <= upto; "
    "INSERT INTO message_words (rowid, words) SELECT new.seq, spaced(new.text) "
    "FROM search_state WHERE new.seq <= upto; END",
)
"""The index of `butler.storage.search`; `spaced` is a function that every connection of Butler's knows."""

for statement in SEARCH_STATEMENTS:
    event.listen(metadata, "after_create", DDL(statement).execute_if(dialect="sqlite"))  # type: ignore[no-untyped-call]
