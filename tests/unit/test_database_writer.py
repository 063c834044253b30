"""One writer thread with group commit: nobody's work is lost, nobody's failure is another's (F1)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, OperationalError

from butler.storage import database as database_module
from butler.storage.database import MOST_JOBS_PER_COMMIT, Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A database with one table of unique numbers."""
    made = Database(tmp_path / "numbers.db")
    made.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))
    yield made
    made.close()


def put(number: int) -> Callable[[Connection], int]:
    def transaction(connection: Connection) -> int:
        connection.execute(text("INSERT INTO numbers VALUES (:n)"), {"n": number})
        return number

    return transaction


def put_then_fail(number: int) -> Callable[[Connection], int]:
    def transaction(connection: Connection) -> int:
        put(number)(connection)
        raise ValueError(f"no {number}")

    return transaction


def stored(path: Path) -> list[int]:
    """What another process would read."""
    with closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT n FROM numbers ORDER BY n")]


async def queued(database: Database, *transactions: Callable[[Connection], int]) -> list[int | BaseException]:
    """Hold the writer with a first job until all of these wait behind it, so that they meet in one batch."""
    entered, go = threading.Event(), threading.Event()

    def hold(_: Connection) -> int:
        entered.set()
        assert go.wait(20)
        return -1

    holder = asyncio.ensure_future(database.write(hold))
    assert await asyncio.to_thread(entered.wait, 20)
    waiting = [asyncio.ensure_future(database.write(transaction)) for transaction in transactions]
    await asyncio.sleep(0)  # every one of them puts its job
    go.set()
    await holder
    return await asyncio.gather(*waiting, return_exceptions=True)


def batches(database: Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each commit had, filled as they come."""
    sizes: list[int] = []
    real = Database._commit_together

    def counted(connection: Connection, jobs: list[database_module.Job]) -> None:
        sizes.append(len(jobs))
        real(connection, jobs)

    monkeypatch.setattr(Database, "_commit_together", staticmethod(counted))
    return sizes


async def test_what_write_returned_is_on_disk(database: Database) -> None:
    assert await database.write(put(1)) == 1
    assert stored(database.path) == [1]


async def test_what_waits_together_is_committed_together(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = batches(database, monkeypatch)
    assert await queued(database, *map(put, range(30))) == list(range(30))
    assert sizes == [1, 30]
    assert stored(database.path) == list(range(30))


async def test_a_batch_has_a_bound_and_the_rest_follows(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = batches(database, monkeypatch)
    count = 2 * MOST_JOBS_PER_COMMIT
    assert await queued(database, *map(put, range(count))) == list(range(count))
    assert max(sizes) <= MOST_JOBS_PER_COMMIT + 1 and sum(sizes) == count + 1


async def test_a_failing_job_in_a_batch_is_undone_alone(database: Database) -> None:
    answers = await queued(database, put(1), put_then_fail(2), put(3), put(3), put(4))
    assert answers[0] == 1 and answers[2] == 3 and answers[4] == 4
    assert isinstance(answers[1], ValueError)
    assert isinstance(answers[3], IntegrityError)
    assert stored(database.path) == [1, 3, 4]


async def test_a_failing_job_alone_is_undone_and_the_next_works(database: Database) -> None:
    with pytest.raises(ValueError, match="no 1"):
        await database.write(put_then_fail(1))
    assert await database.write(put(2)) == 2
    assert stored(database.path) == [2]


async def test_jobs_of_a_batch_see_what_the_earlier_ones_wrote(database: Database) -> None:
    def count(connection: Connection) -> int:
        return int(connection.execute(text("SELECT count(*) FROM numbers")).scalar_one())

    assert await queued(database, put(1), count, put(2), count) == [1, 1, 2, 2]


async def test_a_caller_that_is_cancelled_doesnt_undo_its_write(database: Database) -> None:
    entered, go = threading.Event(), threading.Event()

    def slow(connection: Connection) -> int:
        entered.set()
        assert go.wait(20)
        return put(1)(connection)

    task = asyncio.ensure_future(database.write(slow))
    assert await asyncio.to_thread(entered.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    assert await database.write(put(2)) == 2  # behind the slow one
    assert stored(database.path) == [1, 2]


async def test_a_foreign_lock_delays_but_loses_nothing(database: Database) -> None:
    with closing(sqlite3.connect(database.path, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        foreign.execute("INSERT INTO numbers VALUES (100)")
        writes = [asyncio.ensure_future(database.write(put(number))) for number in range(5)]
        done, _ = await asyncio.wait(writes, timeout=0.3)
        assert not done
        assert await database.read(lambda c: c.execute(text("SELECT count(*) FROM numbers")).scalar_one()) == 0
        foreign.execute("COMMIT")
    assert await asyncio.wait_for(asyncio.gather(*writes), 20) == list(range(5))
    assert stored(database.path) == [0, 1, 2, 3, 4, 100]


async def test_when_no_transaction_can_begin_everyone_is_told_and_the_next_write_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LOCK_WAIT_SECONDS", 0.05)
    database = Database(tmp_path / "numbers.db")
    await database.write(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))
    ran: list[int] = []

    def noted(number: int) -> Callable[[Connection], int]:
        def transaction(connection: Connection) -> int:
            ran.append(number)
            return put(number)(connection)

        return transaction

    with closing(sqlite3.connect(database.path, isolation_level=None)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        answers = await asyncio.wait_for(
            asyncio.gather(*(database.write(noted(number)) for number in range(4)), return_exceptions=True), 20
        )
        foreign.execute("ROLLBACK")
    assert all(isinstance(answer, OperationalError) for answer in answers) and len(answers) == 4
    assert ran == []
    assert await database.write(noted(7)) == 7
    assert stored(database.path) == [7]
    database.close()


async def test_when_the_commit_fails_nobody_is_told_that_it_worked(tmp_path: Path) -> None:
    database = Database(tmp_path / "numbers.db")

    def create(connection: Connection) -> None:
        connection.execute(text("CREATE TABLE parents (n INTEGER PRIMARY KEY)"))
        connection.execute(
            text("CREATE TABLE numbers (n INTEGER PRIMARY KEY REFERENCES parents(n) DEFERRABLE INITIALLY DEFERRED)")
        )

    def fine(connection: Connection) -> int:
        connection.execute(text("INSERT INTO parents VALUES (1)"))
        return put(1)(connection)

    await database.write(create)
    answers = await queued(database, fine, put(2))  # 2 has no parent, which only the commit notices
    assert all(isinstance(answer, IntegrityError) for answer in answers)
    assert stored(database.path) == []
    assert await database.write(fine) == 1
    assert stored(database.path) == [1]
    database.close()


def test_close_finishes_what_is_queued(tmp_path: Path) -> None:
    database = Database(tmp_path / "numbers.db")
    database.write_now(lambda connection: connection.execute(text("CREATE TABLE numbers (n INTEGER PRIMARY KEY)")))

    async def write_and_leave() -> list[asyncio.Future[int]]:
        tasks: list[asyncio.Future[int]] = [asyncio.ensure_future(database.write(put(number))) for number in range(20)]
        await asyncio.sleep(0)
        database.close()
        await asyncio.gather(*tasks)
        return tasks

    asyncio.run(write_and_leave())
    assert stored(database.path) == list(range(20))


async def test_a_database_is_closed_twice_without_harm(database: Database) -> None:
    await asyncio.wait_for(asyncio.to_thread(database.close), 20)
    await asyncio.wait_for(asyncio.to_thread(database.close), 20)


async def test_commits_survive_a_power_cut(database: Database) -> None:
    def settings(connection: Connection) -> list[object]:
        return [
            connection.execute(text(f"PRAGMA {name}")).scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        ]

    assert await database.write(settings) == ["wal", 2, 1]


async def test_a_write_after_close_is_an_error_and_no_endless_wait(database: Database) -> None:
    database.close()
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.wait_for(database.write(put(1)), 30)
    with pytest.raises(RuntimeError, match="closed"):
        database.write_now(put(1))
    assert stored(database.path) == []
