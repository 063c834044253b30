"""What the steps of a delegated task share: their small state, the way onward, the wait for a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

from langgraph.types import interrupt

from butler.approvals.actions import Action
from butler.approvals.show import interrupt_payload
from butler.maids.progress import Next
from butler.maids.supervisor import Supervisor
from butler.turn import Call, Incoming, Result
from nodes.context import TurnContext


class MaidState(TypedDict, total=False):
    """Ids and the next step; everything else of the task stands in the database."""

    call: Call
    incoming: Incoming
    maid_run_id: str
    step: str
    why: str
    results: dict[str, Result]


class MaidResults(TypedDict, total=False):
    """What the turn gets back: the one result of the call."""

    results: dict[str, Result]


def supervisor(context: TurnContext) -> Supervisor:
    """The supervisor of this house; `claim` has made sure that there is one."""
    assert context.faculties.maids is not None
    return context.faculties.maids


def onward(next_step: Next) -> dict[str, Any]:
    """The update that leads to the next step."""
    return {"step": next_step.step, "why": next_step.reason}


def where_to(state: MaidState) -> str:
    """The step that the last one has named."""
    return state["step"]


async def settled(call: Call, context: TurnContext, look: Callable[[], Awaitable[Action | None]]) -> Action | None:
    """Wait until what `look` finds is not pending any more; park once nothing else of the round is at work (A5)."""
    while True:
        version = context.round.version
        action = await look()
        if action is None or action.status != "pending":
            context.round.hold(call["call_id"])
            return action
        if context.round.others_at_work:
            await context.round.changed_since(version)
        else:
            context.round.let_go(call["call_id"])
            interrupt(interrupt_payload(action, context.faculties.tools, context.faculties.redactor))


def result(call: Call, text: str, *, is_error: bool) -> dict[str, Any]:
    """The one result of the call, and the end of the task's steps."""
    told = Result(text=text, is_error=is_error, action_id=call["action_id"])
    return {"results": {call["call_id"]: told}, "step": "end", "why": ""}
