"""Checkpoints on disk: LangGraph's SQLite saver with one writer thread that commits for all threads at once.

What AsyncSqliteSaver reads and writes stays as it is; only the way to the disk differs: one hop to a thread for each
operation instead of four, and one commit for everything that waits (docs/architecture.md has the figures).
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
import structlog
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from butler.storage.database import LOCK_WAIT_SECONDS, Database

log = structlog.get_logger("butler.checkpoints")

INSERT_CHECKPOINT = (
    "INSERT OR REPLACE INTO checkpoints"
    " (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
INSERT_WRITE = (
    "INSERT OR {on_conflict} INTO writes"
    " (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, value)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
OLDER_THAN_HEAD = (
    "DELETE FROM {table} WHERE thread_id = ? AND checkpoint_id < (SELECT max(c.checkpoint_id)"
    " FROM checkpoints c WHERE c.thread_id = ? AND c.checkpoint_ns = '')"
)
"""Ids are in the order of time. A sub-graph that the head waits for has begun after it, so what is older is over."""


class ThreadedSaver(AsyncSqliteSaver):
    """AsyncSqliteSaver whose writes share a writer thread's commits and whose head is read in one hop.

    Commits are not flushed to the platter one by one (synchronous=NORMAL): they survive the death of the process.
    After a power cut the newest may be missing; the service notices that from the ledger, which is always flushed.
    """

    def __init__(self, connection: aiosqlite.Connection, path: Path) -> None:
        super().__init__(connection, serde=plain())
        self._database = Database(path, flush_each_commit=False)
        head = sqlite3.connect(path, timeout=LOCK_WAIT_SECONDS, check_same_thread=False)
        self._head = SqliteSaver(head, serde=plain())
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="butler-head")

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Read the newest checkpoint of a thread, or the one that is named."""
        return await asyncio.get_running_loop().run_in_executor(self._reader, self._head.get_tuple, config)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; returns once it is committed."""
        place = config["configurable"]
        kind, body = self.serde.dumps_typed(checkpoint)
        about = json.dumps(get_checkpoint_metadata(config, metadata), ensure_ascii=False).encode("utf-8", "ignore")
        thread_id, namespace = str(place["thread_id"]), place["checkpoint_ns"]
        row = (thread_id, namespace, checkpoint["id"], place.get("checkpoint_id"), kind, body, about)
        await self._execute(INSERT_CHECKPOINT, row)
        return {
            "configurable": {
                "thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint["id"],
            }
        }  # fmt: skip

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote beside its checkpoint; returns once it is committed."""
        place = config["configurable"]
        replace = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        where = (str(place["thread_id"]), str(place["checkpoint_ns"]), str(place["checkpoint_id"]), task_id, task_path)
        rows = [
            (*where, WRITES_IDX_MAP.get(channel, index), channel, *self.serde.dumps_typed(value))
            for index, (channel, value) in enumerate(writes)
        ]
        if rows:
            await self._execute(INSERT_WRITE.format(on_conflict="REPLACE" if replace else "IGNORE"), rows)

    async def adelete_thread(self, thread_id: str) -> None:
        """Remove everything of a thread."""

        def transaction(connection: Connection) -> None:
            for table in ("checkpoints", "writes"):
                connection.exec_driver_sql(f"DELETE FROM {table} WHERE thread_id = ?", (thread_id,))

        await self._database.write(transaction)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep only the newest checkpoint of each thread and its writes (C7); no other `strategy` is known.

        Asked for after a turn has ended. A turn that begins or parks meanwhile loses nothing: LangGraph goes on from
        the newest checkpoint and its writes alone.
        """

        def transaction(connection: Connection) -> None:
            # Writes first: their condition reads the checkpoints that the second statement deletes.
            for table in ("writes", "checkpoints"):
                for thread_id in thread_ids:
                    connection.exec_driver_sql(OLDER_THAN_HEAD.format(table=table), (thread_id, thread_id))

        if strategy != "keep_latest":
            raise NotImplementedError(f"pruning by {strategy!r}")
        try:
            await self._database.write(transaction)
        except SQLAlchemyError as error:
            log.warning("prune_failed", threads=len(thread_ids), error=str(error))

    async def threads(self) -> dict[str, int]:
        """The threads that have checkpoints, and how many."""
        query = "SELECT thread_id, count(*) FROM checkpoints GROUP BY thread_id"
        rows = await self._database.read(lambda connection: connection.exec_driver_sql(query).all())
        return {thread_id: count for thread_id, count in rows}

    async def ping(self) -> None:
        """Prove that the file answers, and has what is read from it."""

        def look() -> None:
            self._head.conn.execute("SELECT 1 FROM checkpoints LIMIT 1").fetchone()

        await asyncio.get_running_loop().run_in_executor(self._reader, look)

    def close(self) -> None:
        """Finish what is queued and let go of the file."""
        self._database.close()
        self._reader.shutdown()
        self._head.conn.close()

    async def _execute(self, statement: str, rows: Any) -> None:
        await self._database.write(lambda connection: connection.exec_driver_sql(statement, rows))


def plain() -> JsonPlusSerializer:
    """LangGraph's strict msgpack, whatever the environment says: reading a checkpoint imports and calls nothing."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


Saver = TypeVar("Saver", bound=ThreadedSaver)


def open_checkpoints(path: Path) -> AbstractAsyncContextManager[ThreadedSaver]:
    """Open the checkpoint file; a foreign lock on it is waited for."""
    return open_saver(path, ThreadedSaver)


@asynccontextmanager
async def open_saver(path: Path, kind: type[Saver]) -> AsyncIterator[Saver]:
    """The same with a saver of another kind."""
    async with aiosqlite.connect(path, timeout=LOCK_WAIT_SECONDS) as connection:
        await AsyncSqliteSaver(connection).setup()
        saver = kind(connection, path)
        try:
            yield saver
        finally:
            saver.close()
