"""The tables of delegated work: tasks, the attempts at them, and how maids did in evaluations (D7, D9, D13)."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from butler.storage.tables import NULLABLE_JSON, metadata

__all__ = ["maid_attempts", "maid_evaluations", "maid_runs", "metadata"]

maid_runs = Table(
    "maid_runs",
    metadata,
    Column("maid_run_id", String(64), primary_key=True),
    Column("thread_id", ForeignKey("threads.thread_id", ondelete="CASCADE"), nullable=False),
    Column("run_id", String(64), nullable=False),
    # Unknown until the call of a run that was begun over HTTP is claimed.
    Column("action_id", String(64), unique=True),
    Column("call_id", String(128)),
    Column("requester_id", String(64), nullable=False),
    Column("requested_by", String(64), nullable=False),
    Column("intent", String(128), nullable=False),
    Column("instruction", Text, nullable=False),
    Column("project_root", Text, nullable=False),
    Column("constraints", JSON, nullable=False),
    Column("expect", NULLABLE_JSON),
    Column("maid_id", String(128)),
    Column("route", NULLABLE_JSON),
    Column("retry", NULLABLE_JSON),
    Column("status", String(32), nullable=False),
    Column("reason", Text, nullable=False, server_default=""),
    Column("workspace", NULLABLE_JSON),
    Column("diff", NULLABLE_JSON),
    Column("reviews", Integer, nullable=False, server_default=text("0")),
    Column("extra_attempts", Integer, nullable=False, server_default=text("0")),
    Column("feedback", Text),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Column("finished_at", String(32)),
    CheckConstraint(
        "status IN ('running', 'succeeded', 'failed', 'unverified', 'not_delegated', 'cancelled')",
        name="maid_run_status_known",
    ),
    Index("maid_runs_of_run", "run_id"),
    Index("maid_runs_of_thread", "thread_id"),
    Index("maid_runs_of_requester", "requester_id", "created_at", "maid_run_id"),
    Index("maid_runs_by_time", "created_at", "maid_run_id"),
    Index("maid_runs_of_maid", "maid_id", "created_at"),
)
"""Whether a task waits for a person is not stored here: the ledger knows."""

maid_attempts = Table(
    "maid_attempts",
    metadata,
    Column("attempt_id", String(64), primary_key=True),
    Column("maid_run_id", ForeignKey("maid_runs.maid_run_id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("status", String(16), nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("failure_class", String(32)),
    Column("started_at", String(32), nullable=False),
    # When the maid's process was gone; its work may still have to be looked at.
    Column("finished_at", String(32)),
    Column("evidence", JSON, nullable=False),
    UniqueConstraint("maid_run_id", "number", name="one_attempt_per_number"),
    CheckConstraint(
        "status IN ('running', 'passed', 'failed', 'unverified', 'interrupted', 'cancelled')",
        name="attempt_status_known",
    ),
    Index(
        "one_running_attempt",
        "maid_run_id",
        unique=True,
        sqlite_where=text("status = 'running'"),
        postgresql_where=text("status = 'running'"),
    ),
)

maid_evaluations = Table(
    "maid_evaluations",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("maid_id", String(128), nullable=False),
    Column("at", String(32), nullable=False),
    Column("adoption", String(32), nullable=False),
    Column("table", JSON, nullable=False),
    CheckConstraint("adoption IN ('not_adopted', 'limited_adoption', 'default_candidate')", name="adoption_known"),
    Index("maid_evaluations_of_maid", "maid_id", "seq"),
)
