"""The channels of the graph: the plain turn state plus how parallel results come together."""

from __future__ import annotations

from typing import Annotated

from butler.turn import Result, TurnState


def merge_results(old: dict[str, Result] | None, new: dict[str, Result] | None) -> dict[str, Result] | None:
    """Results of parallel calls add up by call id; None begins a new turn."""
    return None if new is None else {**(old or {}), **new}


class GraphState(TurnState, total=False):
    """`TurnState` with the reducer for `results`; every other channel keeps its last value."""

    results: Annotated[dict[str, Result] | None, merge_results]
