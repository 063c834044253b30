"""Keeping other processes of the same user out of this one's memory and environment (F2)."""

from __future__ import annotations

import ctypes
from contextlib import suppress

PR_SET_DUMPABLE = 4


def close_to_others() -> bool:
    """Close this process's ``/proc/PID/environ`` and ``mem`` to all but root, to debuggers too (Linux).

    What it starts is not closed. False where it can't be done.
    """
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    return False
