"""Recognises that a request was too long for the model, and reckons how long the next one may be (B2, C3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from butler.errors import ModelFailed

_SIGNS = (
    "context_length", "context length", "exceed_context", "context_size", "context size", "context window",
    "maximum context", "prompt is too long", "input is too long",
)  # fmt: skip
# What these say of lengths is about quotas and rights, not about the request.
_OTHER_MATTERS = frozenset({401, 402, 403, 404, 429})
_TOO_LARGE = 413
_TOKENS = re.compile(r"(\d[\d,]*) (?:input |prompt )?tokens", re.IGNORECASE)


@dataclass(frozen=True)
class Overflow:
    """A request that did not fit; both numbers are the endpoint's own tokens, where it gave them."""

    sent: int | None = None
    takes: int | None = None

    @staticmethod
    def read(status: int, error: Any, said: str) -> Overflow | None:
        """Give what an error says of the context, or None when it is about something else.

        Args:
            error: the error object, for llama.cpp's ``n_prompt_tokens`` and ``n_ctx``.
            said: its code and message.
        """
        lower = said.lower()
        if status in _OTHER_MATTERS or not (status == _TOO_LARGE or any(sign in lower for sign in _SIGNS)):
            return None
        given = error.get("error", error) if isinstance(error, Mapping) else None
        if isinstance(given, Mapping):
            sent, takes = given.get("n_prompt_tokens"), given.get("n_ctx")
            if isinstance(sent, int) and isinstance(takes, int):
                return Overflow(sent, takes)
        numbers = [int(number.replace(",", "")) for number in _TOKENS.findall(said[:2000])]
        return Overflow(max(numbers), min(numbers)) if len(numbers) > 1 else Overflow()

    def smaller_limit(self, limit: int, estimate: int) -> int:
        """Give the context limit for the next try: right by the endpoint's numbers, else half of what was sent.

        Args:
            limit: the limit, in estimated tokens, that the request was made for.
            estimate: the estimated tokens of the request.
        """
        was = min(limit, estimate)
        if self.sent and self.takes:
            right = self.takes * estimate // self.sent
            if right < was:
                return right
        return was // 2


class ContextOverflow(ModelFailed):
    """The endpoint takes only shorter requests; nothing of an answer had come."""

    def __init__(self, detail: str, overflow: Overflow) -> None:
        super().__init__(detail)
        self.overflow = overflow
