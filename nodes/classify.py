"""`classify`: validate every proposed call, then give each its verdict and its ledger row; nothing runs
here (A4, A5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from langgraph.runtime import Runtime
from sqlalchemy import Connection

from butler.approvals.calls import Proposal
from butler.approvals.show import approval, shown_args, title_of
from butler.exactjson import loads_exactly
from butler.tools.delegating import DELEGATE
from butler.tools.registry import ToolRegistry
from butler.tools.validation import TOO_DEEP
from butler.turn import Call, Result, TurnState
from butler.types import Json, Ruling
from nodes.context import TurnContext, requester


async def classify(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Turn the last assistant message's calls into actions, or into error results the model can act on."""
    faculties, emit = runtime.context.faculties, runtime.context.emit
    person = requester(state["incoming"])
    thread_id, run_id = state["incoming"]["thread_id"], state["incoming"]["run_id"]
    proposals: list[Proposal] = []
    results: dict[str, Result] = {}
    for position, raw in enumerate(state["messages"][-1]["tool_calls"]):
        name, text = raw["function"]["name"], raw["function"]["arguments"]
        await faculties.tools.prepare(name)
        args, problem = read_arguments(faculties.tools, name, text, typed=bool(state.get("command")))
        shown_call = shown_args(name, args, faculties.tools, faculties.redactor)
        if problem:
            problem = faculties.redactor.text(problem)
            results[raw["id"]] = Result(text=problem, is_error=True, action_id="")
            emit("tool", {"action_id": None, "tool": name, "args": shown_call, "verdict": None, "phase": "failed",
                          "result": problem})  # fmt: skip
            continue
        if name == DELEGATE and faculties.maids is not None:
            args = faculties.maids.meant(args)
            await faculties.maids.foresee(args)
            shown_call = shown_args(name, args, faculties.tools, faculties.redactor)
        tool = faculties.tools.get(name)
        digest = tool.digest if tool else ""
        proposals.append(Proposal(raw["id"], position, name, args, title_of(name, shown_call), digest))

    def rule(connection: Connection, call: Proposal) -> Ruling:
        ruling = faculties.judge.on_proposal(connection, call, thread_id=thread_id, person=person)
        if call.tool == DELEGATE and ruling.verdict == "approve" and faculties.maids is not None:
            ruling = replace(ruling, reason=" ".join(filter(None, [ruling.reason, faculties.maids.goal_of(call.args)])))
        return ruling

    via = "command" if state.get("command") else "model"
    actions = (
        await faculties.ledger.propose(proposals, run_id=run_id, thread_id=thread_id, person=person, rule=rule, via=via)
        if proposals
        else []
    )
    calls: list[Call] = []
    for action in actions:
        shown = approval(action, faculties.tools, faculties.redactor)
        emit("tool", {"action_id": action.action_id, "tool": action.tool, "args": shown["args"],
                      "verdict": action.verdict, "phase": "proposed"})  # fmt: skip
        if action.status == "refused":
            results[action.call_id] = Result(
                text=action.result or action.reason, is_error=True, action_id=action.action_id
            )
            continue
        if action.status == "pending":
            emit("approval", shown)
        calls.append(Call(call_id=action.call_id, position=action.position, tool=action.tool,
                          action_id=action.action_id))  # fmt: skip
    return {"calls": calls, "results": results}


def read_arguments(tools: ToolRegistry, name: str, text: str, *, typed: bool = False) -> tuple[Json, str | None]:
    """The arguments of a call, and what is wrong with the call in words for the model; `typed` by a person."""
    try:
        args = loads_exactly(text) if text.strip() else {}
    except RecursionError:
        return {}, f"The arguments don't fit {name!r}: {TOO_DEEP}. Nothing was run; call it again."
    except ValueError as error:
        return {}, f"The arguments of {name!r} are not valid JSON ({error}). Nothing was run; call it again."
    if not isinstance(args, dict):
        return {}, f"The arguments of {name!r} must be one JSON object. Nothing was run; call it again."
    tool = tools.offered(name)
    if tool is None:
        if why := tools.absence(name):
            return args, f"There is no tool {name!r} now: {why} Nothing was run."
        near = tools.suggest(name)
        hint = f" Did you mean {near!r}?" if near else ""
        return args, f"There is no tool {name!r}.{hint} Nothing was run."
    kept = sorted(tool.typed_args & args.keys()) if not typed else []
    if problems := [f"{key!r} is not yours to choose" for key in kept] or tools.validate(name, args):
        return (
            args,
            f"The arguments don't fit {name!r}: {'; '.join(problems)}. Nothing was run; call it again.",
        )
    return args, None
