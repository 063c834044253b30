"""Approvals by several people, escalation, hash-chained audit, notifications, links, tokens with names"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CHAINED = ("seq", "at", "event", "actor", "via", "thread_id", "run_id", "action_id", "data")
ESCALATING = "status = 'pending' AND escalate_at IS NOT NULL AND escalated_at IS NULL"
NAMED = "status = 'pending' AND (deciders IS NOT NULL OR escalate_to IS NOT NULL)"
TRIGGERS = {
    "audit_is_never_changed": "BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END",
    "audit_is_never_deleted": "BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'audit rows are never deleted'); END",
    "audit_is_never_replaced": "BEFORE INSERT ON audit WHEN NEW.seq <= (SELECT max(seq) FROM audit) "
    "BEGIN SELECT RAISE(ABORT, 'audit rows are never replaced'); END",
}


def action_columns() -> list[sa.Column[Any]]:
    """Fresh ones for each call: a column belongs to one table."""
    return [
        sa.Column("approvals_needed", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("approved_by", sa.JSON(), nullable=True),
        sa.Column("escalate_at", sa.String(length=32), nullable=True),
        sa.Column("escalate_to", sa.JSON(), nullable=True),
        sa.Column("escalated_at", sa.String(length=32), nullable=True),
    ]


def upgrade() -> None:
    """Apply this revision."""
    op.add_column("users", sa.Column("disabled_at", sa.String(length=32), nullable=True))
    op.add_column("tokens", sa.Column("token_id", sa.String(length=16), server_default="", nullable=False))
    op.add_column("tokens", sa.Column("label", sa.String(length=64), server_default="", nullable=False))
    op.add_column("tokens", sa.Column("expires_at", sa.String(length=32), nullable=True))
    op.execute("UPDATE tokens SET token_id = substr(token_hash, 1, 8)")
    op.create_index("tokens_of_user", "tokens", ["user_id"])
    for column in action_columns():
        op.add_column("actions", column)
    op.create_index("actions_of_tool", "actions", ["tool", "requested_at"])
    where = sa.text(ESCALATING)
    op.create_index("actions_escalating", "actions", ["escalate_at"], sqlite_where=where, postgresql_where=where)
    named, place = sa.text(NAMED), ["requested_at", "action_id"]
    op.create_index("actions_pending_named", "actions", place, sqlite_where=named, postgresql_where=named)
    op.add_column("grants", sa.Column("action_id", sa.String(length=64), nullable=True))
    op.add_column("grants", sa.Column("closed", sa.Boolean(), server_default=sa.text("0"), nullable=False))
    op.add_column("grants", sa.Column("revoked_by", sa.String(length=64), nullable=True))
    _create_sightings()
    _create_notifications()
    _create_links()
    _chain_audit()


def downgrade() -> None:
    """Undo this revision."""
    for name in TRIGGERS:
        op.execute(f"DROP TRIGGER {name}")
    op.drop_column("audit", "hash")
    for table in ("audit_head", "links", "notifications", "sightings"):
        op.drop_table(table)
    op.drop_column("grants", "revoked_by")
    op.drop_column("grants", "closed")
    op.drop_column("grants", "action_id")
    op.drop_index("actions_pending_named", "actions")
    op.drop_index("actions_escalating", "actions")
    op.drop_index("actions_of_tool", "actions")
    for column in action_columns():
        op.drop_column("actions", column.name)
    op.drop_index("tokens_of_user", "tokens")
    for name in ("token_id", "label", "expires_at"):
        op.drop_column("tokens", name)
    op.drop_column("users", "disabled_at")


def _create_sightings() -> None:
    op.create_table(
        "sightings",
        sa.Column("action_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("via", sa.String(length=16), nullable=False),
        sa.Column("at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("action_id", "user_id", "via"),
    )


def _create_notifications() -> None:
    op.create_table(
        "notifications",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("subject", sa.String(length=300), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("action_id", sa.String(length=64), nullable=True),
        sa.Column("run_id", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_at", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("finished_at", sa.String(length=32), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("status IN ('queued', 'sent', 'failed', 'dropped')", name="notification_status_known"),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("subject"),
    )
    where = sa.text("status = 'queued'")
    op.create_index("notifications_due", "notifications", ["next_at"], sqlite_where=where, postgresql_where=where)


def _create_links() -> None:
    op.create_table(
        "links",
        sa.Column("link_id", sa.String(length=64), nullable=False),
        sa.Column("action_id", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("expires_at", sa.String(length=32), nullable=True),
        sa.Column("used_at", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.user_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("link_id"),
    )
    op.create_index("links_of_action", "links", ["action_id"])


def _chain_audit() -> None:
    """Chain what is there in the order of its numbers, then close the table."""
    op.add_column("audit", sa.Column("hash", sa.String(length=64), server_default="", nullable=False))
    op.create_table(
        "audit_head",
        sa.Column("only", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint("only = 1", name="one_head"),
        sa.PrimaryKeyConstraint("only"),
    )
    connection = op.get_bind()
    names = ", ".join(CHAINED)
    head, seq = "", 0
    for row in connection.exec_driver_sql(f"SELECT {names} FROM audit ORDER BY seq").fetchall():
        seq = row[0]
        head = _sha256_of([head, *row[:-1], _sha256_of(json.loads(row[-1]))])
        connection.exec_driver_sql("UPDATE audit SET hash = ? WHERE seq = ?", (head, seq))
    connection.exec_driver_sql("INSERT INTO audit_head (only, seq, hash) VALUES (1, ?, ?)", (seq, head))
    for name, body in TRIGGERS.items():
        op.execute(f"CREATE TRIGGER {name} {body}")


def _sha256_of(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
