"""Evaluations in the database: the newest one of a maid counts (D13)."""

from __future__ import annotations

from sqlalchemy import Connection, insert

from butler.clock import stamp
from butler.maids.evaluation.scoring import Evaluation
from butler.storage.maid_tables import maid_evaluations


def record(connection: Connection, evaluation: Evaluation) -> None:
    """Keep an evaluation of the whole suite."""
    connection.execute(
        insert(maid_evaluations).values(
            maid_id=evaluation.maid_id, at=stamp(), adoption=evaluation.adoption, table=evaluation.document()
        )
    )
