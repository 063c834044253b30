"""Named places at which a test may kill the process, to prove what survives (A6, A8)."""

from __future__ import annotations

import os
import signal
from collections import Counter

_passed: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """SIGKILL this process if ``BUTLER_CRASH_AT`` is `name`, or ``name:n`` on the n-th passage."""
    wanted = os.environ.get("BUTLER_CRASH_AT")
    if not wanted:
        return
    target, _, count = wanted.partition(":")
    if target != name:
        return
    _passed[name] += 1
    if _passed[name] == int(count or 1):
        os.kill(os.getpid(), signal.SIGKILL)
