"""Downstream agents, and the threads that sockets talk in"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "agents",
        sa.Column("agent_id", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False, server_default=""),
        sa.Column("capabilities", sa.JSON(), nullable=False, server_default="[]"),
        sa.Column("last_seen", sa.String(length=32), nullable=True),
        sa.Column("named_at", sa.String(length=32), nullable=True),
        sa.Column("last_report", sa.Text(), nullable=True),
        sa.Column("reported_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id"),
    )
    op.create_table(
        "socket_threads",
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("thread_id", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user_id"),
    )


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("socket_threads")
    op.drop_table("agents")
