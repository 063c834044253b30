"""`claim`: the call of `delegate` itself, with the same rules as any call: decided first, begun once (A7, A8)."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from butler.approvals.actions import Action
from butler.approvals.calls import Claim
from nodes.act import told_to_model
from nodes.context import TurnContext, requester
from nodes.maids.common import MaidState, onward, result, settled, supervisor


async def claim(state: MaidState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Begin the task if the ledger lets it; one that was begun before goes on where the database says."""
    call, context = state["call"], runtime.context
    faculties = context.faculties
    if faculties.maids is None:
        return result(call, "not_delegated: this house has no maids.", is_error=True)
    context.round.hold(call["call_id"])
    claims: list[Claim] = []

    async def look() -> Action:
        claims[:] = [await faculties.ledger.begin(call["action_id"], faculties.judge.at_execution)]
        return claims[0].action

    await faculties.maids.foresee_call(call["action_id"])
    try:
        action = await settled(call, context, look)
    except LookupError:
        action = None
    if action is None:
        context.round.let_go(call["call_id"])
        return result(call, "Not run: its record is gone from the ledger.", is_error=True)
    if not claims[0].won and action.execution != "started":
        context.round.let_go(call["call_id"])
        return result(call, told_to_model(action, faculties), is_error=bool(action.result_is_error))
    run = await supervisor(context).open(action, requester(state["incoming"]), context.emit)
    if run is None:
        # Its arguments can't be carried out, and the ledger says why.
        recorded = await supervisor(context).recorded(action)
        context.round.let_go(call["call_id"])
        return result(call, told_to_model(recorded, faculties), is_error=bool(recorded.result_is_error))
    return {"maid_run_id": run.maid_run_id, **onward(await supervisor(context).next(run.maid_run_id))}
