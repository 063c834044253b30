"""How deeply JSON may nest: far below what the encoders, the store and the shown forms of a call can carry."""

from __future__ import annotations

from typing import Any

MOST_LEVELS = 64


def nested_too_deeply(value: Any, most: int = MOST_LEVELS) -> bool:
    """Tell whether objects and lists stand in each other more than `most` levels deep; never recurses."""
    level = [value]
    for _ in range(most + 1):
        containers = [one for one in level if isinstance(one, dict | list)]
        if not containers:
            return False
        level = [item for one in containers for item in (one.values() if isinstance(one, dict) else one)]
    return True
