"""`think`: put results into the history, call the model, and end the turn when there is nothing left to
run.
"""

from __future__ import annotations

import re
import secrets
from typing import Any

from langgraph.runtime import Runtime

from butler.errors import ModelFailed
from butler.memory.tokens import count_messages
from butler.turn import FAILED, Ending, TurnState
from butler.types import Json, ModelReply, Usage
from nodes.asking import ask
from nodes.context import Faculties, TurnContext

SOUND_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_NAME_CHARS = 128
APOLOGY = "I'm sorry, I could not finish this: "
CUT = "The answer was cut at the model's length limit; say “go on” to continue."
NO_ANSWER = "[No answer was given: the model was unavailable.]"
STOPPED = "[Stopped: the limit of tool rounds in one turn was reached.]"
"""What the model reads instead of the house's own words: those it would take for its own and say again."""


async def think(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """One model call with the results of the round before; a command turn ends without any (B2, A1)."""
    faculties = runtime.context.faculties
    messages = with_results(state)
    update: dict[str, Any] = {"messages": messages, "calls": []}
    if state.get("command"):
        reply = _command_reply(state)
        _show(runtime.context, reply)
        messages.append({"role": "assistant", "content": reply})
        # No model has told how long the context is: a thread of commands alone has to fold as well.
        update["compact_due"] = _compact_due(messages, count_messages(messages), faculties)
        return update | {"ending": Ending(status="done", reply=reply, error=None)}
    try:
        answer = await ask(state, messages, runtime.context)
    except ModelFailed as failure:
        return update | _failed(messages, failure, runtime.context)
    update["usage"] = add_usage(state.get("usage") or {}, answer.usage)
    if not answer.calls:
        reply = _last_words(messages, answer, runtime.context)
        context_tokens = answer.usage.input_tokens + answer.usage.output_tokens
        update["compact_due"] = _compact_due(messages, context_tokens, faculties)
        return update | {"ending": Ending(status="done", reply=reply, error=None)}
    if state["rounds"] >= faculties.max_tool_rounds:
        return update | _stopped(messages, answer, runtime.context)
    messages.append({"role": "assistant", "content": answer.text, "tool_calls": _with_new_ids(messages, answer)})
    return update | {"rounds": state["rounds"] + 1}


def _show(context: TurnContext, text: str) -> None:
    """Say it, masked like everything that leaves the house."""
    context.emit("token", {"text": context.faculties.redactor.text(text)})


def _compact_due(messages: list[Json], context_tokens: int, faculties: Faculties) -> bool:
    return faculties.compactor is not None and faculties.compactor.due(messages, context_tokens)


def _with_new_ids(messages: list[Json], answer: ModelReply) -> list[Json]:
    """The calls in the chat format; an id that the talk has seen before would stand for another call (A5).

    Ids that some provider would refuse are replaced, and names are clipped, since both are stored and shown.
    """
    seen = {call["id"] for message in messages for call in message.get("tool_calls") or ()}
    calls: list[Json] = []
    for call in answer.calls:
        call_id = call.call_id
        while call_id in seen or not SOUND_ID.fullmatch(call_id):
            call_id = f"call_{secrets.token_hex(12)}"
        seen.add(call_id)
        name = call.name[:MAX_NAME_CHARS].encode("utf-8", "replace").decode()
        calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": call.arguments}})
    return calls


def with_results(state: TurnState) -> list[Json]:
    """The history with one result for each call of the last round, in the order of the calls (A5)."""
    messages = list(state["messages"])
    results = state.get("results") or {}
    if messages and messages[-1].get("tool_calls"):
        for call in messages[-1]["tool_calls"]:
            result = results.get(call["id"])
            text = result["text"] if result else "No result: the call was interrupted."
            message = {"role": "tool", "tool_call_id": call["id"], "content": text}
            messages.append(message if result and not result["is_error"] else {**message, FAILED: True})
    return messages


def _last_words(messages: list[Json], answer: ModelReply, context: TurnContext) -> str:
    """Put the answer into the history and give the reply; an answer that was cut says so to the person alone."""
    if answer.finish_reason != "length":
        messages.append({"role": "assistant", "content": answer.text})
        return answer.text
    _show(context, f"\n\n({CUT})")
    context.emit("notice", {"text": CUT})
    reply = f"{answer.text}\n\n({CUT})"
    messages.append({"role": "assistant", "content": answer.text, "shown": reply})
    return reply


def _failed(messages: list[Json], failure: ModelFailed, context: TurnContext) -> dict[str, Any]:
    apology = f"{APOLOGY}{failure.detail}"
    said = f"\n\n{apology}" if failure.partial else apology
    _show(context, said)
    reply = failure.partial + said
    messages.append({"role": "assistant", "content": failure.partial or NO_ANSWER, "shown": reply})
    error = {"code": failure.code, "detail": failure.detail}
    return {"ending": Ending(status="failed", reply=reply, error=error)}


def _stopped(messages: list[Json], answer: ModelReply, context: TurnContext) -> dict[str, Any]:
    notice = (
        f"I stopped here: the limit of {context.faculties.max_tool_rounds} tool rounds in one turn is reached. "
        "Say “go on” to continue."
    )
    said = f"\n\n{notice}" if answer.text else notice
    _show(context, said)
    context.emit("notice", {"text": notice})
    reply = answer.text + said
    messages.append({"role": "assistant", "content": answer.text or STOPPED, "shown": reply})
    return {"ending": Ending(status="done", reply=reply, error=None)}


def _command_reply(state: TurnState) -> str:
    results = list((state.get("results") or {}).values())
    text = "\n".join(result["text"] for result in results) or "The tool gave no output."
    return f"That did not work. {text}" if any(result["is_error"] for result in results) else text


def add_usage(so_far: dict[str, int], more: Usage) -> dict[str, int]:
    """Sum of the turn's usage and one more model call."""
    return {
        "input_tokens": so_far.get("input_tokens", 0) + more.input_tokens,
        "output_tokens": so_far.get("output_tokens", 0) + more.output_tokens,
        "model_calls": so_far.get("model_calls", 0) + more.model_calls,
    }
