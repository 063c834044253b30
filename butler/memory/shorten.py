"""Shortens one text around a pointer that says how to read the rest (C3, C5)."""

from __future__ import annotations

import re
from collections.abc import Callable

FLOOR_CHARS = 200
"""No text is shortened below so many characters of its own, beside the pointer."""
POINTER_WORDS = 4
_SEARCHABLE = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,8}|[^\\W_]{4,24}")


def pointer(left_out: int, text: str = "") -> str:
    """The words that stand where characters were left out; some of the text's own words find the whole."""
    words = " ".join(dict.fromkeys(_SEARCHABLE.findall(text[:FLOOR_CHARS])[:POINTER_WORDS]))
    how = f"; search_history has the whole text, query: {words}" if words else ""
    return f"[… {left_out} characters left out{how} …]"


def shortened(text: str, keep: int) -> str:
    """Keep at most so many characters, two thirds of them from the start."""
    if keep >= len(text):
        return text
    head = keep * 2 // 3
    return f"{text[:head]}{pointer(len(text) - keep, text)}{text[len(text) - (keep - head) :]}"


def shortened_to(text: str, target: int, count: Callable[[str], int]) -> str:
    """Give the longest shortening that costs at most `target` tokens, or else the shortest there is."""
    low, high = FLOOR_CHARS, len(text)
    if count(shortened(text, low)) >= count(text):
        return text
    while low + 1 < high:
        middle = (low + high) // 2
        if count(shortened(text, middle)) <= target:
            low = middle
        else:
            high = middle
    return shortened(text, low)
