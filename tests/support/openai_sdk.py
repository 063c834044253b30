"""OpenAI's own client at a Butler server, and the words of a talk with it."""

from __future__ import annotations

from typing import Any

import httpx2
from openai import OpenAI

from tests.support.client import Client, Json
from tests.support.server import OWNER_TOKEN, ButlerServer

MODEL = "butler"


def sdk(server: ButlerServer, token: str | None = OWNER_TOKEN) -> OpenAI:
    """OpenAI's client at that server; it tries nothing twice by itself."""
    return OpenAI(api_key=token, base_url=f"{server.url}/v1", max_retries=0, http_client=httpx2.Client(trust_env=False))


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    return {"role": "assistant", "content": text}


def ask(client: OpenAI, *messages: Json, **options: Any) -> Any:
    """A whole answer."""
    talk: Any = list(messages)
    return client.chat.completions.create(model=MODEL, messages=talk, **options)


def text_of(answer: Any) -> str:
    [choice] = answer.choices
    return str(choice.message.content)


def thread_of(answer: Any) -> str:
    return str(answer.butler["thread_id"])


def texts(client: Client, thread_id: str, role: str = "user") -> list[str]:
    """What the transcript has of one role."""
    items = client.get(f"/threads/{thread_id}/messages")["items"]
    return [item["text"] for item in items if item["role"] == role]
