"""Text that goes round in circles: found in the last few thousand characters, in bounded memory and time (D7)."""

from __future__ import annotations

WINDOW = 4_096
LONGEST_PERIOD = 512
STEP = 1_024
FEWEST_LETTERS = 8


class Repetition:
    """Is fed with text as it streams; tells when the last 4096 characters only repeat one short passage."""

    def __init__(self) -> None:
        self._window = ""
        self._new = 0

    def add(self, text: str) -> str | None:
        """Take in the next text; gives the passage that is repeated, lines of dashes and the like excepted."""
        self._window = (self._window + text[-WINDOW:])[-WINDOW:]
        self._new += len(text)
        if self._new < STEP or len(self._window) < WINDOW:
            return None
        self._new = 0
        period = shortest_period(self._window)
        passage = self._window[-period:]
        if period > LONGEST_PERIOD or sum(map(str.isalnum, passage)) < FEWEST_LETTERS:
            return None
        return passage


def shortest_period(text: str) -> int:
    """The smallest shift at which a text that is not empty equals itself (Knuth, Morris, Pratt)."""
    border = [0] * len(text)
    matched = 0
    for index in range(1, len(text)):
        while matched and text[index] != text[matched]:
            matched = border[matched - 1]
        if text[index] == text[matched]:
            matched += 1
        border[index] = matched
    return len(text) - border[-1]
