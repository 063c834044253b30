"""`intake`: append the user's message, or turn a /command into the tool call that it names."""

from __future__ import annotations

from typing import Any

from langgraph.runtime import Runtime

from butler.commands import CommandError, parse_tool_command
from butler.turn import RUN, TurnState
from nodes.context import TurnContext

NOT_RUN = "[This command could not be run.]"
"""What the model reads instead of the error message."""


async def intake(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """Open a turn: reset what belongs to the last one, fold what is ready to be folded, add the message."""
    faculties = runtime.context.faculties
    incoming = state["incoming"]
    messages = list(state.get("messages") or [])
    update: dict[str, Any] = {}
    if faculties.compactor is not None:
        folded = faculties.compactor.take(incoming["thread_id"], messages)
        if folded is not None:
            messages = folded.remaining
            update |= {"summary": folded.summary, "notes": folded.notes, "last_compacted_at": folded.at}
            runtime.context.emit("notice", {"text": folded.notice})
    text = incoming["message"]
    if faculties.memory is not None and "memory_block" not in state and not text.startswith("/"):
        taken = await faculties.memory.take(incoming["thread_id"], incoming["user_id"])
        update |= {} if taken is None else {"memory_block": taken}
    update |= {
        "turn_of": incoming["run_id"],
        "turn_start": len(messages),
        "rounds": 0,
        "usage": {},
        "command": False,
        "calls": [],
        "results": None,
        "ending": None,
    }
    messages.append({"role": "user", "content": text, RUN: incoming["run_id"]})
    if text.startswith("/"):
        update["command"] = True
        await faculties.tools.prepare(text[1:].partition(" ")[0])
        try:
            name, arguments = parse_tool_command(text, faculties.tools)
        except CommandError as error:
            messages.append({"role": "assistant", "content": NOT_RUN, "shown": str(error)})
            update["ending"] = {
                "status": "failed", "reply": str(error), "error": {"code": error.code, "detail": str(error)},
            }  # fmt: skip
        else:
            call = {"id": f"call_{incoming['run_id'].replace('-', '')[:24]}", "type": "function",
                    "function": {"name": name, "arguments": arguments}}  # fmt: skip
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    return update | {"messages": messages}
