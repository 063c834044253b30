"""What an agent tells of its turn, turned into events: text, tool calls keyed by id, the plan (D4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from butler.maids.acp.places import PATH_KEYS, Place, plain, said_paths
from butler.maids.contract import Output, ToolUse
from butler.types import Json

Status = Literal["pending", "in_progress", "completed", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
READING = frozenset({"read", "search", "think", "other", ""})
KEPT_OUTPUT = 4096
"""Characters kept of a tool's output."""
KEPT_CLAIM = 16_384
"""Characters kept of the agent's last words."""
COMMAND_KEYS = ("command", "cmd", "argv", "script")
OUTPUT_KEYS = ("formatted_output", "aggregated_output", "output", "stdout")
"""Where agents put what a command printed; beside it their content shows what was asked, too."""
CONTENT_KEYS = frozenset({"content", "newtext", "newstring", "newstr", "filetext", "oldstring", "oldstr", "patch"})


def command_of(raw: Mapping[str, Any]) -> tuple[str, ...] | str | None:
    """The command that a tool call wants to run, as text or as an argument list; None where it names none."""
    for key in COMMAND_KEYS:
        value = raw.get(key)
        if isinstance(value, str) and value.strip():
            rest = raw.get("args")
            if isinstance(rest, list) and rest:
                return (value, *(str(item) for item in rest))
            return value
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return tuple(value)
    return None


def kind_of(said: str, raw: Mapping[str, Any], diffs: bool = False) -> str:
    """The kind of a tool call by what it does, not by its name: a command is run, content for a path is an edit."""
    if command_of(raw) is not None:
        return "execute"
    names = {plain(key) for key in raw}
    if said in READING and (diffs or (names & CONTENT_KEYS and names & PATH_KEYS)):
        return "edit"
    return said or "other"


class Turn:
    """Follows one turn of an agent. Updates are taken as they came over the wire: agents leave out a lot.

    Args:
        place: what relative paths refer to.
        terminal_tail: gives the end of the output of one of our terminals by its id.
    """

    def __init__(self, place: Place, terminal_tail: Callable[[str], str] = lambda _: "") -> None:
        self._place = place
        self._terminal_tail = terminal_tail
        self._raw: dict[str, Json] = {}
        self._told: dict[str, ToolUse] = {}
        self._words = ""
        self._fresh = True
        self._last = ""
        self.plan_left = 0

    @property
    def claim(self) -> str:
        """The agent's last words: its text since the last tool call, or else what it said before."""
        return self._words.strip()

    @property
    def working(self) -> bool:
        """Whether a tool call has begun and not ended. Some agents call one that runs pending all the while."""
        last = self._told.get(self._last)
        waits = last is not None and self._fresh and last.status == "pending"
        return waits or any(use.status == "in_progress" for use in self._told.values())

    def call(self, call_id: str) -> Json:
        """What has been said of a tool call so far, as on the wire."""
        return dict(self._raw.get(call_id, {}))

    def take(self, update: Mapping[str, Any]) -> Output | ToolUse | None:
        """Give the event of an update, or None where it says nothing new."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                return self._message(_text(update.get("content")))
            case "agent_thought_chunk":
                text = _text(update.get("content"))
                return Output("thought", text) if text else None
            case "tool_call" | "tool_call_update":
                return self.tool(update)
            case "plan":
                entries = update.get("entries")
                entries = entries if isinstance(entries, list) else []
                self.plan_left = sum(isinstance(item, dict) and item.get("status") != "completed" for item in entries)
        return None

    def _message(self, text: str) -> Output | None:
        if not text:
            return None
        self._words = ("" if self._fresh else self._words) + text
        self._words = self._words[-KEPT_CLAIM:]
        self._fresh = False
        return Output("message", text)

    def tool(self, said: Mapping[str, Any]) -> ToolUse | None:
        """Merge what is said of a tool call, created on first sight; None without an id or anything new."""
        call_id = said.get("toolCallId")
        if not isinstance(call_id, str):
            return None
        self._fresh, self._last = True, call_id
        merged = self._raw.setdefault(call_id, {})
        # Arguments may come late, and an empty list later still does not unsay them.
        merged |= {key: value for key, value in said.items() if value or value is False or key not in merged}
        use = self._use(call_id, merged)
        if self._told.get(call_id) == use:
            return None
        self._told[call_id] = use
        return use

    def _use(self, call_id: str, merged: Json) -> ToolUse:
        raw = as_arguments(merged.get("rawInput"))
        status = merged.get("status")
        known: Status = status if status in STATUSES else "pending"
        ended = known in ("completed", "failed")
        return ToolUse(
            call_id=call_id,
            kind=kind_of(_string(merged.get("kind")), raw, has_diff(merged)),
            title=_string(merged.get("title")),
            status=known,
            locations=resolved(self._place, merged),
            raw_input=raw,
            output=self._output(merged) if ended else "",
        )

    def _output(self, merged: Json) -> str:
        raw = merged.get("rawOutput")
        if isinstance(raw, dict) and (said := next((raw[key] for key in OUTPUT_KEYS if raw.get(key)), "")):
            return str(said)[-KEPT_OUTPUT:]
        parts = []
        content = merged.get("content")
        for item in content if isinstance(content, list) else []:
            if isinstance(item, dict) and item.get("type") == "content":
                parts.append(_text(item.get("content")))
            elif isinstance(item, dict) and item.get("type") == "terminal":
                parts.append(self._terminal_tail(_string(item.get("terminalId"))))
        if not any(parts) and raw is not None:
            parts.append(raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, default=str))
        return "\n".join(part for part in parts if part)[-KEPT_OUTPUT:]


def resolved(place: Place, merged: Mapping[str, Any]) -> tuple[Path, ...]:
    """The paths of a tool call, absolute, each once."""
    return tuple(dict.fromkeys(place.resolve(path) for path in said_paths(merged)))


def as_arguments(raw: Any) -> Json:
    """The arguments of a tool call as a JSON object, also where an agent sends a bare value."""
    if isinstance(raw, dict):
        return dict(raw)
    return {} if raw is None else {"value": raw}


def has_diff(merged: Mapping[str, Any]) -> bool:
    """Whether a tool call shows a change of a file."""
    content = merged.get("content")
    return isinstance(content, list) and any(isinstance(one, dict) and one.get("type") == "diff" for one in content)


def _text(content: Any) -> str:
    return _string(content.get("text")) if isinstance(content, dict) else ""


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
