"""One SQLite file, one writer thread with group commit, a few reader threads (F1).

A transaction is a plain function over a SQLAlchemy connection. The writer takes whatever waits, runs
each function in its own savepoint and commits them all with one fsync, so durability costs little under
load.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool, QueuePool

from butler.redact import Redactor
from butler.words import spaced

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Job:
    """A transaction that waits for the writer, since `asked` (monotonic)."""

    transaction: Callable[[Connection], Any]
    future: Future[Any]
    asked: float


@dataclass(frozen=True)
class WriteCounts:
    """Writes `done` since the start, the `seconds` that they took from asking to disk, and how many wait now."""

    done: int
    seconds: float
    waiting: int


LOCK_WAIT_SECONDS = 60
MOST_JOBS_PER_COMMIT = 64
READERS = 2
INTERRUPT_SECONDS = 0.05
MOST_LOG_BYTES = 1024 * 1024
"""What the write-ahead log keeps on disk between check-points of SQLite."""


def sqlite_engine(
    path: Path, *, writes: bool, flush_each_commit: bool = True, redactor: Redactor | None = None
) -> Engine:
    """Open an engine whose transactions begin with BEGIN IMMEDIATE (`writes`) or a plain BEGIN.

    Without `flush_each_commit` a commit survives the death of the process but maybe not a power cut. `redactor`
    masks what goes into the audit.
    """
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=NullPool if writes else QueuePool,
        connect_args={"timeout": LOCK_WAIT_SECONDS, "check_same_thread": False},
        # An error is logged and told by /readyz; the values of its statement are what people said and decided.
        hide_parameters=True,
        execution_options={"redactor": redactor},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        # SQLAlchemy issues BEGIN itself below; the driver's own implicit BEGIN would be a deferred one.
        connection.isolation_level = None
        # What keeps the search index in step with the transcript is a trigger that calls it.
        connection.create_function("spaced", 1, spaced, deterministic=True)
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={'FULL' if flush_each_commit else 'NORMAL'}")
        cursor.execute(f"PRAGMA journal_size_limit={MOST_LOG_BYTES}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA trusted_schema=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


class TookTooLong(Exception):
    """A query was stopped because its time was over."""


class Database:
    """The butler's own rows: ``await db.write(fn)`` and ``await db.read(fn)`` run `fn(connection)`."""

    def __init__(self, path: Path, *, flush_each_commit: bool = True, redactor: Redactor | None = None) -> None:
        self.path = path
        self._write_engine = sqlite_engine(path, writes=True, flush_each_commit=flush_each_commit, redactor=redactor)
        self._read_engine = sqlite_engine(path, writes=False)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="butler-read")
        self._slow_reader = ThreadPoolExecutor(1, thread_name_prefix="butler-search")
        self._gate = threading.Lock()
        self._closed = False
        self._done, self._seconds = 0, 0.0
        self._writer = threading.Thread(target=self._write_loop, name="butler-write", daemon=True)
        self._writer.start()

    async def write(self, transaction: Callable[[Connection], T]) -> T:
        """Run `transaction` on the writer thread; returns once its commit is on disk."""
        return await asyncio.shield(asyncio.wrap_future(self._queue(transaction)))

    async def read_within(self, seconds: float, query: Callable[[Connection], T]) -> T:
        """The same for a query that may be slow: it has a reader of its own and is stopped after so long.

        Raises: TookTooLong.
        """
        return await asyncio.get_running_loop().run_in_executor(self._slow_reader, self._read_within, seconds, query)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run `query` on a reader thread against the last committed state."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_now, query)

    def write_soon(self, transaction: Callable[[Connection], Any]) -> Future[Any]:
        """Queue `transaction` and return at once: it is written before whatever is queued later."""
        return self._queue(transaction)

    def write_now(self, transaction: Callable[[Connection], T]) -> T:
        """The same as `write` for callers without an event loop (the shell)."""
        return self._queue(transaction).result()

    def _queue(self, transaction: Callable[[Connection], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._gate:
            if self._closed:
                raise RuntimeError("the database is closed")
            self._jobs.put(Job(transaction, future, time.monotonic()))
        return future

    def write_counts(self) -> WriteCounts:
        """How the writer is doing."""
        return WriteCounts(self._done, self._seconds, self._jobs.qsize())

    def close(self) -> None:
        """Finish what is queued, then let go of the file."""
        with self._gate:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()
        # What still waits for its search would hold up the end by seconds each.
        self._slow_reader.shutdown(cancel_futures=True)
        self._write_engine.dispose()
        self._read_engine.dispose()

    def _read_now(self, query: Callable[[Connection], T]) -> T:
        with self._read_engine.connect() as connection:
            return query(connection)

    def _read_within(self, seconds: float, query: Callable[[Connection], T]) -> T:
        done, late = threading.Event(), threading.Event()

        def watch(connection: Connection) -> None:
            pause = seconds
            # More than once: an interrupt between two statements of the query stops neither.
            while not done.wait(pause):
                late.set()
                connection.connection.driver_connection.interrupt()  # type: ignore[union-attr]
                pause = INTERRUPT_SECONDS

        with self._read_engine.connect() as connection:
            watcher = threading.Thread(target=watch, args=(connection,), name="butler-watch", daemon=True)
            watcher.start()
            try:
                return query(connection)
            except OperationalError as error:
                if late.is_set():
                    raise TookTooLong(f"the query was stopped after {seconds:g} s") from error
                raise
            finally:
                done.set()
                watcher.join()

    def _write_loop(self) -> None:
        connection: Connection | None = None
        while (job := self._jobs.get()) is not None:
            jobs = [job, *self._waiting()]
            stop = jobs[-1] is None
            todo = [entry for entry in jobs if entry is not None]
            try:
                if connection is None:
                    connection = self._write_engine.connect()
                self._commit_together(connection, todo)
            except Exception as error:
                # Begin or commit failed (disk full, lock never released): nobody's work is on disk.
                for failed in todo:
                    if not failed.future.done():
                        failed.future.set_exception(error)
                if connection is not None:
                    connection.invalidate()
                    connection.close()
                    connection = None
            # Only this thread changes them.
            now = time.monotonic()
            self._done += len(todo)
            for entry in todo:
                self._seconds += now - entry.asked
            if stop:
                break
        if connection is not None:
            connection.close()

    def _waiting(self) -> list[Job | None]:
        jobs: list[Job | None] = []
        while len(jobs) < MOST_JOBS_PER_COMMIT:
            try:
                jobs.append(self._jobs.get_nowait())
            except queue.Empty:
                break
            if jobs[-1] is None:
                break
        return jobs

    @staticmethod
    def _commit_together(connection: Connection, jobs: list[Job]) -> None:
        if len(jobs) == 1:
            transaction, future = jobs[0].transaction, jobs[0].future
            with connection.begin() as whole:
                try:
                    value = transaction(connection)
                except Exception as error:
                    whole.rollback()
                    future.set_exception(error)
                    return
            future.set_result(value)
            return
        results: list[tuple[Future[Any], Any, BaseException | None]] = []
        with connection.begin():
            for job in jobs:
                transaction, future = job.transaction, job.future
                savepoint = connection.begin_nested()
                try:
                    value = transaction(connection)
                except Exception as error:
                    savepoint.rollback()
                    results.append((future, None, error))
                else:
                    savepoint.commit()
                    results.append((future, value, None))
        for future, value, failure in results:
            if failure is None:
                future.set_result(value)
            else:
                future.set_exception(failure)
