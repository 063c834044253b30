"""Races and corners of threads and runs that a model of single steps does not show."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update
from sqlalchemy.exc import IntegrityError

from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import conversations, deleted
from butler.storage.conversations import Entry, Lease, Run
from butler.storage.database import Database
from butler.storage.tables import actions, audit, messages, runs, threads
from tests.support.parts import ADMIN, MAX, MIA, add_people, new_database, proposed, ruling

LEASE = Lease("server", 1e9)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh database that knows the people."""
    made = new_database(tmp_path / "butler.db")
    made.write_now(add_people)
    yield made
    made.close()


def thread_of(database: Database, person: Principal = MIA, title: str = "hello") -> str:
    return database.write_now(lambda connection: conversations.create_thread(connection, person, title))


def accept(database: Database, thread_id: str, message: str = "m") -> Run:
    return database.write_now(lambda c: conversations.accept(c, thread_id, MIA, message, LEASE))


async def test_of_many_messages_at_once_one_runs_and_the_rest_queue_in_the_order_of_arrival(database: Database) -> None:
    thread = thread_of(database)
    taken = await asyncio.gather(
        *(database.write(lambda c, n=n: conversations.accept(c, thread, MIA, f"m{n}", LEASE)) for n in range(20))  # type: ignore[misc]
    )
    assert [run.status for run in taken] == ["running", *["queued"] * 19]
    assert [run.turn for run in taken] == list(range(1, 21))
    order = [taken[0].message]
    current: Run | None = taken[0]
    while current is not None:
        running = current

        def end(connection: Connection, run: Run = running) -> Run | None:
            conversations.move_run(connection, run.run_id, ["running"], "done")
            return conversations.start_next(connection, thread, LEASE)

        current = await database.write(end)
        order += [current.message] if current else []
    assert order == [f"m{n}" for n in range(20)]


async def test_of_many_wakers_one_moves_the_run(database: Database) -> None:
    run = accept(database, thread_of(database))
    database.write_now(lambda c: conversations.move_run(c, run.run_id, ["running"], "parked"))
    woken = await asyncio.gather(
        *(database.write(lambda c: conversations.move_run(c, run.run_id, ["parked"], "running")) for _ in range(10))
    )
    assert sum(one is not None for one in woken) == 1


def test_the_database_itself_refuses_a_second_active_run(database: Database) -> None:
    thread = thread_of(database)
    accept(database, thread)
    second = accept(database, thread)
    with pytest.raises(IntegrityError, match=r"runs\.thread_id"):
        database.write_now(
            lambda c: c.execute(update(runs).where(runs.c.run_id == second.run_id).values(status="parked"))
        )


def test_a_message_to_nobodys_thread_changes_nothing(database: Database) -> None:
    with pytest.raises(Exception, match="No row was found"):
        accept(database, "no such thread")
    assert database.write_now(lambda c: c.execute(select(runs)).all()) == []


def test_somebody_elses_thread_does_not_exist_for_a_member(database: Database) -> None:
    thread = thread_of(database, MIA)
    for person in (MIA, ADMIN):
        assert (
            database.write_now(partial(conversations.owned_thread, thread_id=thread, person=person)).owner_id == "u-mia"
        )
    with pytest.raises(ButlerError) as missing:
        database.write_now(partial(conversations.owned_thread, thread_id=thread, person=MAX))
    with pytest.raises(ButlerError) as unknown:
        database.write_now(partial(conversations.owned_thread, thread_id="?", person=MAX))
    assert missing.value.code == unknown.value.code == "not_found"
    assert missing.value.detail == f"There is no thread {thread!r}."


@pytest.mark.parametrize(
    ("message", "title"),
    [("hello", "hello"), ("  two\n lines\t ", "two lines"), ("x" * 80, "x" * 80), ("x" * 81, "x" * 79 + "…")],
)
def test_the_title_is_one_short_line(database: Database, message: str, title: str) -> None:
    thread = thread_of(database, title=message)
    assert database.write_now(partial(conversations.owned_thread, thread_id=thread, person=MIA)).title == title


def test_deleting_a_thread_leaves_ledger_and_audit_and_every_other_thread(database: Database) -> None:
    [action] = proposed(database, ruling("approve"), run_id="run", thread_id="gone")
    other = thread_of(database)
    kept = accept(database, other, "kept")
    database.write_now(partial(deleted.delete_thread, thread_id="gone"))

    def left(connection: Connection) -> list[list[str]]:
        columns = (threads.c.thread_id, runs.c.run_id, messages.c.text, actions.c.action_id, audit.c.event)
        return [list(connection.execute(select(column)).scalars()) for column in columns]

    assert database.write_now(left) == [[other], [kept.run_id], ["kept"], [action.action_id], ["requested"]]


def test_lines_of_an_earlier_turn_that_come_late_stand_in_their_turn(database: Database) -> None:
    thread = thread_of(database)
    first = accept(database, thread, "one")
    accept(database, thread, "two")
    late = [Entry(f"{first.run_id}:0", "assistant", "answer to one", {"tool": "look"})]
    database.write_now(lambda c: conversations.write_entries(c, first, late))
    rows = database.write_now(lambda c: conversations.transcript(c, thread, 10, None))
    assert [row.text for row in rows] == ["one", "answer to one", "two"]
    assert rows[1].extra == {"tool": "look"}


def test_a_page_before_a_line_of_another_thread_is_not_found(database: Database) -> None:
    mine, other = thread_of(database), thread_of(database)
    line = f"{accept(database, other).run_id}:user"
    for before in (line, "no such line"):
        with pytest.raises(ButlerError) as error:
            database.write_now(partial(conversations.transcript, thread_id=mine, limit=5, before=before))
        assert error.value.code == "not_found"


def test_threads_are_listed_by_their_last_change_in_pages_that_miss_none(database: Database) -> None:
    made = [thread_of(database, person) for person in (MIA, MAX, MIA, MIA, MAX, MIA, MIA)]
    database.write_now(lambda c: c.execute(update(threads).values(updated_at="2031-01-01T00:00:00.000000Z")))
    accept(database, made[0])  # the newest change; all others are of one moment

    def pages(person: Principal, limit: int) -> list[str]:
        found: list[str] = []
        before: tuple[str, str] | None = None
        while True:
            rows = database.write_now(partial(conversations.list_threads, person=person, limit=limit, before=before))
            found += [row.thread_id for row in rows]
            if not rows:
                return found
            before = (rows[-1].updated_at, rows[-1].thread_id)

    mias = [thread for number, thread in enumerate(made) if number not in (1, 4)]
    for limit in (1, 2, 3, 10):
        for person, owned in ((ADMIN, made), (MIA, mias)):
            listed = pages(person, limit)
            assert len(listed) == len(set(listed)) and set(listed) == set(owned)
        assert pages(MIA, limit)[0] != made[1]


def test_only_the_driving_server_renews_its_leases(database: Database) -> None:
    mine = accept(database, thread_of(database))
    foreign = database.write_now(
        lambda c: conversations.accept(c, conversations.create_thread(c, MIA, "x"), MIA, "m", Lease("other", 5.0))
    )
    parked = accept(database, thread_of(database))
    database.write_now(lambda c: conversations.move_run(c, parked.run_id, ["running"], "parked"))
    database.write_now(lambda c: conversations.renew_leases(c, Lease("server", 2e9)))
    until = dict(database.write_now(lambda c: [(row.run_id, row.lease_until) for row in c.execute(select(runs))]))
    assert (until[mine.run_id], until[foreign.run_id], until[parked.run_id]) == (2e9, 5.0, 1e9)


def test_one_run_per_turn_is_kept_by_the_database(database: Database) -> None:
    thread = thread_of(database)
    run = accept(database, thread)
    database.write_now(lambda c: c.execute(update(threads).values(turns=0)))
    with pytest.raises(IntegrityError):
        accept(database, thread)
    assert database.write_now(lambda c: c.execute(select(runs.c.run_id)).scalars().all()) == [run.run_id]
