"""What a client of the dev server asks for: a message, decisions, or to go on (E1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from langgraph.types import Command
from pydantic import ValidationError

from butler.commands import parse_house_command
from butler.errors import ButlerError
from butler.tools.registry import ToolRegistry
from service.http.bodies import MOST_MESSAGE_CHARACTERS, ResumeBody
from service.naming import Named

HOW = 'Resume with {"decisions": [{"type": "approve"}]}, one decision for each action that waits.'


@dataclass(frozen=True)
class Message:
    """Something that a person says."""

    text: str


@dataclass(frozen=True)
class Answers:
    """Decisions on what waits."""

    named: tuple[Named, ...]


@dataclass(frozen=True)
class GoOn:
    """Nothing new: show what waits, or go on where a turn was cut off."""


Wish = Message | Answers | GoOn


def read_wish(given: Any, questions: Mapping[str, str], tools: ToolRegistry) -> Wish:
    """Read the input or command of a run. Raises ButlerError ``invalid_request`` for anything else; nothing is decided.

    Args:
        questions: ids of the open interrupts and the actions that they ask about.
    """
    if isinstance(given, Command):
        if given.goto or given.update:
            raise ButlerError("invalid_request", f"Butler takes no goto and no update. To refuse, reject. {HOW}")
        return _answers(given.resume, questions)
    if given is None or given == {}:
        return GoOn()
    return Message(_text(given, tools))


def _answers(value: Any, questions: Mapping[str, str]) -> Answers:
    """LangChain's answer for all that waits, in order; or a map from interrupts to one answer each."""
    if not isinstance(value, dict) or not value:
        raise ButlerError("invalid_request", f"This decides nothing: {value!r}. {HOW}")
    if "decisions" in value:
        return Answers(tuple(_decisions(value)))
    named: list[Named] = []
    for interrupt_id, answer in value.items():
        if interrupt_id not in questions:
            known = ", ".join(questions) or "none"
            raise ButlerError("stale_decision", f"No interrupt {interrupt_id!r} waits; open are: {known}.")
        found = _decisions(answer) if isinstance(answer, dict) else []
        if len(found) != 1:
            raise ButlerError("invalid_request", f"One decision for the interrupt {interrupt_id!r}. {HOW}")
        named.append(replace(found[0], action_id=questions[interrupt_id], code=None))
    return Answers(tuple(named))


def _decisions(value: dict[str, Any]) -> list[Named]:
    try:
        return ResumeBody.model_validate({"decisions": value.get("decisions") or []}).read()
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise ButlerError("invalid_request", f"This decides nothing: {faults}. {HOW}") from None


def _text(given: Any, tools: ToolRegistry) -> str:
    """The text of the last message; earlier ones are the client's copy of the talk."""
    messages = given.get("messages") if isinstance(given, dict) else None
    if isinstance(messages, dict | str):
        messages = [messages]
    last = messages[-1] if isinstance(messages, list) and messages else None
    if isinstance(last, str):
        last = {"type": "human", "content": last}
    if not isinstance(last, dict) or (last.get("type") or last.get("role")) not in ("human", "user"):
        raise ButlerError("invalid_request", 'Say something: {"messages": [{"type": "human", "content": "…"}]}.')
    content = last.get("content")
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise ButlerError("invalid_request", "Butler reads text only; the message has another part.")
    text = "\n".join(str(part) for part in texts)
    if not text.strip():
        raise ButlerError("invalid_request", "The message is empty.")
    if len(text) > MOST_MESSAGE_CHARACTERS:
        raise ButlerError("too_large", f"A message has at most {MOST_MESSAGE_CHARACTERS} characters.")
    command = parse_house_command(text, tools.names())
    if command is not None:
        raise ButlerError(
            "invalid_request", f"/{command.name} is answered by Butler's server, not by the graph. Here, decide what "
            "waits with the buttons; /TOOL key=value works.",
        )  # fmt: skip
    return text
