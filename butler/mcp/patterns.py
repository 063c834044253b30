"""The patterns in a server's schemas: whether they can be searched for, and what that costs (E3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import regex  # type: ignore[import-untyped]

from butler.mcp.limits import MOST_REPEATED

_REPEATS = re.compile(r"(\)?)\s*\{\s*(\d+)")
_VERBOSE = re.compile(r"\(\?[a-zA-Z0-9]*x")
"""Would let a pattern hide what its repetitions are about; no JSON Schema needs it."""


def bad_patterns(schema: Any) -> list[str]:
    """What is wrong with patterns: one that is none fails every call, one that repeats too much takes all memory."""
    faults, left = [], MOST_REPEATED
    for pattern in _patterns(schema):
        left -= _cost(pattern)
        if left < 0 or _VERBOSE.search(pattern):
            faults.append(f"has the pattern {pattern[:80]!r}, which repeats too much to be searched for")
            return faults
        try:
            regex.compile(pattern)
        except (regex.error, RecursionError, OverflowError):
            faults.append(f"has the pattern {pattern[:80]!r}, which is none")
    return faults


def _cost(pattern: str) -> int:
    """At least how many steps the library makes of a pattern: it writes out each repetition that must be there."""
    found = [(bool(group), int(number[:9])) for group, number in _REPEATS.findall(pattern)]
    single = sum(number for group, number in found if not group)
    groups = math.prod(max(1, number) for group, number in found if group)
    return (len(pattern) + single) * groups if groups > 1 or single > len(pattern) else 0


def _patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            elif key == "patternProperties" and isinstance(value, dict):
                yield from value
                yield from _patterns(list(value.values()))
            elif key not in ("const", "enum", "default", "examples"):
                yield from _patterns(value)
    elif isinstance(node, list):
        for value in node:
            yield from _patterns(value)
