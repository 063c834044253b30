"""What OpenAI's clients read: completions, chunks of a stream, the list of models."""

from __future__ import annotations

from dataclasses import dataclass

from butler.types import Json
from service.events import to_json

MODEL = "butler"
DONE = b"data: [DONE]\n\n"
NO_USAGE: Json = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def models(created: int) -> Json:
    """The one model there is: the butler, whichever model it speaks through."""
    return {"object": "list", "data": [model(created)]}


def model(created: int) -> Json:
    """The butler as a model."""
    return {"id": MODEL, "object": "model", "created": created, "owned_by": "butler"}


def usage_of(usage: Json) -> Json:
    """An Outcome's usage in OpenAI's words."""
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


@dataclass(frozen=True)
class Shape:
    """What all pieces of one answer have in common; `model` is the name that was asked for."""

    answer_id: str
    created: int
    model: str

    def completion(self, text: str, finish: str, usage: Json, butler: Json | None = None) -> Json:
        """A whole answer. `butler` tells thread, run and status to programs that want them."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        more = {"butler": butler} if butler else {}
        return {**self._common("chat.completion"), "choices": [choice], "usage": usage, **more}

    def chunk(self, delta: Json, finish: str | None = None, butler: Json | None = None) -> bytes:
        """A piece of a streamed answer, as a server-sent event."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        more = {"butler": butler} if butler else {}
        return event({**self._common("chat.completion.chunk"), "choices": [choice], **more})

    def usage_chunk(self, usage: Json) -> bytes:
        """The last piece of a stream whose client wants the usage."""
        return event({**self._common("chat.completion.chunk"), "choices": [], "usage": usage})

    def _common(self, kind: str) -> Json:
        return {"id": self.answer_id, "object": kind, "created": self.created, "model": self.model}


def event(value: Json) -> bytes:
    """One server-sent event."""
    return b"data: " + to_json(value) + b"\n\n"
