"""A note is kept only if the talk says it: what it cites, or else another message, which is then cited (C2)."""

from __future__ import annotations

from collections.abc import Sequence

from butler.memory.words import Reading, holds, joined, read
from butler.types import ChatMessage

FOUND_SHARE = 0.5
"""The share of a note's words that its source must have; names, numbers and codes must all be there."""


def text_of(message: ChatMessage) -> str:
    """Everything that a message says: its text, and the calls with their arguments."""
    content = message.get("content")
    parts = [content if isinstance(content, str) else str(content or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(f"{function.get('name')} {function.get('arguments')}")
    return "\n".join(part for part in parts if part)


class Sources:
    """The messages of a prefix, read once."""

    def __init__(self, prefix: Sequence[ChatMessage]) -> None:
        self._readings = [read(text_of(message)) for message in prefix]

    def find(self, text: str, cited: int | None) -> int | None:
        """The position of the message that says it: the cited one if that is true, else the newest that does.

        What a message says together with the two before it, as an answer does, counts for that message.
        """
        note = read(text)
        order = list(range(len(self._readings) - 1, -1, -1))
        if cited is not None and 0 <= cited < len(self._readings):
            order.remove(cited)
            order.insert(0, cited)
            if says(self._readings[cited], note):
                return cited
            if says(self._together(cited), note):
                return cited
        for position in order:
            if says(self._readings[position], note):
                return position
        return next((position for position in order if says(self._together(position), note)), None)

    def _together(self, position: int) -> Reading:
        return joined(self._readings[max(0, position - 2) : position + 1])


def says(source: Reading, note: Reading) -> bool:
    """Whether a text holds what a note says."""
    if not all(ways & source.known_numbers for ways in note.numbers):
        return False
    if not all(holds(source, part) for part in (*note.names, *note.codes)):
        return False
    if not note.soft:
        return bool(note.numbers or note.names or note.codes)
    weight = {part: 1.0 if part in note.words else 0.5 for part in note.soft}
    share = sum(weight[part] for part in note.soft & source.soft) / sum(weight.values())
    return share >= FOUND_SHARE
