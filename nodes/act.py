"""`act`: one call, once. The ledger is asked first; the interrupt is only the wait (A6, A7, A8)."""

from __future__ import annotations

import json
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import interrupt
from structlog.contextvars import bound_contextvars

from butler.approvals.actions import Action
from butler.approvals.calls import Claim
from butler.approvals.show import interrupt_payload, shown_args
from butler.telemetry import span
from butler.turn import ActInput, Call, Result
from butler.types import Invocation, Json, ToolResult
from nodes.context import Faculties, TurnContext


async def act(state: ActInput, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Run the action if the ledger lets it, wait for a person if it is pending, or pass on what is recorded.

    What a resume carries is never read here: a decision exists only once `decide()` wrote it, so a bare, stale,
    doubled or lost resume can't approve anything.
    """
    call, context = state["call"], runtime.context
    with context.round.taking_part():
        await context.faculties.tools.prepare(call["tool"])
        try:
            claim = await _claim_or_wait(call["action_id"], context)
        except LookupError:
            return _result(call, "Not run: its record is gone from the ledger.", is_error=True)
        action = claim.action
        if claim.won:
            action = await _execute(action, context)
        elif action.execution == "started":
            # Running it here could be the second time; the service settles it as unknown.
            raise RuntimeError(f"the action {action.action_id} was started elsewhere and has no result")
        return _result(call, told_to_model(action, context.faculties), is_error=bool(action.result_is_error))


async def _claim_or_wait(action_id: str, context: TurnContext) -> Claim:
    """Claim the action as soon as it is decided; park once nothing else of the round is at work."""
    faculties = context.faculties
    while True:
        version = context.round.version
        claim = await faculties.ledger.begin(action_id, faculties.judge.at_execution)
        if claim.action.status != "pending":
            return claim
        if context.round.others_at_work:
            await context.round.changed_since(version)
            await faculties.tools.prepare(claim.action.tool)
        else:
            interrupt(interrupt_payload(claim.action, faculties.tools, faculties.redactor))


async def _execute(action: Action, context: TurnContext) -> Action:
    faculties, emit = context.faculties, context.emit
    event: Json = {"action_id": action.action_id, "tool": action.tool, "args": {}, "verdict": action.verdict}
    try:
        event["args"] = shown_args(action.tool, what_runs(action), faculties.tools, faculties.redactor)
        emit("tool", event | {"phase": "started"})
    except Exception as error:
        # Nothing has run: a row that stayed ``started`` would claim that it may have taken effect.
        result = ToolResult(f"Not run: its start could not be told ({type(error).__name__}: {error}).", is_error=True)
    else:
        result = await _run_tool(action, context)
    result = ToolResult(faculties.redactor.text(result.text), result.is_error)
    finished = await faculties.ledger.finish(action.action_id, action.attempts, result)
    emit("tool", event | {"phase": "failed" if result.is_error else "done", "result": result.text})
    return finished or action


async def _run_tool(action: Action, context: TurnContext) -> ToolResult:
    tool = context.faculties.tools.get(action.tool)
    if tool is None:
        why = context.faculties.tools.absence(action.tool) or f"The tool {action.tool!r} no longer exists."
        return ToolResult(f"Not run: {why}", is_error=True)
    call = Invocation(
        action_id=action.action_id, tool=action.tool, thread_id=action.thread_id, run_id=action.run_id,
        args=what_runs(action), requested_by=action.requested_by,
    )  # fmt: skip
    about = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": action.tool, "gen_ai.tool.call.id": action.call_id,
        "gen_ai.tool.type": "function", "gen_ai.conversation.id": action.thread_id, "butler.run.id": action.run_id,
        "butler.action.id": action.action_id,
    }  # fmt: skip
    with (
        bound_contextvars(run_id=action.run_id, action_id=action.action_id),
        span(f"execute_tool {action.tool}", about) as told,
    ):
        try:
            result = await tool.run(call)
        except Exception as error:
            # A tool's own fault is a result like any other; the turn goes on.
            told.fail(type(error).__name__)
            return ToolResult(f"The tool failed: {type(error).__name__}: {error}", is_error=True)
        if result.is_error:
            told.fail("tool_error")
        return result


def what_runs(action: Action) -> Json:
    """The arguments to run with: those of an edit, else those of the call."""
    return action.run_args if action.run_args is not None else action.args


def told_to_model(action: Action, faculties: Faculties) -> str:
    """The result as the model reads it; an edit is said, so that the model doesn't repeat its first call."""
    text = action.result if action.result is not None else "No result was recorded."
    if action.run_args is not None and action.execution in ("done", "failed"):
        args = shown_args(action.tool, action.run_args, faculties.tools, faculties.redactor)
        return f"(A person changed the arguments to {json.dumps(args, ensure_ascii=False)} before this ran.)\n{text}"
    return text


def _result(call: Call, text: str, *, is_error: bool) -> dict[str, Any]:
    return {"results": {call["call_id"]: Result(text=text, is_error=is_error, action_id=call["action_id"])}}
