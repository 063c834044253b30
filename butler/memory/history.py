"""Makes any stored history acceptable to a strict provider: calls and results always pair (A5, B4)."""

from __future__ import annotations

import json
import operator
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from butler.types import ChatMessage, Json

NO_RESULT = "No result: this call was never finished. Check what happened before you repeat it."

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_SPOKEN_ROLES = ("system", "developer", "user")
_ID_STEM = 32  # providers refuse ids that are much longer than their own


def repair(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Give a pair-valid copy of a history: pure, idempotent, and it never raises.

    Every call gets exactly one result, right after its message and in the order of the calls: a late one is
    moved there, a missing one is written. Orphaned and repeated results, empty messages and messages
    without a known role are left out; call ids are made unique. What is sound already stays the same object.
    """
    known = [message for message in messages if isinstance(message, Mapping)]
    ids = _Ids(known)
    kept: list[ChatMessage | _Asking] = []
    open_calls: dict[str, list[_Slot]] = {}
    for message in known:
        role = message.get("role")
        if role == "tool":
            _file_result(message, open_calls)
        elif role == "assistant":
            asking = _assistant(message, ids)
            if asking is None:
                continue
            kept.append(asking)
            # From here on, a result with one of these ids is for this message.
            for raw_id in {slot.raw_id for slot in asking.slots}:
                open_calls[raw_id] = [slot for slot in asking.slots if slot.raw_id == raw_id]
        elif isinstance(role, str) and role in _SPOKEN_ROLES and _has_content(message.get("content")):
            kept.append(message)
    repaired: list[ChatMessage] = []
    for item in kept:
        if isinstance(item, _Asking):
            repaired.append(item.message)
            repaired.extend(slot.result_message() for slot in item.slots)
        else:
            repaired.append(item)
    return repaired


def unanswered(messages: Sequence[ChatMessage]) -> int:
    """The position of the first message with a call that has no result; the length when there is none."""
    answered = {message.get("tool_call_id") for message in messages if message.get("role") == "tool"}
    for position, message in enumerate(messages):
        if any(call.get("id") not in answered for call in message.get("tool_calls") or ()):
            return position
    return len(messages)


class _Slot:
    """One call's place for its one result."""

    def __init__(self, raw_id: str, call_id: str) -> None:
        self.raw_id = raw_id
        self.call_id = call_id
        self.result: ChatMessage | None = None

    def result_message(self) -> ChatMessage:
        """The tool message of this call, under the call's own id."""
        if self.result is None:
            return {"role": "tool", "tool_call_id": self.call_id, "content": NO_RESULT}
        content = self.result.get("content")
        if self.result.get("tool_call_id") == self.call_id and isinstance(content, str | list):
            return self.result
        return {**self.result, "tool_call_id": self.call_id, "content": _as_text(content)}


class _Asking:
    """An assistant message and the places for the results of its calls."""

    def __init__(self, message: ChatMessage, slots: list[_Slot]) -> None:
        self.message = message
        self.slots = slots


class _Ids:
    """Hands out call ids that occur once; the first to carry an id keeps it."""

    def __init__(self, messages: Sequence[ChatMessage]) -> None:
        self.reserved = {_raw_id(call.get("id")) for message in messages for call in _calls_of(message)}
        self.used: set[str] = set()

    def unique(self, raw_id: str) -> str:
        """Give `raw_id` itself or, where that is missing or taken, the first free numbered one."""
        if raw_id and raw_id not in self.used:
            self.used.add(raw_id)
            return raw_id
        stem = raw_id[:_ID_STEM] or "call"
        number = 2 if raw_id else 1
        while (candidate := f"{stem}_{number}") in self.used or candidate in self.reserved:
            number += 1
        self.used.add(candidate)
        return candidate


def _file_result(message: ChatMessage, open_calls: dict[str, list[_Slot]]) -> None:
    """Put a result to the newest open call of its id; without one it is an orphan or a repetition."""
    waiting = open_calls.get(_raw_id(message.get("tool_call_id")))
    if waiting:
        waiting.pop(0).result = message


def _assistant(message: ChatMessage, ids: _Ids) -> _Asking | None:
    """Give the message with sound calls, or None when it says and asks nothing."""
    raw_calls = _calls_of(message)
    if not raw_calls:
        if not _has_content(message.get("content")):
            return None
        # An empty list of calls is refused by strict providers.
        bare = {key: value for key, value in message.items() if key != "tool_calls"}
        return _Asking(bare if "tool_calls" in message else message, [])
    slots: list[_Slot] = []
    calls: list[Mapping[str, Any]] = []
    for call in raw_calls:
        slot = _Slot(_raw_id(call.get("id")), "")
        slot.call_id = ids.unique(slot.raw_id)
        slots.append(slot)
        calls.append(_call(call, slot.call_id))
    content = message.get("content")
    sound_content = content is None or _has_content(content) or content == ""
    given = message["tool_calls"]
    if sound_content and len(calls) == len(given) and all(map(operator.is_, calls, given)):
        return _Asking(message, slots)
    return _Asking({**message, "content": content if sound_content else None, "tool_calls": calls}, slots)


def _calls_of(message: ChatMessage) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    if not isinstance(calls, list | tuple):
        return []
    return [call for call in calls if isinstance(call, Mapping)]


def _call(call: Mapping[str, Any], call_id: str) -> Mapping[str, Any]:
    """Give the call itself if it is sound, else a sound one that says the same as far as possible."""
    function = call.get("function")
    given: Mapping[str, Any] = function if isinstance(function, Mapping) else {}
    name = given.get("name")
    sound_name = _UNFIT.sub("_", name)[:64] if isinstance(name, str) else ""
    arguments = _arguments(given.get("arguments"))
    if (
        call.get("id") == call_id
        and call.get("type") == "function"
        and sound_name
        and name == sound_name
        and arguments == given.get("arguments")
    ):
        return call
    fixed: Json = {"name": sound_name or "unknown_tool", "arguments": arguments}
    return {**call, "id": call_id, "type": "function", "function": {**given, **fixed}}


def _arguments(raw: Any) -> str:
    """Give the text of a JSON object; what is none is wrapped, so that the model sees what it wrote."""
    if raw is None or raw == "":
        return "{}"
    if isinstance(raw, str):
        try:
            if isinstance(orjson.loads(raw), dict):
                return raw
        except orjson.JSONDecodeError:
            return _dump({"malformed_arguments": raw})
    if isinstance(raw, Mapping):
        return _dump(dict(raw))
    return _dump({"malformed_arguments": raw})


def _dump(value: Any) -> str:
    # ASCII escapes, so that the text can be sent whatever it holds; unknown objects by their text.
    try:
        text = json.dumps(value, default=str, allow_nan=False)
        return text if isinstance(orjson.loads(text), dict) else "{}"
    except (TypeError, ValueError, RecursionError):
        shown = ascii(value) if isinstance(value, str) else reprlib.repr(value)
        return json.dumps({"malformed_arguments": ascii(shown)})


def _raw_id(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _has_content(content: Any) -> bool:
    return bool(content.strip()) if isinstance(content, str) else isinstance(content, list) and bool(content)


def _as_text(content: Any) -> Any:
    if isinstance(content, str | list):
        return content
    if content is None:
        return ""
    return _dump(dict(content)) if isinstance(content, Mapping) else reprlib.repr(content)
