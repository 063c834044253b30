"""Builds one reply out of the events of a stream, or out of one whole completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from butler.memory.tokens import count_messages, count_tokens, count_tools
from butler.models.calls import CallPieces
from butler.models.config import ModelConfig
from butler.models.failures import blocked, empty_answer, from_event, too_large, unreadable
from butler.types import ChatMessage, Json, ModelReply, Usage

MAX_TEXT_CHARS = 2_000_000
MAX_CALLS = 128
_TOKENS_OF_A_CHAR = 2  # at most; so many characters can pass before the text has to be counted again
_FEWEST_BETWEEN_COUNTS = 200


class ReplyBuilder:
    """Takes events and gives the text to show for each; knows what came so far when it breaks."""

    def __init__(self, config: ModelConfig, model: str) -> None:
        self.finish_reason: str | None = None
        self.calls = CallPieces()
        self._config = config
        self._asked = model
        self._model = ""
        self._texts: list[str] = []
        self._size = 0
        self._count_at = config.context_limit // _TOKENS_OF_A_CHAR
        self._held = ""
        self._shown = False
        self._surrogate = ""
        self._usage: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def full(self) -> bool:
        """Whether the text alone is longer than the model's context: such a model has lost its way.

        The rest is not read; what came is the answer, cut by length.
        """
        if self.finish_reason is not None or self._size <= self._count_at:
            return False
        left = self._config.context_limit - count_tokens(self.text)
        if left < 0:
            self.finish_reason = "length"
            return True
        self._count_at = self._size + max(_FEWEST_BETWEEN_COUNTS, left // _TOKENS_OF_A_CHAR)
        return False

    @property
    def begun(self) -> bool:
        """Whether a first token has come: text that can be seen, or a piece of a call."""
        return self._shown or len(self.calls) > 0

    def add(self, event: Json) -> str:
        """Take one event and give the text to show now.

        Raises:
            Fault: the event is an error, or the reply grew out of bounds.
        """
        if event.get("error"):
            raise from_event(event["error"], self._config, self._asked)
        if not self._model and isinstance(event.get("model"), str):
            self._model = event["model"]
        if isinstance(event.get("usage"), dict):
            self._usage = event["usage"]
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return ""
        return self._choice(choices[0])

    def add_whole(self, body: object) -> str:
        """Take a completion that came as one JSON body and give its text.

        Raises:
            Fault: the body is an error, or no chat completion.
        """
        if isinstance(body, dict) and (body.get("error") or body.get("choices")):
            text = self.add(body)
            self.finish_reason = self.finish_reason or "stop"
            return text
        raise unreadable()

    def finish(self, messages: Sequence[ChatMessage], tools: Sequence[Json]) -> ModelReply:
        """Give the reply; usage that the endpoint did not report is estimated.

        Raises:
            Fault: the reply holds neither text nor calls.
        """
        reason = self.finish_reason or ("tool_calls" if len(self.calls) else "stop")
        calls = self.calls.finish(cut_short=reason == "length")
        text = self.text
        if not calls and not text.strip():
            raise blocked() if reason == "content_filter" else empty_answer()
        sent = _count(self._usage.get("prompt_tokens"))
        got = _count(self._usage.get("completion_tokens"))
        usage = Usage(
            count_messages(messages) + count_tools(tools) if sent is None else sent,
            count_tokens(text) + sum(count_tokens(call.name + call.arguments) for call in calls)
            if got is None
            else got,
            1,
        )
        return ModelReply(text, calls, usage, reason, self._model or self._asked)

    def _choice(self, choice: Json) -> str:
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if reason == "error":
                raise from_event(choice.get("error") or {}, self._config, self._asked)
            self.finish_reason = reason
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return ""
        if delta.get("tool_calls"):
            self.calls.add(delta["tool_calls"])
        elif isinstance(delta.get("function_call"), dict):  # the form before tool calls, without ids
            self.calls.add([{"index": 0, "function": delta["function_call"]}])
        text = _text_of(delta.get("content") or delta.get("refusal"))
        if len(self.calls) > MAX_CALLS or self._size + len(text) + self.calls.size > MAX_TEXT_CHARS:
            raise too_large()
        return self._show(text) if text else ""

    def _show(self, text: str) -> str:
        text = self._pair_surrogates(text)
        self._texts.append(text)
        self._size += len(text)
        if self._shown:
            return text
        # White space alone may still turn out to be an empty answer, which is asked for again.
        self._held += text
        if self._held.isspace() or not self._held:
            return ""
        self._shown, text, self._held = True, self._held, ""
        return text

    def _pair_surrogates(self, text: str) -> str:
        """Join the halves of a character that a server sent as two escapes, perhaps in two events."""
        if text.isascii() and not self._surrogate:
            return text
        text = self._surrogate + text
        self._surrogate = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        whole = text[: len(text) - len(self._surrogate)]
        return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
