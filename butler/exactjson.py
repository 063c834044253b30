"""JSON that means one thing: no repeated names, no NaN or Infinity, no half characters (A9)."""

from __future__ import annotations

import json
from typing import Any, NoReturn


class InexactError(ValueError):
    """Text that some parsers take and that could mean two things."""


def loads_exactly(text: str) -> Any:
    """Parse `text`. Raises ValueError that says what is wrong, RecursionError for nesting beyond all measure."""
    value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
    # A lone surrogate can be written as an escape, but neither stored nor sent as UTF-8.
    json.dumps(value, ensure_ascii=False).encode("utf-8")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InexactError(f"{name} is no JSON value")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InexactError(f"{twice!r} is given twice")
    return found
