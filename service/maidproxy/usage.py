"""Tokens of an answer, read while it passes: from the usage that providers tell, else guessed (D11)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

MOST_LINE = 4 * 1024 * 1024
"""Bytes of one event, or of a whole answer, that are looked at."""
BYTES_PER_TOKEN = 4
INPUT_NAMES = ("prompt_tokens", "input_tokens")
OUTPUT_NAMES = ("completion_tokens", "output_tokens")


class UsageReader:
    """Takes an answer piece by piece.

    Args:
        streamed: whether it is a stream of events, of which each is about one token; else one JSON document.
        request_bytes: size of the request, for the guess.
    """

    def __init__(self, *, streamed: bool, request_bytes: int) -> None:
        self._streamed = streamed
        self._request_bytes = request_bytes
        self._rest = b""
        self._skipping = False
        self._size = 0
        self._events = 0
        self._found: tuple[int, int] | None = None

    def feed(self, data: bytes) -> None:
        """Look at the next piece."""
        self._size += len(data)
        if not self._streamed:
            if len(self._rest) <= MOST_LINE:
                self._rest += data
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if not self._skipping:
                self._line(line)
            self._skipping = False
        if len(self._rest) > MOST_LINE:
            self._rest, self._skipping = b"", True

    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of what has passed."""
        if not self._streamed:
            self._look(self._rest)
        elif self._rest and not self._skipping:
            self._line(self._rest)
            self._rest = b""
        if self._found is not None:
            return self._found
        guess = self._events if self._streamed else self._size // BYTES_PER_TOKEN
        return self._request_bytes // BYTES_PER_TOKEN, guess

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._events += 1
            if b'"usage"' in line:
                self._look(line[5:])

    def _look(self, text: bytes) -> None:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(said, dict):
            # The newest counts: some providers tell the sum so far with each event.
            self._found = usage_of(said) or self._found


def usage_of(said: Mapping[str, Any]) -> tuple[int, int] | None:
    """Input and output tokens as a document tells them; None where it does not."""
    inner = said.get("response")
    for holder in (said, inner if isinstance(inner, dict) else {}):
        usage = holder.get("usage")
        if isinstance(usage, dict):
            return _number(usage, INPUT_NAMES), _number(usage, OUTPUT_NAMES)
    return None


def _number(usage: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return 0
