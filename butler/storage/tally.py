"""Counts of what is in the database now, for whoever watches over the house (E5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from butler.storage.maid_tables import maid_attempts
from butler.storage.tables import actions, runs

DECIDED = ("approved", "rejected", "expired", "cancelled")
OPEN = ("queued", "running", "parked")


@dataclass(frozen=True)
class Tally:
    """`runs` that are not over, by status; `approvals` by status; `attempts` by status and failure class."""

    runs: Mapping[str, int]
    approvals: Mapping[str, int]
    attempts: Mapping[tuple[str, str], int]


def tally(connection: Connection) -> Tally:
    """Count. The decided actions take longer the more there are."""
    by_status = select(runs.c.status, func.count()).where(runs.c.status.in_(OPEN)).group_by(runs.c.status)
    found = {status: int(count) for status, count in connection.execute(by_status)}
    decisions = (
        select(actions.c.status, func.count())
        .where(actions.c.status.in_(("pending", *DECIDED)))
        .group_by(actions.c.status)
    )
    approvals = {status: int(count) for status, count in connection.execute(decisions)}
    tried = select(maid_attempts.c.status, maid_attempts.c.failure_class, func.count()).group_by(
        maid_attempts.c.status, maid_attempts.c.failure_class
    )
    attempts = {(status, kind or ""): int(count) for status, kind, count in connection.execute(tried)}
    return Tally(
        {status: found.get(status, 0) for status in OPEN},
        {status: approvals.get(status, 0) for status in ("pending", *DECIDED)},
        attempts,
    )
