"""`review`: the diff is shown to a person, as an action of the ledger (D6, `session_complete`)."""

from __future__ import annotations

from functools import partial
from typing import Any

from langgraph.runtime import Runtime

from nodes.context import TurnContext, requester
from nodes.maids.common import MaidState, onward, settled, supervisor


async def review(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Wait for the verdict on the diff; without a diff there is nothing to ask."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    look = partial(supervisor(context).review, maid_run_id, requester(state["incoming"]), context.emit)
    action = await settled(state["call"], context, look)
    return onward(await supervisor(context).reviewed(maid_run_id, action, context.emit))
