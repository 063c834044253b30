"""A chat goes by its first message alone: no answers and last messages are kept any more"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this revision."""
    op.drop_index("client_turns_by_answer", "client_turns")
    op.drop_column("client_turns", "answer")
    op.drop_column("client_turns", "last")


def downgrade() -> None:
    """Undo this revision."""
    op.add_column("client_turns", sa.Column("last", sa.String(length=64), nullable=False, server_default=""))
    op.add_column("client_turns", sa.Column("answer", sa.String(length=64), nullable=True))
    op.create_index("client_turns_by_answer", "client_turns", ["user_id", "answer", "seq"])
