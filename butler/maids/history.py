"""What is known of maids from before: how their tasks ended, what evaluations found (D2, D13)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from butler.maids.conditions import Success
from butler.storage.maid_tables import maid_evaluations, maid_runs
from config.maid_types import Adoption

COUNTED = ("succeeded", "failed", "unverified")
"""Tasks that a person cancelled say nothing about the maid."""


def success_of_all(connection: Connection) -> Mapping[str, Success]:
    """How the tasks of each maid ended."""
    query = (
        select(maid_runs.c.maid_id, maid_runs.c.status, func.count())
        .where(maid_runs.c.maid_id.is_not(None), maid_runs.c.status.in_(COUNTED))
        .group_by(maid_runs.c.maid_id, maid_runs.c.status)
    )
    found: dict[str, Success] = {}
    for maid_id, status, count in connection.execute(query):
        known = found.get(maid_id, Success(0, 0))
        found[maid_id] = Success(known.runs + count, known.succeeded + (count if status == "succeeded" else 0))
    return found


def adoption_of_all(connection: Connection) -> Mapping[str, Adoption]:
    """What the newest evaluation of each maid found."""
    newest = select(func.max(maid_evaluations.c.seq)).group_by(maid_evaluations.c.maid_id)
    query = select(maid_evaluations.c.maid_id, maid_evaluations.c.adoption).where(maid_evaluations.c.seq.in_(newest))
    return {row.maid_id: row.adoption for row in connection.execute(query)}


def known_of_maids(connection: Connection) -> tuple[Mapping[str, Success], Mapping[str, Adoption]]:
    """Both, for routing."""
    return success_of_all(connection), adoption_of_all(connection)
