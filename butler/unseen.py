"""Characters that print as nothing, or that move, hide or reorder others (A7)."""

from __future__ import annotations

import unicodedata

_HIDDEN_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_BLANK = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f\u180b\u180c\u180d\u180f")
"""Letters, marks and symbols that print as nothing."""


def is_unseen(char: str) -> bool:
    """Whether a character can't be seen where it stands; spaces are not among them."""
    selector = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    return unicodedata.category(char) in _HIDDEN_KINDS or char in _BLANK or selector
