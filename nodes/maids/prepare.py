"""`prepare`: a tree of the maid's own (D6)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext
from nodes.maids.common import MaidState, onward, supervisor


async def prepare(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Make the worktree; the project itself is not touched."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    await supervisor(context).prepare(maid_run_id, context.emit)
    return onward(await supervisor(context).next(maid_run_id))
