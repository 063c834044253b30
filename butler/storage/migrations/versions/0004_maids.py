"""Delegated tasks, the attempts at them, and how maids did in evaluations"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    _create_runs()
    _create_attempts()
    op.create_table(
        "maid_evaluations",
        sa.Column("seq", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("maid_id", sa.String(length=128), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.Column("adoption", sa.String(length=32), nullable=False),
        sa.Column("table", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "adoption IN ('not_adopted', 'limited_adoption', 'default_candidate')", name="adoption_known"
        ),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("maid_evaluations_of_maid", "maid_evaluations", ["maid_id", "seq"])


def downgrade() -> None:
    """Undo this revision."""
    for table in ("maid_evaluations", "maid_attempts", "maid_runs"):
        op.drop_table(table)


def _create_runs() -> None:
    op.create_table(
        "maid_runs",
        sa.Column("maid_run_id", sa.String(length=64), nullable=False),
        sa.Column("thread_id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("action_id", sa.String(length=64), nullable=True),
        sa.Column("call_id", sa.String(length=128), nullable=True),
        sa.Column("requester_id", sa.String(length=64), nullable=False),
        sa.Column("requested_by", sa.String(length=64), nullable=False),
        sa.Column("intent", sa.String(length=128), nullable=False),
        sa.Column("instruction", sa.Text(), nullable=False),
        sa.Column("project_root", sa.Text(), nullable=False),
        sa.Column("constraints", sa.JSON(), nullable=False),
        sa.Column("expect", sa.JSON(), nullable=True),
        sa.Column("maid_id", sa.String(length=128), nullable=True),
        sa.Column("route", sa.JSON(), nullable=True),
        sa.Column("retry", sa.JSON(), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False, server_default=""),
        sa.Column("workspace", sa.JSON(), nullable=True),
        sa.Column("diff", sa.JSON(), nullable=True),
        sa.Column("reviews", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("extra_attempts", sa.Integer(), nullable=False, server_default=sa.text("0")),
        sa.Column("feedback", sa.Text(), nullable=True),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.CheckConstraint(
            "status IN ('running', 'succeeded', 'failed', 'unverified', 'not_delegated', 'cancelled')",
            name="maid_run_status_known",
        ),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("maid_run_id"),
        sa.UniqueConstraint("action_id"),
    )
    op.create_index("maid_runs_of_run", "maid_runs", ["run_id"])
    op.create_index("maid_runs_of_thread", "maid_runs", ["thread_id"])
    op.create_index("maid_runs_of_requester", "maid_runs", ["requester_id", "created_at", "maid_run_id"])
    op.create_index("maid_runs_by_time", "maid_runs", ["created_at", "maid_run_id"])
    op.create_index("maid_runs_of_maid", "maid_runs", ["maid_id", "created_at"])


def _create_attempts() -> None:
    op.create_table(
        "maid_attempts",
        sa.Column("attempt_id", sa.String(length=64), nullable=False),
        sa.Column("maid_run_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("spends", sa.Boolean(), nullable=False),
        sa.Column("failure_class", sa.String(length=32), nullable=True),
        sa.Column("started_at", sa.String(length=32), nullable=False),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "status IN ('running', 'passed', 'failed', 'unverified', 'interrupted', 'cancelled')",
            name="attempt_status_known",
        ),
        sa.ForeignKeyConstraint(["maid_run_id"], ["maid_runs.maid_run_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("attempt_id"),
        sa.UniqueConstraint("maid_run_id", "number", name="one_attempt_per_number"),
    )
    where = sa.text("status = 'running'")
    op.create_index(
        "one_running_attempt", "maid_attempts", ["maid_run_id"],
        unique=True, sqlite_where=where, postgresql_where=where,
    )  # fmt: skip
