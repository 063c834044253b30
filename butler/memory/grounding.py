"""A note is kept only if the talk says it: what it cites, or else another message, which is then cited (C2)."""

from __future__ import annotations

from collections.abc import Sequence

from butler.memory.words import Reading, hard_parts, holds, joined, read
from butler.types import ChatMessage

FOUND_SHARE = 0.5
"""The share of a note's words that its source must have; names, numbers and codes must all be there."""
KNOWN_SHARE = 0.3
"""The share that must be its own where the rest is known from before."""


def text_of(message: ChatMessage) -> str:
    """Everything that a message says: its text, and the calls with their arguments."""
    content = message.get("content")
    parts = [content if isinstance(content, str) else str(content or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(f"{function.get('name')} {function.get('arguments')}")
    return "\n".join(part for part in parts if part)


class Sources:
    """The messages of a prefix, read once, and what is known from before."""

    def __init__(self, prefix: Sequence[ChatMessage], known: str = "") -> None:
        self._readings = [read(text_of(message)) for message in prefix]
        self._known = read(known).soft
        self._around: dict[int, Reading] = {}

    def find(self, text: str, cited: int | None) -> int | None:
        """The position of the message that says it: the cited one if that is true, else the newest that does.

        What a message says together with the two before it, as an answer does, counts for that message; so does what
        it says of a thing that is known.
        """
        note = read(text)
        order = list(range(len(self._readings) - 1, -1, -1))
        if cited is not None and 0 <= cited < len(self._readings):
            order.remove(cited)
            if says(self._readings[cited], note) or self._together(cited, note):
                return cited
        for position in order:
            if says(self._readings[position], note):
                return position
        return next((position for position in order if self._together(position, note)), None)

    def _together(self, position: int, note: Reading) -> bool:
        if (around := self._around.get(position)) is None:
            around = self._around[position] = joined(self._readings[max(0, position - 2) : position + 1])
        own = self._readings[position]
        part = bool(note.soft & own.soft or hard_parts(note))
        return part and (says(around, note) or says(own, note, self._known))


def says(source: Reading, note: Reading, known: frozenset[str] = frozenset()) -> bool:
    """Whether a text holds what a note says; words, not names and numbers, may be `known` from elsewhere."""
    if not all(ways & source.known_numbers for ways in note.numbers):
        return False
    if not all(holds(source, part) for part in (*note.names, *note.codes)):
        return False
    if not all(part in known or holds(source, part) for part in note.begins):
        return False
    if not note.soft:
        return bool(note.numbers or note.names or note.codes)
    weight = {part: 1.0 if part in note.words else 0.5 for part in note.soft}
    whole = sum(weight.values())
    own = sum(weight[part] for part in note.soft & source.soft)
    if known and own < KNOWN_SHARE * whole and not hard_parts(note):
        return False
    return sum(weight[part] for part in note.soft & (source.soft | known)) >= FOUND_SHARE * whole
