"""What is seen of an attempt is written down while it runs, so that a kill of the server leaves it (D9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import structlog
from sqlalchemy.exc import SQLAlchemyError

from butler.types import Json

log = structlog.get_logger("butler.maids")
PAUSE_SECONDS = 1.0
"""The first news is written at once, later ones no more often than this."""
NOTE_BYTES = 64 * 1024


class Seen(Protocol):
    """Who watches an attempt."""

    news: asyncio.Event

    def unfinished(self) -> Json:
        """What there is to tell so far."""


@asynccontextmanager
async def noting(seen: Seen, write: Callable[[Json], Awaitable[object]]) -> AsyncIterator[None]:
    """Write down what is seen, for as long as the block lasts; nothing is written after it.

    Args:
        write: takes what `seen` tells; a database that refuses does not hurt the attempt.
    """
    over = asyncio.Event()
    task = asyncio.create_task(_keep_noting(seen, write, over))
    try:
        yield
    finally:
        over.set()
        seen.news.set()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("attempt_not_noted", exc_info=error)


async def _keep_noting(seen: Seen, write: Callable[[Json], Awaitable[object]], over: asyncio.Event) -> None:
    while True:
        await seen.news.wait()
        if over.is_set():
            return
        seen.news.clear()
        try:
            await write(seen.unfinished())
        except (SQLAlchemyError, OSError) as error:
            log.warning("attempt_not_noted", error=str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS):
                await over.wait()
