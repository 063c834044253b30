"""Waiting for a call with a sign of life now and then, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
PROGRESS_SECONDS = 5.0
CHAT_SECONDS = 45.0
"""How long `chat` waits for a turn; clients give up after a minute by default."""
Progress = Callable[[float, str], Awaitable[None]]
"""Tells a client that a call goes on: seconds so far, and a sentence."""


async def patiently(work: Awaitable[T], progress: Progress, seconds: float) -> T | None:
    """What `work` gives; None when it has not come after `seconds`, and then nobody waits for it any more."""
    waiting = asyncio.ensure_future(work)
    spent = 0.0
    try:
        while spent < seconds:
            done, _ = await asyncio.wait({waiting}, timeout=min(PROGRESS_SECONDS, seconds - spent))
            if done:
                return waiting.result()
            spent = min(spent + PROGRESS_SECONDS, seconds)
            await progress(spent, f"Butler has been at it for {spent:g} seconds.")
        return None
    finally:
        waiting.cancel()
