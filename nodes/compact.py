"""`compact`: begin to fold older turns once the context has grown; the reply is out already (C2, C3)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from butler.turn import TurnState
from nodes.context import TurnContext


def should_compact(state: TurnState) -> bool:
    """Whether `think` found the context over a threshold."""
    return bool(state.get("compact_due"))


async def compact(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Start the fold in the background; the next turn's `intake` takes it over if it is ready by then."""
    compactor = runtime.context.faculties.compactor
    if compactor is not None:
        compactor.start(
            state["incoming"]["thread_id"], state["messages"], state.get("summary") or "", state.get("notes")
        )
    return {"compact_due": False}
