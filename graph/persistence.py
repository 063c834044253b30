"""Checkpoints on disk: LangGraph's SQLite saver with patient locks, and pruning of what no one will read
(C7).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
import structlog
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

log = structlog.get_logger("butler.checkpoints")

LOCK_WAIT_SECONDS = 60
PRUNE_PAUSE_SECONDS = 0.5


@asynccontextmanager
async def open_checkpoints(path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    """Open the checkpoint file; a foreign lock is waited for, every commit is flushed to disk."""
    async with aiosqlite.connect(path, timeout=LOCK_WAIT_SECONDS) as connection:
        await connection.execute("PRAGMA synchronous=FULL")
        saver = AsyncSqliteSaver(connection)
        await saver.setup()
        yield saver


class Pruner:
    """Deletes, in batches and off everybody's path, what is older than a thread's newest checkpoint.

    Asked for only after a turn has ended. A turn that begins or parks meanwhile loses nothing: LangGraph goes on from
    the newest checkpoint and its writes alone, and those are never touched.
    """

    def __init__(self, saver: AsyncSqliteSaver) -> None:
        self._saver = saver
        self._due: set[str] = set()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._loop())

    def turn_ended(self, thread_id: str) -> None:
        """Note that a thread's older checkpoints may go."""
        self._due.add(thread_id)
        self._wake.set()

    async def prune(self, thread_ids: list[str]) -> None:
        """Keep only the head of each thread; its writes stay with it."""
        marks = ",".join("?" * len(thread_ids))
        older = (
            f"thread_id IN ({marks}) AND checkpoint_ns = '' AND checkpoint_id < (SELECT max(c.checkpoint_id)"
            " FROM checkpoints c WHERE c.thread_id = {table}.thread_id AND c.checkpoint_ns = '')"
        )
        async with self._saver.lock:
            connection = self._saver.conn
            # Writes first: their condition reads the checkpoints that the second statement deletes.
            await connection.execute(f"DELETE FROM writes WHERE {older.format(table='writes')}", thread_ids)
            await connection.execute(f"DELETE FROM checkpoints WHERE {older.format(table='checkpoints')}", thread_ids)
            await connection.commit()

    async def aclose(self) -> None:
        """Stop; what was not pruned yet is pruned after those threads' next turns."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _loop(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(PRUNE_PAUSE_SECONDS)
            self._wake.clear()
            batch = [self._due.pop() for _ in range(min(len(self._due), 200))]
            try:
                await self.prune(batch)
            except aiosqlite.Error as error:
                log.warning("prune_failed", error=str(error))
            if self._due:
                self._wake.set()
