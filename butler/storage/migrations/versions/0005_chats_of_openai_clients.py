"""Which thread a chat of an OpenAI client is"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.create_table(
        "client_turns",
        sa.Column("seq", sa.Integer(), nullable=False, autoincrement=True),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("thread_id", sa.String(length=64), nullable=False),
        sa.Column("run_id", sa.String(length=64), nullable=False),
        sa.Column("chat", sa.String(length=64), nullable=False),
        sa.Column("said", sa.String(length=64), nullable=False),
        sa.Column("last", sa.String(length=64), nullable=False),
        sa.Column("answer", sa.String(length=64), nullable=True),
        sa.Column("delivered", sa.Boolean(), server_default=sa.text("0"), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("client_turns_of_chat", "client_turns", ["user_id", "chat", "seq"])
    op.create_index("client_turns_by_answer", "client_turns", ["user_id", "answer", "seq"])
    op.create_index("client_turns_of_thread", "client_turns", ["thread_id", "seq"])


def downgrade() -> None:
    """Undo this revision."""
    op.drop_table("client_turns")
