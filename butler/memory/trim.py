"""Fits a history into what the model takes, for one call only: oldest results, whole turns, long texts (C3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from butler.memory.shorten import FLOOR_CHARS, pointer, shortened, shortened_to
from butler.memory.tokens import count_message, count_messages, count_tokens
from butler.types import ChatMessage

__all__ = ["FLOOR_CHARS", "count_messages", "count_tokens", "fit", "pointer", "shortened"]

_PINNED_ROLES = ("system", "developer")


def fit(
    messages: Sequence[ChatMessage],
    *,
    budget_tokens: int,
    tools_tokens: int = 0,
    count: Callable[[str], int] = count_tokens,
) -> tuple[list[ChatMessage], int]:
    """Give the messages that fit the budget, and how many messages were dropped for that.

    The results of older turns are shortened first, oldest first, then any text that alone takes over half of the
    budget. If that can't do, the oldest turns go, whole, so that a call never parts from its result; system
    messages, the last user message and what follows it always stay. If these alone are too many, their results and
    then the longest texts are shortened. Nothing is shortened more than it takes.

    Args:
        budget_tokens: what messages and tools may cost together.
        tools_tokens: what the tool definitions cost.
        count: the token estimate of a text.
    """
    budget = budget_tokens - tools_tokens
    fitting = _Fitting(messages, budget, count)
    if fitting.total <= budget:
        return list(messages), 0
    turns = _turns(messages)
    dropped = _turns_to_drop(turns, fitting)
    fitting.drop(index for turn in turns[:dropped] for index in turn)
    older = [index for turn in turns[dropped:-1] for index in turn]
    fitting.shorten(list(filter(fitting.is_result, older)), 0)
    fitting.shorten(fitting.giants(), budget // 2)
    fitting.shorten(list(filter(fitting.is_result, turns[-1])), 0)
    fitting.shorten(sorted((i for turn in turns[dropped:] for i in turn), key=lambda i: -fitting.costs[i]), 0)
    return fitting.kept(), sum(map(len, turns[:dropped]))


class _Fitting:
    """The history while it is being fitted: what each message costs by now, and what is gone."""

    def __init__(self, messages: Sequence[ChatMessage], budget: int, count: Callable[[str], int]) -> None:
        self._messages: list[ChatMessage] = list(messages)
        self._count = count
        self._gone: set[int] = set()
        self._whole: dict[int, str] = {}
        self.budget = budget
        self.costs = [count_message(message, count) for message in messages]
        self.total = sum(self.costs)

    def kept(self) -> list[ChatMessage]:
        return [message for index, message in enumerate(self._messages) if index not in self._gone]

    def drop(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            self._gone.add(index)
            self.total -= self.costs[index]

    def giants(self) -> list[int]:
        """What may be shortened and alone takes over half of the budget, the largest first."""
        found = [
            index
            for index, cost in enumerate(self.costs)
            if cost > self.budget // 2 and index not in self._gone and self._text(index)
        ]
        return sorted(found, key=lambda index: -self.costs[index])

    def least(self, index: int, floor: int) -> int:
        """What a message would cost if its text were shortened to `floor` tokens, 0 for as far as it goes."""
        text = self._text(index)
        if not text or self.costs[index] <= floor:
            return self.costs[index]
        short = shortened_to(text, floor, self._count) if floor else shortened(text, FLOOR_CHARS)
        return min(self.costs[index], self.costs[index] - self._count(text) + self._count(short))

    def is_result(self, index: int) -> bool:
        return self._messages[index].get("role") == "tool"

    def shorten(self, indexes: Sequence[int], floor: int) -> None:
        """Shorten texts in this order, none below `floor` tokens, until all fits."""
        for index in indexes:
            excess = self.total - self.budget
            if excess <= 0:
                return
            text = self._text(index)
            if not text:
                continue
            tokens = self._count(text)
            # From the whole text, or the pointer of an earlier step would be cut and its number be wrong.
            whole = self._whole.setdefault(index, text)
            shorter = shortened_to(whole, max(tokens - excess, floor), self._count)
            saved = tokens - self._count(shorter)
            if saved > 0:
                self._messages[index] = {**self._messages[index], "content": shorter}
                self.costs[index] -= saved
                self.total -= saved

    def _text(self, index: int) -> str:
        message = self._messages[index]
        content = message.get("content")
        return content if isinstance(content, str) and message.get("role") not in _PINNED_ROLES else ""


def _turns_to_drop(turns: Sequence[Sequence[int]], fitting: _Fitting) -> int:
    """How many of the oldest turns have to go when results and giants are as short as they may be before that."""
    giants, half = set(fitting.giants()), fitting.budget // 2
    last, total = set(turns[-1]), fitting.total
    least: dict[int, int] = {}
    for index in (index for turn in turns for index in turn):
        is_old_result = index not in last and fitting.is_result(index)
        cost = fitting.costs[index]
        if is_old_result:
            cost = fitting.least(index, 0)
        elif index in giants:
            cost = fitting.least(index, half)
        least[index] = cost
        total -= fitting.costs[index] - cost
    dropped = 0
    while total > fitting.budget and dropped < len(turns) - 1:
        total -= sum(least[index] for index in turns[dropped])
        dropped += 1
    return dropped


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
