"""Decides what the scripted model answers to each request, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import Any

from tests.support import wire
from tests.support.directives import reply_for
from tests.support.replies import Entry, Json, Reply

_LOG_LIMIT = 20_000


class Script:
    """Decides the reply to each request and remembers what was asked. Lives in one event loop."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget queue, counters and log; open every gate that something waits at."""
        for gate in getattr(self, "gates", {}).values():
            gate.set()
        self.queue: list[Entry] = []
        self.seen: Counter[str] = Counter()
        self.gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.log: deque[Json] = deque(maxlen=_LOG_LIMIT)
        self.count = 0

    def reply(self, body: Mapping[str, Any], purpose: str | None) -> Reply:
        """Choose the reply; a queued one is used up."""
        messages = body["messages"]
        user = last_user_text(messages)
        for entry in self.queue:
            if entry.applies(user, str(body.get("model")), purpose):
                if entry.times:
                    entry.times -= 1
                    if entry.times == 0:
                        self.queue.remove(entry)
                return entry.reply
        if purpose == "title":
            return Reply(text="A short talk")
        if purpose is not None:
            return Reply(text=f"Summary: {len(messages)} messages, the user spoke with the butler.")
        ordered = reply_for(user, calls_since_user(messages), self.seen) if "[[" in user else None
        if ordered is not None:
            return ordered
        results = trailing_tool_texts(messages)
        if results:
            return Reply(text="done: " + " | ".join(results))
        heard = " ".join(user.split()[:10])
        return Reply(text=f"You said: {heard} . {wire.default_text(47 - min(10, len(user.split())))}")


def text_of(content: Any) -> str:
    """The text of a message's content, given plain or in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content if isinstance(content, str) else ""


def last_user_text(messages: Any) -> str:
    """The newest user message's text."""
    return next((text_of(m.get("content")) for m in reversed(messages) if m.get("role") == "user"), "")


def calls_since_user(messages: Any) -> int:
    """How many assistant messages follow the newest user message."""
    count = 0
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        count += message.get("role") == "assistant"
    return count


def trailing_tool_texts(messages: Any) -> list[str]:
    """The clipped texts of the tool results at the end of the history, in order."""
    texts: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "tool":
            break
        texts.append(" ".join(text_of(message.get("content")).split())[:200])
    return texts[::-1]
