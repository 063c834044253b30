"""`attempt`: one execution of the maid, counted before it is launched (D7)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext, requester
from nodes.maids.common import MaidState, onward, supervisor


async def attempt(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Launch the maid and watch it to its end; what a crash left of an earlier one stays counted."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    person = requester(state["incoming"])
    await supervisor(context).attempt(maid_run_id, person, context.emit, context.round)
    return onward(await supervisor(context).next(maid_run_id))
