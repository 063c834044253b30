"""How an argument reads as text: the same for policy globs and for what a tool is given."""

from __future__ import annotations

from typing import Any

from butler.canonical import canonical_json


def text_of(value: Any) -> str:
    """Give strings as they are and every other value as canonical JSON.

    Raises:
        ValueError: the value is no JSON, such as NaN.
    """
    return value if isinstance(value, str) else canonical_json(value)
