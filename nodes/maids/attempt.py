"""`attempt`: one execution of the maid, counted before it is launched (D7)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime
from structlog.contextvars import bound_contextvars

from butler.telemetry import span
from nodes.context import TurnContext, requester
from nodes.maids.common import MaidState, onward, supervisor


async def attempt(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Launch the maid and watch it to its end; what a crash left of an earlier one stays counted."""
    context, maid_run_id = runtime.context, state["maid_run_id"]
    context.round.hold(state["call"]["call_id"])
    person = requester(state["incoming"])
    about = {"gen_ai.operation.name": "invoke_agent", "butler.maid_run.id": maid_run_id,
             "butler.action.id": state["call"]["action_id"]}  # fmt: skip
    with bound_contextvars(maid_run_id=maid_run_id), span("butler.maid_attempt", about):
        await supervisor(context).attempt(maid_run_id, person, context.emit, context.round)
    return onward(await supervisor(context).next(maid_run_id))
