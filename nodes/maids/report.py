"""`report`: the one outcome of the task, and the result of its call (D9)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.act import told_to_model
from nodes.context import TurnContext
from nodes.maids.common import MaidState, result, supervisor


async def report(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Say how it ended; the tree is cleaned up."""
    context, call = runtime.context, state["call"]
    context.round.hold(call["call_id"])
    action = await supervisor(context).report(state["maid_run_id"], call["action_id"], state.get("why", ""),
                                              context.emit)  # fmt: skip
    context.round.let_go(call["call_id"])
    return result(call, told_to_model(action, context.faculties), is_error=bool(action.result_is_error))
