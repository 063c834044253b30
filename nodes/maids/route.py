"""`route`: which maid does it, or that none does and why (D1, D3)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext
from nodes.maids.common import MaidState, onward, supervisor


async def route(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Choose by the routes; no model has a say."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    await supervisor(context).route(maid_run_id, context.emit)
    return onward(await supervisor(context).next(maid_run_id))
