"""Append-only record of who asked, who decided and what happened, each row chained to the one before (A9, B6)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, select

from butler.clock import stamp
from butler.redact import Redactor
from butler.storage.tables import audit
from butler.types import Json

AuditEvent = Literal[
    "requested", "allowed", "refused", "approved", "edited", "responded", "rejected", "expired", "cancelled",
    "attempt_refused", "started", "done", "failed", "unknown", "repeated", "granted", "revoked", "thread_deleted",
    "approved_in_part", "escalated", "changes_requested", "shown", "memory_erased",
    "user_added", "role_changed", "user_disabled", "user_enabled", "token_created", "token_rotated", "token_revoked",
    "agent_connected", "agent_edited", "agent_deleted", "directive_sent", "answer_not_credited",
]  # fmt: skip

CHAINED = ("seq", "at", "event", "actor", "via", "thread_id", "run_id", "action_id", "data")
"""What a row's hash is taken over, in this order, behind the hash of the row before; of `data`, its own SHA-256."""

HEADLESS = "the audit has no head any more; `butler audit verify` says what is left of it"

# SQLAlchemy's own path costs three times what SQLite needs for these; several rows are written in every turn.
_HEAD = "SELECT seq, hash FROM audit_head"
_ADD = (
    "INSERT INTO audit (seq, at, event, actor, via, thread_id, run_id, action_id, data, hash) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MOVE_HEAD = "UPDATE audit_head SET seq = ?, hash = ?"

_text_of = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True)
class Filter:
    """Which rows of the audit to read; None is no restriction."""

    since: str | None = None
    after: int | None = None
    action_id: str | None = None
    thread_id: str | None = None
    event: str | None = None
    actor: str | None = None


def record(
    connection: Connection,
    event: AuditEvent,
    *,
    actor: str,
    via: str,
    thread_id: str | None = None,
    run_id: str | None = None,
    action_id: str | None = None,
    **data: Any,
) -> None:
    """Append one row in the transaction of what it records, so that neither exists without the other.

    Secrets that the connection's engine knows (`Database`) are masked before the row is hashed, so that what is
    shown later is what was chained.
    """
    if not connection.in_transaction():
        connection.begin()
    sqlite = connection.connection.driver_connection
    assert sqlite is not None
    said = _text_of(data)
    redactor: Redactor | None = connection.get_execution_options().get("redactor")
    if redactor is not None and redactor.text(said) != said:
        data = redactor.json(data)
        said = _text_of(data)
    head = sqlite.execute(_HEAD).fetchone()
    if head is None:
        raise RuntimeError(HEADLESS)
    seq = head[0] + 1
    row = (seq, stamp(), event, actor, via, thread_id, run_id, action_id)
    digest = _digest(head[1], row, _sha256(said))
    # Half a surrogate pair can't be stored as it is, only as an escape.
    sqlite.execute(_ADD, (*row, said if said.isascii() else json.dumps(data), digest))
    sqlite.execute(_MOVE_HEAD, (seq, digest))


def ensure_head(connection: Connection) -> None:
    """Prove that the database answers and that the audit can be written. Raises RuntimeError."""
    if connection.exec_driver_sql(_HEAD).first() is None:
        raise RuntimeError(HEADLESS)


def chained_hash(previous: str, row: Mapping[str, Any]) -> str:
    """The hash that `row` must have behind a row with the hash `previous` ("" before the first).

    A masked row of an export carries ``data_sha256`` in place of what its data was.

    Raises: KeyError, TypeError or ValueError for what was never a row of the audit.
    """
    *values, data = (row[name] for name in CHAINED)
    digest = str(row["data_sha256"]) if row.get("masked") is True else data_sha256(data)
    return _digest(previous, tuple(values), digest)


def data_sha256(data: Any) -> str:
    """The SHA-256 of a row's data, which stands for it in the chain."""
    return _sha256(_text_of(data))


def _digest(previous: str, values: tuple[Any, ...], data: str) -> str:
    return _sha256(_text_of((previous, *values, data)))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def read_rows(connection: Connection, wanted: Filter, limit: int) -> list[Json]:
    """Rows that fit, oldest first, at most `limit`."""
    query = select(audit).order_by(audit.c.seq).limit(limit)
    if wanted.after is not None:
        query = query.where(audit.c.seq > wanted.after)
    if wanted.since is not None:
        query = query.where(audit.c.at >= wanted.since)
    for name in ("action_id", "thread_id", "event", "actor"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(audit.c[name] == value)
    return [{str(name): value for name, value in row._mapping.items()} for row in connection.execute(query)]
