"""What Studio and Agent Chat UI are shown of a thread: messages in LangChain's shape, secrets masked (F2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from butler.approvals.show import shown_args, storable
from butler.exactjson import loads_exactly
from butler.said import kept
from butler.turn import FAILED, RUN
from butler.types import Json
from nodes.context import Faculties


def shown(value: Any, faculties: Faculties) -> Any:
    """A state, a snapshot, an update, a task or anything else of a run as it is shown: with secrets masked.

    What is no JSON and no tuple (interrupts) is masked already and stays as it is.
    """
    if isinstance(value, dict):
        return {faculties.redactor.text(str(name)): _named(name, item, faculties) for name, item in value.items()}
    if isinstance(value, tuple):
        if len(value) == 2 and isinstance(value[0], str):
            return value[0], _named(value[0], value[1], faculties)  # What a task wrote, and into which channel.
        items = [shown(item, faculties) for item in value]
        return value._make(items) if hasattr(value, "_make") else tuple(items)
    if isinstance(value, list):
        return [shown(item, faculties) for item in value]
    return faculties.redactor.text(value) if isinstance(value, str) else value


def _named(name: Any, value: Any, faculties: Faculties) -> Any:
    if name == "messages" and isinstance(value, list):
        return shown_messages(value, faculties)
    if name == "incoming" and isinstance(value, dict):
        value = {**value, "message": kept(value["message"], faculties.tools)}
    return shown(value, faculties)


def shown_messages(messages: Sequence[Any], faculties: Faculties) -> list[Any]:
    """The talk as LangChain's clients draw it; a message's id is its turn and its place in it."""
    drawn: list[Any] = []
    run, first = "before", 0
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            drawn.append(shown(message, faculties))
            continue
        if RUN in message:
            run, first = message[RUN], index
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        drawn.append(faculties.redactor.json({"id": f"{run}:{index - first}", **_shown(message, names, faculties)}))
    return drawn


def _shown(message: Json, names: dict[str, str], faculties: Faculties) -> Json:
    text: Any = message.get("shown", message["content"])
    if message["role"] == "user":
        return {"type": "human", "content": kept(text, faculties.tools)}
    if message["role"] == "tool":
        call_id = message["tool_call_id"]
        status = "error" if message.get(FAILED) else "success"
        return {"type": "tool", "content": text, "tool_call_id": call_id, "name": names.get(call_id, ""),
                "status": status}  # fmt: skip
    calls = [_call(call, faculties) for call in message.get("tool_calls") or ()]
    return {"type": "ai", "content": text, "tool_calls": calls}


def _call(call: Json, faculties: Faculties) -> Json:
    name, text = call["function"]["name"], call["function"]["arguments"]
    try:
        args = loads_exactly(text)
    except (ValueError, RecursionError):
        args = None
    if not isinstance(args, dict):
        # What the model wrote is no object, so `classify` answers it with an error.
        args = {"__arguments__": text}
    return {"name": name, "args": storable(shown_args(name, args, faculties.tools, faculties.redactor)),
            "id": call["id"], "type": "tool_call"}  # fmt: skip
