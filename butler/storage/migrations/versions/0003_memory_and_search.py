"""Long-term memories, what threads' prompts say of their person, full text over the transcript"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SEARCH = (
    "CREATE VIRTUAL TABLE message_words USING fts5(words, content='', tokenize=\"unicode61 remove_diacritics 2\")",
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


def upgrade() -> None:
    """Apply this revision; what is in the transcript already is indexed once the server runs."""
    _create_memories()
    op.create_table(
        "memory_blocks",
        sa.Column("thread_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("taken_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.thread_id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("thread_id"),
    )
    op.create_index("memory_blocks_of_user", "memory_blocks", ["user_id"])
    op.create_table(
        "search_state",
        sa.Column("only", sa.Integer(), nullable=False),
        sa.Column("upto", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("only = 1", name="one_search_state"),
        sa.PrimaryKeyConstraint("only"),
    )
    op.execute("INSERT INTO search_state (only, upto, version) VALUES (1, 0, 1)")
    for statement in SEARCH:
        op.execute(statement)


def downgrade() -> None:
    """Undo this revision."""
    op.execute("DROP TRIGGER message_words_changed")
    op.execute("DROP TRIGGER message_words_deleted")
    for table in ("message_words", "search_state", "memory_blocks", "memories"):
        op.drop_table(table)


def _create_memories() -> None:
    op.create_table(
        "memories",
        sa.Column("memory_id", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("importance", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.Column("by", sa.String(length=64), nullable=False),
        sa.Column("via", sa.String(length=16), nullable=False),
        sa.Column("thread_id", sa.String(length=64), nullable=True),
        sa.Column("run_id", sa.String(length=64), nullable=True),
        sa.Column("forgotten_at", sa.String(length=32), nullable=True),
        sa.Column("merged_into", sa.String(length=16), nullable=True),
        sa.CheckConstraint("importance BETWEEN 1 AND 10", name="importance_known"),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_id"),
    )
    op.create_index("memories_of_user", "memories", ["user_id", "importance", "updated_at"])
    op.create_index("memories_merged", "memories", ["merged_into"], sqlite_where=sa.text("merged_into IS NOT NULL"))
    where = sa.text("forgotten_at IS NULL")
    op.create_index(
        "one_memory_of_a_text", "memories", ["user_id", "digest"],
        unique=True, sqlite_where=where, postgresql_where=where,
    )  # fmt: skip
