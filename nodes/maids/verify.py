"""`verify`: what Butler sees with its own eyes decides, not what the maid says (D8)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext
from nodes.maids.common import MaidState, onward, supervisor


async def verify(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Make the checks and settle the attempt."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    await supervisor(context).verify(maid_run_id, context.emit)
    return onward(await supervisor(context).next(maid_run_id))
