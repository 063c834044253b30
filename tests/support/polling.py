"""Waiting for what another process does: poll with a deadline, never a bare sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(probe: Callable[[], T | None], what: str, seconds: float = 60.0) -> T:
    """Call the probe until it gives something true, and give that; fail with `what` after the deadline."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what} (last seen: {value!r})")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
