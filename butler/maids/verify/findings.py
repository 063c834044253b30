"""What a single check finds, as bounded text: passed, failed, or an error of the check itself (D8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LIMIT = 8 * 1024
"""Characters of `expected` and of `actual` in a result."""
AROUND = 60

Outcome = Literal["passed", "failed", "error"]


@dataclass(frozen=True)
class Finding:
    """How a check came out and what was found in place of the expected."""

    outcome: Outcome
    actual: str


class CheckError(Exception):
    """The check itself can't be made: not allowed, no such program, a place outside of the tree."""


def bounded(text: str, limit: int = LIMIT) -> str:
    """Keep beginning and end of a text that is longer than `limit` characters, and say how much is left out."""
    if len(text) <= limit:
        return text
    note = f"\n[cut: {len(text)} characters in all]\n"
    half = (limit - len(note)) // 2
    return text[:half] + note + text[-half:]


def shown(data: bytes, limit: int = LIMIT) -> str:
    """Bytes as bounded text; what is no UTF-8 shows as replacement signs."""
    return bounded(data.decode("utf-8", "replace"), limit)


def in_bytes(text: str) -> bytes:
    """The UTF-8 of an expected text; also of one with half a surrogate pair, which then equals nothing."""
    return text.encode("utf-8", "surrogatepass")


def compared(expected: str, data: bytes, *, is_cut: bool = False) -> Finding:
    """Hold the whole of `data` against an expected text and show the first difference.

    Args:
        is_cut: whether `data` is only the beginning of what there was.
    """
    wanted = in_bytes(expected)
    if data == wanted and not is_cut:
        return Finding("passed", shown(data))
    text = data.decode("utf-8", "replace")
    if text == expected and not is_cut:
        return Finding("failed", "The bytes differ: what was found is no valid UTF-8.")
    at = _common(expected, text)
    line, column = text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1
    there = _excerpt(expected, at)
    here = "more than is read" if is_cut and at == len(text) else _excerpt(text, at)
    head = f"First difference at line {line}, column {column}: expected {there}, found {here}."
    return Finding("failed", bounded(f"{head}\nWhole of what was found:\n{text}"))


def _common(one: str, other: str) -> int:
    """The length of the common beginning, by halves: texts may be long."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _excerpt(text: str, at: int) -> str:
    rest = text[at : at + AROUND]
    return repr(rest) + ("…" if at + AROUND < len(text) else "") if rest else "the end"
