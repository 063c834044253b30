"""The **Outcome** of http-api, from a run as the database has it, and a turn's lines for the transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from butler.approvals.actions import Action
from butler.approvals.show import approval
from butler.redact import Redactor
from butler.storage.conversations import Entry, Run
from butler.tools.registry import ToolRegistry
from butler.types import Json

NO_USAGE: dict[str, int] = {"input_tokens": 0, "output_tokens": 0, "model_calls": 0}


def outcome(run: Run, pending: Sequence[Action], tools: ToolRegistry, redactor: Redactor) -> Json:
    """How a run stands."""
    return {
        "thread_id": run.thread_id,
        "run_id": run.run_id,
        "status": run.status,
        "reply": run.reply,
        "approvals": [approval(action, tools, redactor) for action in pending],
        "error": run.error,
        "usage": {**NO_USAGE, **(run.usage or {})},
    }


def said_so_far(state: Json) -> str:
    """The assistant's latest text of this turn, empty when it has only called tools."""
    turn = state["messages"][state["turn_start"] :]
    texts = [text_shown(message) for message in turn if message["role"] == "assistant" and text_shown(message)]
    return texts[-1] if texts else ""


def text_shown(message: Json) -> str:
    """What the person was told: ``shown`` where the model gets to read something else (`TurnState`)."""
    return str(message.get("shown", message["content"]))


def entries_of_turn(run_id: str, state: Json, redactor: Redactor) -> list[Entry]:
    """The transcript lines of the turn so far; a line's id is its place in the turn, so it is written once."""
    entries: list[Entry] = []
    names: dict[str, str] = {}
    actions = {call_id: result["action_id"] for call_id, result in (state.get("results") or {}).items()}
    for index, message in enumerate(state["messages"][state["turn_start"] + 1 :]):
        extra: dict[str, Any] = {}
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool":
            call_id = message["tool_call_id"]
            extra = {
                "tool": names.get(call_id, ""),
                "call_id": call_id,
                "action_id": actions.get(call_id) or None,
            }
        text = redactor.text(text_shown(message))
        if message["role"] == "assistant" and not text:
            continue
        entries.append(Entry(f"{run_id}:{index}", message["role"], text, extra or None))
    return entries
