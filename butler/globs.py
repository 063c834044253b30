"""Globs as for file names, case kept: ``*`` any text (also lines), ``?`` one character, ``[ab]`` a choice."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import lru_cache

Matcher = Callable[[str], bool]

_TOKENS = re.compile(r"\[!?+\]?+[^\]]*\]|\*+|.", re.DOTALL)


@lru_cache(maxsize=1_024)
def compile_glob(pattern: str) -> Matcher:
    """Give a function that tells whether a whole text matches, in time near to the text's length."""
    if not any(char in pattern for char in "*?["):
        return pattern.__eq__
    if not pattern.strip("*"):
        return lambda text: True
    # fnmatch joins the pieces between stars with atomic look-aheads: no catastrophic backtracking.
    match = re.compile(fnmatch.translate(pattern)).match
    return lambda text: match(text) is not None


def covers(wide: str, narrow: str) -> bool:
    """Tell whether every text that matches `narrow` certainly matches `wide` too; False when unsure."""
    ours, theirs = _TOKENS.findall(wide), _TOKENS.findall(narrow)
    # The tokens of the narrow glob are read like characters: only a star of ours can absorb a star of theirs.
    reached = {0}
    for token in [*theirs, None]:
        for position in sorted(reached):
            while position < len(ours) and ours[position].startswith("*"):
                position += 1
                reached.add(position)
        if token is None:
            break
        reached = {
            position + (0 if ours[position].startswith("*") else 1)
            for position in reached
            if position < len(ours) and _absorbs(ours[position], token)
        }
    return len(ours) in reached


def _absorbs(ours: str, theirs: str) -> bool:
    if ours.startswith("*"):
        return True
    if theirs.startswith("*"):
        return False
    return ours == "?" or ours == theirs


def has_literal(pattern: str) -> bool:
    """Tell whether a glob asks for any certain character; ``[!~]*`` rules out as little as a star does."""
    return any(token[0] != "*" and token != "?" and len(token) in (1, 3) for token in _TOKENS.findall(pattern))


def is_exact(pattern: str) -> bool:
    """Tell whether a glob matches one text only; ``[*]`` stands for a star, so escaped texts are exact."""
    return not any(token[0] == "*" or token == "?" or len(token) > 3 for token in _TOKENS.findall(pattern))
