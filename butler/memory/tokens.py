"""Estimates tokens without a tokenizer or the net: deterministic, and rather too high than too low (C2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from butler.types import ChatMessage

MESSAGE_OVERHEAD = 4
CALL_OVERHEAD = 8

_DIGITS = b"0123456789"
_UPPER = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MARKS = bytes(c for c in range(128) if not chr(c).isalnum() and c != 32)

# Tokens per character. Lower-case Latin letters and spaces come as words of about four characters.
_WORD, _CAPITAL, _DIGIT, _MARK = 0.28, 0.5, 1.0, 0.65
# By the length in UTF-8: accents, Greek, Cyrillic, Arabic; Chinese, Japanese and most scripts; emoji.
_TWO, _THREE, _FOUR = 0.8, 1.1, 2.0


def count_tokens(text: str) -> int:
    """Estimate the tokens of a text, right for Latin, Chinese and Japanese alike."""
    ascii_part = text.encode("ascii", "ignore")
    size = len(ascii_part)
    digits = size - len(ascii_part.translate(None, _DIGITS))
    capitals = size - len(ascii_part.translate(None, _UPPER))
    marks = size - len(ascii_part.translate(None, _MARKS))
    weight = _WORD * (size - digits - capitals - marks) + _CAPITAL * capitals + _DIGIT * digits + _MARK * marks
    if size != len(text):
        weight += _beyond_ascii(text, size)
    return -int(-weight // 1)


def count_message(message: ChatMessage, count: Callable[[str], int] = count_tokens) -> int:
    """Estimate the tokens of one chat message with its calls and its share of the format."""
    total = MESSAGE_OVERHEAD + _count_any(message.get("content"), count)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        total += CALL_OVERHEAD + _count_any(function.get("name"), count)
        total += _count_any(function.get("arguments"), count)
    return total


def count_messages(messages: Iterable[ChatMessage], count: Callable[[str], int] = count_tokens) -> int:
    """Estimate the tokens of a list of chat messages."""
    return sum(count_message(message, count) for message in messages)


def count_tools(tools: Iterable[Any], count: Callable[[str], int] = count_tokens) -> int:
    """Estimate the tokens of tool definitions in the OpenAI format."""
    return sum(CALL_OVERHEAD + count(orjson.dumps(tool).decode()) for tool in tools)


def _count_any(value: Any, count: Callable[[str], int]) -> int:
    if isinstance(value, str):
        return count(value)
    return 0 if value is None else count(orjson.dumps(value, default=str).decode())


def _beyond_ascii(text: str, ascii_size: int) -> float:
    # The lengths in UTF-8 and UTF-16 give the number of characters of each width without a loop.
    four = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
    two_or_three = len(text) - ascii_size - four
    three = len(text.encode("utf-8", "surrogatepass")) - ascii_size - 4 * four - 2 * two_or_three
    return _TWO * (two_or_three - three) + _THREE * three + _FOUR * four
