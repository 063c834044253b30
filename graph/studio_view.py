"""What Studio and Agent Chat UI are shown of a thread: messages in LangChain's shape, secrets masked (F2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from butler.approvals.show import shown_args, storable
from butler.exactjson import loads_exactly
from butler.turn import FAILED, RUN
from butler.types import Json
from nodes.context import Faculties


def shown_state(values: Any, faculties: Faculties) -> Any:
    """The values of a state or an update as they are shown; anything else as it is, with secrets masked."""
    if isinstance(values, dict) and isinstance(values.get("messages"), list):
        values = {**values, "messages": shown_messages(values["messages"], faculties)}
    return _masked(values, faculties)


def _masked(value: Any, faculties: Faculties) -> Any:
    """Mask in JSON; what is no JSON (interrupts) is masked already and stays as it is."""
    if isinstance(value, dict):
        return {name: _masked(item, faculties) for name, item in value.items()}
    return faculties.redactor.json(value) if isinstance(value, str | list) and _is_json(value) else value


def _is_json(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_json(item) for item in value)
    if isinstance(value, dict):
        return all(_is_json(item) for item in value.values())
    return value is None or isinstance(value, str | int | float | bool)


def shown_messages(messages: Sequence[Any], faculties: Faculties) -> list[Any]:
    """The talk as LangChain's clients draw it; a message's id is its turn and its place in it."""
    shown: list[Any] = []
    run, first = "before", 0
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            shown.append(message)
            continue
        if RUN in message:
            run, first = message[RUN], index
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        shown.append({"id": f"{run}:{index - first}", **_shown(message, names, faculties)})
    return shown


def _shown(message: Json, names: dict[str, str], faculties: Faculties) -> Json:
    text = message.get("shown", message["content"])
    if message["role"] == "user":
        return {"type": "human", "content": text}
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
