"""Fits a history into what the model takes, for one call only: by whole turns, then by shorter texts (C3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from butler.memory.tokens import count_message, count_messages, count_tokens
from butler.types import ChatMessage

__all__ = ["FLOOR_CHARS", "count_messages", "count_tokens", "fit", "pointer"]

FLOOR_CHARS = 200
"""No text is shortened below so many characters of its own, beside the pointer."""

_PINNED_ROLES = ("system", "developer")


def pointer(left_out: int) -> str:
    """The words that stand where characters were left out."""
    return f"[… {left_out} characters left out …]"


def fit(
    messages: Sequence[ChatMessage],
    *,
    budget_tokens: int,
    tools_tokens: int = 0,
    count: Callable[[str], int] = count_tokens,
) -> tuple[list[ChatMessage], int]:
    """Give the messages that fit the budget, and how many messages were dropped for that.

    The oldest turns go first, whole, so that a call never parts from its result; system messages, the last
    user message and what follows it always stay. If these alone are too many, the oldest tool results and
    then the longest texts are shortened around a `pointer`, as little as it takes.

    Args:
        budget_tokens: what messages and tools may cost together.
        tools_tokens: what the tool definitions cost.
        count: the token estimate of a text.
    """
    budget = budget_tokens - tools_tokens
    costs = [count_message(message, count) for message in messages]
    total = sum(costs)
    if total <= budget:
        return list(messages), 0
    dropped: set[int] = set()
    for turn in _turns(messages)[:-1]:
        if total <= budget:
            break
        dropped.update(turn)
        total -= sum(costs[index] for index in turn)
    kept = [message for index, message in enumerate(messages) if index not in dropped]
    if total > budget:
        _shorten_texts(kept, total - budget, count)
    return kept, len(dropped)


def _turns(messages: Sequence[ChatMessage]) -> list[list[int]]:
    """The droppable positions by turn: what stands before the first user message is a turn too."""
    turns: list[list[int]] = [[]]
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "user":
            turns.append([])
        if role not in _PINNED_ROLES:
            turns[-1].append(index)
    return turns


@dataclass(order=True)
class _Text:
    """A text that may be shortened; sorts by what should go first."""

    rank: tuple[int, int]
    index: int
    tokens: int = field(compare=False)


def _shorten_texts(kept: list[ChatMessage], excess: int, count: Callable[[str], int]) -> None:
    """Shorten texts in place until `excess` tokens are gone or every one is at its floor."""
    texts: list[_Text] = []
    for index, message in enumerate(kept):
        content = message.get("content")
        if message.get("role") in _PINNED_ROLES or not isinstance(content, str):
            continue
        tokens = count(content)
        is_result = message.get("role") == "tool"
        texts.append(_Text((0, index) if is_result else (1, -tokens), index, tokens))
    for text in sorted(texts):
        if excess <= 0:
            return
        message = kept[text.index]
        shorter = _shorten(message["content"], text.tokens - excess, count)
        kept[text.index] = {**message, "content": shorter}
        excess -= text.tokens - count(shorter)


def _shorten(text: str, target: int, count: Callable[[str], int]) -> str:
    """Give the longest shortening that costs at most `target` tokens, or else the shortest there is."""
    low, high = FLOOR_CHARS, len(text)
    if count(_around(text, low)) >= count(text):
        return text
    while low + 1 < high:
        middle = (low + high) // 2
        if count(_around(text, middle)) <= target:
            low = middle
        else:
            high = middle
    return _around(text, low)


def _around(text: str, keep: int) -> str:
    """Keep so many characters, two thirds of them from the start."""
    if keep >= len(text):
        return text
    head = keep * 2 // 3
    return f"{text[:head]}{pointer(len(text) - keep)}{text[len(text) - (keep - head) :]}"
