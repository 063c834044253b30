"""`apply`: the approved diff goes into the project, once (D6, A8)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext
from nodes.maids.common import MaidState, onward, supervisor


async def apply(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Apply what was approved, or find that it is applied already."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    return onward(await supervisor(context).apply(maid_run_id, context.emit))
