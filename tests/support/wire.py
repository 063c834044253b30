"""Turns a `Reply` into the bytes of the OpenAI chat-completions format, streamed or whole."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tests.support.replies import GENERATED, Call, Json, Reply

_TEXT = (
    "the butler heard you and answers in plain calm words that mean nothing at all "
    "but always come in the same order so that a test may compare them"
)


@lru_cache(maxsize=64)
def default_text(tokens: int) -> str:
    """Deterministic text of so many tokens (one word each)."""
    return " ".join(itertools.islice(itertools.cycle(_TEXT.split()), tokens))


def tokens_of(reply: Reply) -> list[str]:
    """The reply's text in the pieces that are streamed: words with their leading space."""
    text = reply.text
    if text is None:
        text = "" if reply.calls and reply.tokens is None else default_text(reply.tokens or 50)
    return _pieces(text)


@lru_cache(maxsize=256)
def _split(text: str) -> tuple[str, ...]:
    pieces: list[str] = []
    for index, word in enumerate(text.split(" ")):
        pieces.append(word if index == 0 else " " + word)
    return tuple(piece for piece in pieces if piece)


def _pieces(text: str) -> list[str]:
    return list(_split(text))


def with_ids(calls: Sequence[Call]) -> list[tuple[Call, str | None]]:
    """Pair each call with the id to send."""
    return [(c, f"call_{uuid.uuid4().hex[:12]}" if c.call_id == GENERATED else c.call_id) for c in calls]


def usage_of(reply: Reply, messages: Any, tokens: int) -> Json:
    """Usage numbers: the scripted ones, or a plain count of a quarter of the characters."""
    prompt, completion = reply.usage or (len(json.dumps(messages)) // 4, tokens)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class StreamWriter:
    """Encodes the chunks of one streamed answer."""

    def __init__(self, model: str) -> None:
        self._head: Json = {
            "id": f"chatcmpl-{uuid.uuid4().hex[:16]}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": model,
        }
        frame = json.dumps(self._head)[:-1]
        self._token_head = (frame + ', "choices": [{"index": 0, "delta": {"content": ').encode()

    def token(self, text: str) -> bytes:
        """A chunk with text; built by hand, since there are many."""
        return b"data: " + self._token_head + json.dumps(text).encode() + b'}, "finish_reason": null}]}\n\n'

    def delta(self, delta: Json, finish: str | None = None) -> bytes:
        """Any other chunk with a choice."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _event({**self._head, "choices": [choice]})

    def usage(self, usage: Json) -> bytes:
        """The last chunk when usage was asked for."""
        return _event({**self._head, "choices": [], "usage": usage})

    def calls(self, reply: Reply) -> Iterator[bytes]:
        """The chunks of all tool calls, in the order the reply wants."""
        numbered = enumerate(with_ids(reply.calls))
        streams = [list(self._call(index, call, call_id, reply)) for index, (call, call_id) in numbered]
        if reply.interleave:
            for row in itertools.zip_longest(*streams):
                yield from (chunk for chunk in row if chunk is not None)
        else:
            for stream in streams:
                yield from stream

    def _call(self, index: int, call: Call, call_id: str | None, reply: Reply) -> Iterator[bytes]:
        names = _cut(call.name, 2) if reply.split_name else [call.name]
        for number, name in enumerate(names):
            part: Json = {"index": index, "function": {"name": name, "arguments": ""}}
            if number == 0:
                part["type"] = "function"
                if call_id is not None:
                    part["id"] = call_id
            yield self.delta({"tool_calls": [part]})
        for piece in _cut(call.arguments, reply.pieces):
            yield self.delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})


def completion(reply: Reply, model: str, messages: Any) -> bytes:
    """The whole answer as one JSON body."""
    tokens = tokens_of(reply)
    message: Json = {"role": "assistant", "content": "".join(tokens) if tokens or not reply.calls else None}
    if reply.calls:
        message["tool_calls"] = [
            {
                **({"id": call_id} if call_id is not None else {}),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call, call_id in with_ids(reply.calls)
        ]
    body = {
        "id": f"chatcmpl-{uuid.uuid4().hex[:16]}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(reply)}],
        "usage": usage_of(reply, messages, len(tokens)),
    }
    return json.dumps(body).encode()


def finish_reason(reply: Reply) -> str:
    """The scripted finish reason, or the one that fits."""
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def error_body(status: int, message: str, code: str | None = None) -> bytes:
    """An error in OpenAI's shape."""
    kind = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    error = {"message": message, "type": kind.get(status, "server_error"), "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def _cut(text: str, pieces: int) -> list[str]:
    size = max(1, -(-len(text) // max(1, pieces)))
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def _event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"
