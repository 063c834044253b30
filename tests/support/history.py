"""What a strict provider would refuse: a history whose tool calls and results don't pair."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def history_problem(messages: Sequence[Any]) -> str | None:
    """Name the first thing wrong with the messages of a chat request, or None.

    Every call of an assistant message must have exactly one result, right after it and in the order of the
    calls; ids are unique within the message; arguments are the text of a JSON object.
    """
    if not isinstance(messages, list) or not messages:
        return "messages must be a non-empty list"
    open_ids: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role")
        if role == "tool":
            if not open_ids:
                return f"{where}: tool result {message.get('tool_call_id')!r} without a call"
            if message.get("tool_call_id") != open_ids[0]:
                return f"{where}: result of {message.get('tool_call_id')!r} where {open_ids[0]!r} is due"
            if not isinstance(message.get("content"), str | list):
                return f"{where}: tool result without content"
            open_ids.pop(0)
            continue
        if open_ids:
            return f"{where}: call {open_ids[0]!r} has no result"
        if role == "assistant":
            calls = message.get("tool_calls") or []
            problem, open_ids = _calls(calls)
            if problem:
                return f"{where}: {problem}"
            if not calls and not isinstance(message.get("content"), str):
                return f"{where}: assistant message without content or calls"
        elif role == "user":
            if not message.get("content"):
                return f"{where}: empty user message"
        elif role not in ("system", "developer"):
            return f"{where}: unknown role {role!r}"
    if open_ids:
        return f"call {open_ids[0]!r} has no result"
    if messages[-1].get("role") == "assistant":
        return "the last message is the assistant's own"
    return None


def _calls(calls: Sequence[Any]) -> tuple[str | None, list[str]]:
    ids: list[str] = []
    for call in calls:
        call_id = call.get("id")
        if not isinstance(call_id, str) or not call_id:
            return f"call without an id: {call!r}", []
        if call_id in ids:
            return f"duplicate call id {call_id!r}", []
        function = call.get("function") or {}
        if not _NAME.match(str(function.get("name", ""))):
            return f"call with a bad name {function.get('name')!r}", []
        try:
            arguments = json.loads(function.get("arguments") or "")
        except ValueError:
            return f"arguments of {call_id!r} are not JSON", []
        if not isinstance(arguments, dict):
            return f"arguments of {call_id!r} are not an object", []
        ids.append(call_id)
    return None, ids
