"""What an attempt may ask of its provider, and what it has used (D11)."""

from __future__ import annotations

from butler.maids.contract import Tokens
from butler.maids.provider import OnLimit
from config.maid_types import Limits

GETS_PER_REQUEST = 4
"""Lists of models and the like are no model requests; an agent may ask for that many times as many."""


class Meter:
    """Counts requests and tokens; says no when they are used up."""

    def __init__(self, limits: Limits, on_limit: OnLimit | None) -> None:
        self._limits = limits
        self._on_limit = on_limit
        self._told = False
        self._requests = 0
        self._gets = 0
        self._input = 0
        self._output = 0

    def spent(self) -> Tokens:
        """What has been used so far."""
        return Tokens(self._input, self._output, self._requests)

    def admit(self, method: str) -> str | None:
        """Count a request; give the reason in a sentence where it must not go on."""
        limits = self._limits
        if method == "GET":
            self._gets += 1
            if self._gets > GETS_PER_REQUEST * limits.model_requests:
                return self._refuse(f"more than {GETS_PER_REQUEST * limits.model_requests} queries to the provider")
            return None
        if self._requests >= limits.model_requests:
            return self._refuse(f"more than {limits.model_requests} model requests")
        if self._input + self._output >= limits.tokens:
            return self._refuse(f"{self._input + self._output} tokens of {limits.tokens}")
        self._requests += 1
        return None

    def add(self, input_tokens: int, output_tokens: int) -> None:
        """Count the tokens of an answer."""
        self._input += max(input_tokens, 0)
        self._output += max(output_tokens, 0)

    def _refuse(self, what: str) -> str:
        reason = f"The attempt has used up what it may ask of its provider: {what}."
        if not self._told and self._on_limit is not None:
            self._told = True
            self._on_limit(reason)
        return reason
