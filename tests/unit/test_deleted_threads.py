"""A deleted thread is out of sight at once, and its removal holds nobody up (B4, C7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, text

from butler.errors import ButlerError
from butler.memory.archive import Archive
from butler.redact import Redactor
from butler.storage import conversations, deleted, memories, upkeep
from butler.storage.conversations import Entry, Lease
from butler.storage.database import Database
from butler.storage.tables import memory_blocks, messages, runs, threads
from tests.support.parts import ADMIN, MIA, add_people, new_database

LEASE = Lease("server", 1e9)
CHUNKS = 6


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = new_database(tmp_path / "butler.db")
    made.write_now(add_people)
    yield made
    made.close()


def long_thread(database: Database, lines: int = deleted.MOST_LINES * CHUNKS - 10) -> str:
    """A thread of so many lines, all in the index, with a run that waits."""

    def write(connection: Connection) -> str:
        thread_id = conversations.create_thread(connection, MIA, "of boats")
        run = conversations.accept(connection, thread_id, MIA, "the boat", LEASE)
        entries = [Entry(f"{thread_id}:{n}", "assistant", f"boat number {n}") for n in range(lines - 2)]
        conversations.write_entries(connection, run, entries)
        conversations.move_run(connection, run.run_id, ["running"], "done")
        conversations.accept(connection, thread_id, MIA, "queued", LEASE, hold=True)
        return thread_id

    thread_id = database.write_now(write)
    asyncio.run(Archive(database, Redactor([])).catch_up(1000))
    return thread_id


def counts(connection: Connection) -> list[int]:
    tables = (threads, runs, messages, memory_blocks)
    return [len(connection.execute(select(table)).all()) for table in tables]


def words_of_the_index(connection: Connection, word: str = "boat") -> int:
    return len(
        connection.execute(text("SELECT rowid FROM message_words WHERE message_words MATCH :w"), {"w": word}).all()
    )


def test_at_once_nobody_sees_the_thread_its_lines_or_what_waited_in_it(database: Database) -> None:
    thread_id = long_thread(database)
    line = f"{thread_id}:{deleted.MOST_LINES * 4}"
    assert database.write_now(partial(deleted.delete_thread, thread_id=thread_id))
    left = database.write_now(counts)
    assert left[0] == 1 and left[2] > 0
    with pytest.raises(ButlerError, match="no thread"):
        database.write_now(partial(conversations.owned_thread, thread_id=thread_id, person=ADMIN))
    assert database.write_now(partial(conversations.list_threads, person=ADMIN, limit=9, before=None)) == []
    assert database.write_now(conversations.thread_ids) == (set(), [])
    assert database.write_now(conversations.unfinished) == ([], [])
    archive = Archive(database, Redactor([]))
    assert asyncio.run(archive.search(MIA.user_id, "boat", 20)).found == []
    with pytest.raises(ButlerError, match="no message"):
        asyncio.run(archive.line(MIA.user_id, line, 0, 100))


async def test_other_writes_get_in_between_after_one_part_at_most(database: Database) -> None:
    thread_id = await asyncio.to_thread(long_thread, database)
    order: list[str] = []

    async def remove() -> None:
        more = await database.write(partial(deleted.delete_thread, thread_id=thread_id))
        while more:
            order.append("part")
            more = await database.write(partial(deleted.remove_more, thread_id=thread_id))
        order.append("removed")

    async def talk() -> None:
        while "removed" not in order:
            await database.write(lambda connection: connection.execute(text("SELECT 1")))
            order.append("write")

    await asyncio.gather(remove(), talk())
    parts = [at for at, what in enumerate(order) if what == "part"]
    assert len(parts) == CHUNKS - 1
    assert all("write" in order[one + 1 : other] for one, other in pairwise(parts))
    assert await database.read(counts) == [0, 0, 0, 0] and await database.read(words_of_the_index) == 0


def test_what_a_crash_cut_short_is_finished_by_the_sweep(database: Database) -> None:
    other = database.write_now(partial(conversations.create_thread, person=MIA, title="other"))
    thread_id = long_thread(database)
    database.write_now(partial(deleted.delete_thread, thread_id=thread_id))
    times = 0
    while database.write_now(upkeep.sweep):
        times += 1
    assert times == CHUNKS - 1
    assert database.write_now(counts) == [1, 0, 0, 0] and database.write_now(words_of_the_index) == 0
    assert database.write_now(conversations.thread_ids)[0] == {other}


def test_large_lines_are_removed_one_at_a_time_and_small_threads_at_once(database: Database) -> None:
    def write(connection: Connection, size: int) -> str:
        thread_id = conversations.create_thread(connection, MIA, "t")
        run = conversations.accept(connection, thread_id, MIA, "x", LEASE)
        entries = [Entry(f"{thread_id}:{n}", "assistant", "x" * size) for n in range(3)]
        conversations.write_entries(connection, run, entries)
        return thread_id

    large = database.write_now(partial(write, size=deleted.MOST_CHARACTERS))
    assert database.write_now(partial(deleted.delete_thread, thread_id=large))
    assert [database.write_now(partial(deleted.remove_more, thread_id=large)) for _ in range(2)] == [True, False]
    small = database.write_now(partial(write, size=9))
    assert not database.write_now(partial(deleted.delete_thread, thread_id=small))
    assert database.write_now(counts) == [0, 0, 0, 0]


def test_a_line_that_comes_late_goes_with_the_rest(database: Database) -> None:
    thread_id = long_thread(database)
    [run_id] = database.write_now(
        lambda c: c.execute(select(runs.c.run_id).where(runs.c.status == "done")).scalars().all()
    )
    run = database.write_now(partial(conversations.get_run, run_id=run_id))
    assert run is not None
    database.write_now(partial(deleted.delete_thread, thread_id=thread_id))
    database.write_now(lambda c: conversations.write_entries(c, run, [Entry("late", "assistant", "late")]))
    database.write_now(partial(conversations.next_turn, thread_id=thread_id))
    keep_block = partial(memories.keep_block, thread_id=thread_id, user_id=MIA.user_id, text="likes boats")
    database.write_now(keep_block)
    assert database.write_now(counts)[3] == 0
    while database.write_now(partial(deleted.remove_more, thread_id=thread_id)):
        pass
    database.write_now(keep_block)
    assert database.write_now(counts) == [0, 0, 0, 0]
