"""What the lines of a maid without a protocol mean: plain text, or what ``goose run`` prints as JSON (D4, D9)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

from butler.maids.acp.places import Place
from butler.maids.acp.updates import Turn
from butler.maids.contract import MaidEvent, Tokens
from butler.maids.launching.streams import as_outputs, lines_of
from butler.types import Json

CLAIM_CHARACTERS = 4096
DOCUMENT_CHARACTERS = 16 * 1024 * 1024
DENSE_LINES = 20_000
"""Text with more lines than that in one chunk is looked at no closer: it is a flood."""


class Speech(Protocol):
    """Takes the text of standard output in order and gives the events that they are."""

    @property
    def claim(self) -> str:
        """The maid's last word; it proves nothing."""

    @property
    def tokens(self) -> Tokens:
        """What the maid says it has used."""

    @property
    def working(self) -> bool | None:
        """Whether a tool call has begun and not ended; None if the maid doesn't tell."""

    def take(self, text: str) -> list[MaidEvent]:
        """Take one or more whole lines, with their ends."""

    def end(self) -> list[MaidEvent]:
        """Nothing more comes."""


class PlainSpeech:
    """Every line is text; the last ones are the claim."""

    @property
    def tokens(self) -> Tokens:
        return Tokens()

    @property
    def working(self) -> bool | None:
        return None

    def __init__(self) -> None:
        self._last = ""

    @property
    def claim(self) -> str:
        return "\n".join(line for line in self._last.split("\n") if line.strip()).strip()

    def take(self, text: str) -> list[MaidEvent]:
        self._last = (self._last + text[-CLAIM_CHARACTERS:])[-CLAIM_CHARACTERS:]
        return as_outputs("stdout", text)

    def end(self) -> list[MaidEvent]:
        return []


class AgentSpeech:
    """Understands ``goose run --output-format stream-json`` and ``json``; every other line is text.

    Goose says ``complete`` or ``"status": "completed"`` whatever has happened, so neither counts for anything.
    """

    def __init__(self, place: Place) -> None:
        self._plain = PlainSpeech()
        self._turn = Turn(place)
        self._document: list[str] | None = None
        self._size = 0
        self._requests: set[str] = set()
        self._spent = (0, 0)

    @property
    def claim(self) -> str:
        """The agent's last words, or the last lines where it said none in its own format."""
        return self._turn.claim or self._plain.claim

    @property
    def tokens(self) -> Tokens:
        return Tokens(*self._spent, model_requests=len(self._requests))

    @property
    def working(self) -> bool | None:
        return self._turn.working if self._requests else None

    def take(self, text: str) -> list[MaidEvent]:
        if ("{" not in text and self._document is None) or text.count("\n") > DENSE_LINES:
            return self._plain.take(text)
        return [event for line in lines_of(text) for event in self._line(line)]

    def end(self) -> list[MaidEvent]:
        return self._end_document() if self._document is not None else []

    def _line(self, line: str) -> list[MaidEvent]:
        if self._document is None and line.rstrip() == "{":
            self._document, self._size = [], 0
        if self._document is not None:
            self._document.append(line)
            self._size += len(line)
            ends = line.rstrip("\r\n") == "}" or self._size > DOCUMENT_CHARACTERS
            return self._end_document() if ends else []
        said = _object(line) if line.startswith("{") else None
        events = self._event(said) if said is not None else None
        return self._plain.take(line) if events is None else events

    def _end_document(self) -> list[MaidEvent]:
        text, self._document = "".join(self._document or []), None
        said = _object(text)
        messages = said.get("messages") if said is not None else None
        if not isinstance(messages, list):
            return self._plain.take(text)
        self._count(_dict(_dict(said).get("metadata")))
        return [event for message in messages for event in self._message(_dict(message))]

    def _event(self, said: Json) -> list[MaidEvent] | None:
        """The events of one line of stream-json; None if it is no such line."""
        match said:
            case {"type": "message", "message": dict(message)}:
                return self._message(message)
            case {"type": "complete", "total_tokens": _}:
                self._count(said)
                return []
            case {"type": "error", "error": str(error)}:
                return self._update("agent_message_chunk", f"{error}\n")
            case {"type": "notification"}:
                return []
        return None

    def _message(self, message: Mapping[str, Any]) -> list[MaidEvent]:
        by_agent = message.get("role") == "assistant"
        if by_agent and isinstance(identity := message.get("id"), str):
            self._requests.add(identity)
        content = message.get("content")
        events: list[MaidEvent] = []
        for part in content if isinstance(content, list) else []:
            match part:
                case {"type": "text", "text": str(text)} if by_agent:
                    events += self._update("agent_message_chunk", text)
                case {"type": "thinking", "thinking": str(text)} if by_agent:
                    events += self._update("agent_thought_chunk", text)
                case {"type": "toolRequest", "id": str(call_id)}:
                    call = _dict(_dict(part.get("toolCall")).get("value"))
                    said = {"title": call.get("name"), "rawInput": call.get("arguments"), "status": "in_progress"}
                    events += self._tool(call_id, said)
                case {"type": "toolResponse", "id": str(call_id)}:
                    events += self._tool(call_id, _result(_dict(part.get("toolResult"))))
        return events

    def _tool(self, call_id: str, said: Json) -> list[MaidEvent]:
        use = self._turn.tool({"toolCallId": call_id, **said})
        return [] if use is None else [use]

    def _update(self, kind: str, text: str) -> list[MaidEvent]:
        event = self._turn.take({"sessionUpdate": kind, "content": {"type": "text", "text": text}})
        return [] if event is None else [event]

    def _count(self, said: Mapping[str, Any]) -> None:
        self._spent = (_number(said.get("input_tokens")), _number(said.get("output_tokens")))


def _result(result: Mapping[str, Any]) -> Json:
    """How a tool call ended, in the words of the protocol."""
    value = _dict(result.get("value"))
    texts = value.get("content")
    failed = result.get("status") != "success" or value.get("isError") is True
    content = [
        {"type": "content", "content": text} for text in (texts if isinstance(texts, list) else []) if _dict(text)
    ]
    if failed and not content:
        content = [{"type": "content", "content": {"type": "text", "text": str(result.get("error", ""))}}]
    return {"status": "failed" if failed else "completed", "content": content}


def _object(text: str) -> Json | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
