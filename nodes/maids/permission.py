"""`permission`: the maid was stopped because nobody answered in time; it runs again after the verdict (D10)."""

from __future__ import annotations

from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext
from nodes.maids.common import MaidState, settled, supervisor


async def permission(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Wait for what the maid has asked."""
    context = runtime.context
    context.round.hold(state["call"]["call_id"])
    await settled(state["call"], context, partial(supervisor(context).unanswered, state["maid_run_id"]))
    return {"step": "attempt", "why": ""}
