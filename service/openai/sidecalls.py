"""Side calls of chat clients: titles, tags, follow-up questions. They are no part of the talk (B3).

A client asks the "model" for them with the same request as for a turn. Taken for a turn, such a call would stand in the
transcript and could run tools. So calls that carry the signs below are answered by a hidden model call, without tools,
and nothing of them is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from butler.errors import ButlerError
from butler.types import ChatMessage
from nodes.context import Faculties
from service.openai.reading import SYSTEM, CompletionBody, Message

TIMEOUT_SECONDS = 60.0
MOST_TOKENS = 1000
FEW_TOKENS = 256
MOST_SENT = 40
MOST_CHARACTERS = 8000

_WISH = re.compile(
    r"(?:please |your task is to |you are [^.:]{1,80}[.:] ?)*"
    r"(?:(?:generate|create|write|provide|suggest|give|make|come up with)\b[^.:]{0,80}\btitles?\b"
    r"|you (?:are|generate|create|write)\b[^.:]{0,60}\btitles?\b)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sign:
    """The beginning of a client's own prompt, and what else must stand in it.

    Args:
        alone: it comes as the only user message.
        of_system: it comes as a system message at the end.
    """

    begins: str
    holds: tuple[str, ...] = ()
    alone: bool = True
    of_system: bool = False


SIGNS: tuple[Sign, ...] = (
    # Open WebUI: title, tags, follow-ups, search queries, autocompletion.
    Sign("### task:", ("<chat_history>",)),
    Sign("### task:", ("### output",)),
    # LibreChat, by its ways of making titles.
    Sign("provide a concise, 5-word-or-less title for the conversation"),
    Sign("analyze this conversation and provide:", ("concise title",)),
    Sign("detect user language and write in the same language an extremely concise title"),
    # NextChat: the title, and the summary of what it is about to drop.
    Sign("please generate a four to five word title summarizing our conversation", alone=False),
    Sign("summarize the discussion briefly in 200 words or less", of_system=True),
)


def is_side_call(body: CompletionBody, headers: Mapping[str, str]) -> bool:
    """Whether a request is about the talk instead of part of it.

    That is so when it says so (the header ``X-Butler-Purpose: title``, or ``metadata.task``), when it begins like a
    known client's prompt, or when it is not streamed and wishes for a title: in a system message, or in the last
    message with a small limit on the answer.
    """
    if headers.get("x-butler-purpose") == "title" or (body.metadata or {}).get("task"):
        return True
    if any(_carries(sign, body.messages) for sign in SIGNS):
        return True
    if body.stream:
        return False
    if any(_WISH.match(_plain(message)) for message in body.messages if message.role in SYSTEM):
        return True
    limit = body.max_completion_tokens or body.max_tokens
    return limit is not None and limit <= FEW_TOKENS and bool(_WISH.match(_plain(body.messages[-1])))


async def answer_aside(faculties: Faculties, body: CompletionBody) -> str:
    """The model's answer to a side call. Raises ButlerError ``model_unavailable``."""
    if faculties.model is None:
        missing = " and ".join(faculties.model_missing)
        raise ButlerError("model_unavailable", f"No model is configured: set {missing}.")
    limit = body.max_completion_tokens or body.max_tokens or MOST_TOKENS
    text = await faculties.model.complete(
        _sent(body.messages), purpose="title", timeout=TIMEOUT_SECONDS, max_tokens=max(1, min(limit, MOST_TOKENS))
    )
    return faculties.redactor.text(text)


def _sent(messages: Sequence[Message]) -> list[ChatMessage]:
    """The newest messages as plain text, each cut to a bound; never a tool call."""
    sent: list[ChatMessage] = []
    for message in messages[-MOST_SENT:]:
        role = "system" if message.role in SYSTEM else message.role
        if role in ("system", "user", "assistant") and (text := message.text()[-MOST_CHARACTERS:]):
            sent.append({"role": role, "content": text})
    return sent


def _carries(sign: Sign, messages: Sequence[Message]) -> bool:
    last = messages[-1]
    if (last.role in SYSTEM) is not sign.of_system:
        return False
    text = _plain(last).lower()
    if not text.startswith(sign.begins) or not all(part in text for part in sign.holds):
        return False
    return not sign.alone or sign.of_system or sum(message.role == "user" for message in messages) == 1


def _plain(message: Message) -> str:
    return " ".join(message.text().split())
