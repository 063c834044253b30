"""Reading what OpenAI's clients send: the whole talk each time, of which only the last user message is new.

Fields that mean nothing here are ignored, unlike on every other route: clients send what their version knows. System
messages and offered tools are ignored too: neither may widen what Butler does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from butler.errors import ButlerError
from butler.storage.client_chats import Asked, digest, digest_of_talk
from service.http.bodies import MOST_MESSAGE_CHARACTERS

CHAT_HEADERS = ("x-openwebui-chat-id", "x-chat-id")
"""The client's own id of a chat: Open WebUI's, and one that other clients can be told to send."""
MOST_MESSAGES = 20_000
SYSTEM = ("system", "developer")


class Lenient(BaseModel):
    """Base of what is read here: exact types of what is known, the rest ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Part(Lenient):
    """One part of a message's content."""

    type: Annotated[str, Field(max_length=100)]
    text: str | None = None


class Message(Lenient):
    """One message of the talk."""

    role: Annotated[str, Field(max_length=100)]
    content: str | list[Part] | None = None

    def text(self) -> str:
        """Its text parts."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text" and part.text)
        return self.content or ""


class StreamOptions(Lenient):
    """What a stream tells beside the text."""

    include_usage: bool | None = None


class CompletionBody(Lenient):
    """``POST /v1/chat/completions``."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_MESSAGES)]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True)
class Wish:
    """A request, read.

    Args:
        message: the new turn. `thread_id`: the thread that the client names, if it does.
        asked: what the chat is known again by.
        body: the whole, for side calls.
    """

    message: str
    thread_id: str | None
    asked: Asked
    body: CompletionBody
    stream: bool
    usage_in_stream: bool


def read_wish(body: CompletionBody, headers: Mapping[str, str]) -> Wish:
    """Read a request. Raises ButlerError ``invalid_request`` for what can't be a turn."""
    if body.n is not None and body.n != 1:
        raise _refused("n", "Butler gives one answer: leave `n` out or set it to 1.")
    talk = [message for message in body.messages if message.role not in SYSTEM]
    if not talk or talk[-1].role != "user":
        raise _refused(
            "messages",
            "The last message must be the user's. Butler runs its own tools and does not continue an answer.",
        )
    said = [message.text() for message in talk if message.role == "user"]
    last = said[-1]
    _refuse_other_parts(talk[-1], f"messages[{len(body.messages) - 1 - _from_end(body.messages)}].content")
    if not last.strip():
        raise _refused("messages", "The last user message is empty.")
    if len(last) > MOST_MESSAGE_CHARACTERS:
        raise _refused("messages", f"The last user message is over {MOST_MESSAGE_CHARACTERS} characters.")
    options, thread_id = body.stream_options, _named_thread(body, headers)
    return Wish(
        message=last,
        thread_id=thread_id,
        asked=_asked(said, thread_id, headers),
        body=body,
        stream=bool(body.stream),
        usage_in_stream=bool(options and options.include_usage),
    )


def _from_end(messages: Sequence[Message]) -> int:
    return next(index for index, message in enumerate(reversed(messages)) if message.role == "user")


def _refuse_other_parts(message: Message, where: str) -> None:
    if isinstance(message.content, list):
        for index, part in enumerate(message.content):
            if part.type != "text":
                raise _refused(f"{where}[{index}]", f"Butler reads text only, no {part.type!r} parts yet.")


def _named_thread(body: CompletionBody, headers: Mapping[str, str]) -> str | None:
    """``metadata.thread_id``, else the header ``X-Thread-Id``."""
    named = (body.metadata or {}).get("thread_id")
    if named is not None and not isinstance(named, str):
        raise _refused("metadata.thread_id", "metadata.thread_id must be text.")
    return named or headers.get("x-thread-id", "").strip() or None


def _asked(said: Sequence[str], thread_id: str | None, headers: Mapping[str, str]) -> Asked:
    client_chat = next((headers[name].strip() for name in CHAT_HEADERS if headers.get(name, "").strip()), "")
    if thread_id is not None:
        # Kept under its own name, so that a named thread never becomes the one that a first message leads to.
        chat = digest("thread", thread_id)
    elif client_chat:
        chat = digest("chat", client_chat)
    else:
        chat = digest("first", said[0])
    again = headers.get("x-stainless-retry-count", "0").strip() not in ("", "0")
    return Asked(chat=chat, said=digest_of_talk(said), again=again)


def _refused(param: str, detail: str) -> ButlerError:
    return ButlerError("invalid_request", detail, param=param)
