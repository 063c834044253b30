"""Evaluations in the database: the newest one of a maid counts (D13)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, insert, select

from butler.clock import stamp
from butler.maids.evaluation.scoring import Evaluation
from butler.storage.maid_tables import maid_evaluations
from config.maid_types import Adoption


def record(connection: Connection, evaluation: Evaluation) -> None:
    """Keep an evaluation of the whole suite."""
    connection.execute(
        insert(maid_evaluations).values(
            maid_id=evaluation.maid_id, at=stamp(), adoption=evaluation.adoption, table=evaluation.document()
        )
    )


def adoption_of_all(connection: Connection) -> Mapping[str, Adoption]:
    """What the newest evaluation of each maid found, by maid_id."""
    newest = select(func.max(maid_evaluations.c.seq)).group_by(maid_evaluations.c.maid_id)
    query = select(maid_evaluations.c.maid_id, maid_evaluations.c.adoption).where(maid_evaluations.c.seq.in_(newest))
    return {row.maid_id: row.adoption for row in connection.execute(query)}
