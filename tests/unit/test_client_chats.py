"""Which thread a request belongs to: by what was said and answered before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from butler.storage import client_chats
from butler.storage.chat_tables import client_turns
from butler.storage.client_chats import Asked, Place, chain, digest
from butler.storage.database import sqlite_engine
from butler.storage.deleted import delete_thread
from tests.support.parts import ADMIN, MIA, add_run, new_database, set_run

Talk = list[tuple[str, str]]
"""Pairs of what the user said and what was answered."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    new_database(tmp_path / "butler.db").close()
    engine = sqlite_engine(tmp_path / "butler.db", writes=True, flush_each_commit=False)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def asked(talk: Talk, message: str, **more: bool) -> Asked:
    """A request with that history."""
    said = [text for text, _ in talk] + [message]
    return Asked(
        chat=digest("first", said[0]), said=chain(said), last=digest(message),
        before_last=digest(said[-2]) if talk else None, answer=digest(talk[-1][1]) if talk else None,
        again=more.get("again", False),
    )  # fmt: skip


def find(connection: Connection, talk: Talk, message: str, *, user: str = ADMIN.user_id, again: bool = False) -> Place:
    return client_chats.place(connection, user, asked(talk, message, again=again), None)


def turn(
    connection: Connection, thread: str, run: str, talk: Talk, message: str, answer: str | None, status: str = "done"
) -> None:
    """A turn as it is kept: begun, and answered unless `answer` is None."""
    add_run(connection, run, thread, status=status)
    client_chats.note(connection, ADMIN.user_id, asked(talk, message), thread_id=thread, run_id=run)
    if answer is not None:
        over = status not in client_chats.UNFINISHED
        client_chats.answered(connection, ADMIN.user_id, asked(talk, message), run, answer, over=over)


def test_a_chat_goes_on_where_it_began_and_only_for_its_user(connection: Connection) -> None:
    turn(connection, "t", "r", [], "hello", "hi")
    assert find(connection, [("hello", "hi")], "and?") == Place("t")
    assert find(connection, [("hello", "hi")], "and?", user=MIA.user_id) == Place()
    assert find(connection, [("good day", "hi")], "and?") == Place()


@pytest.mark.parametrize("status", ["queued", "running", "parked"])
def test_what_is_asked_again_before_it_is_over_is_the_same_turn(connection: Connection, status: str) -> None:
    turn(connection, "t", "r", [], "hello", "wait", status)
    assert find(connection, [], "hello") == Place("t", "r")
    assert client_chats.place(connection, ADMIN.user_id, asked([], "hello"), "t") == Place("t", "r")


@pytest.mark.parametrize(
    ("answer", "status", "again", "place"),
    [
        (None, "done", False, Place("t", "r")),
        ("hi", "done", False, Place("t")),
        ("hi", "done", True, Place("t", "r")),
        (None, "failed", False, Place("t")),
        (None, "cancelled", True, Place("t")),
    ],
)
def test_what_is_asked_again_later_is_the_same_turn_if_its_answer_never_arrived(
    connection: Connection, answer: str | None, status: str, again: bool, place: Place
) -> None:
    turn(connection, "t", "r", [], "hello", answer, status)
    assert find(connection, [], "hello", again=again) == place


def test_an_answer_waits_an_hour_and_only_while_nothing_else_was_said(connection: Connection) -> None:
    turn(connection, "t", "r1", [], "hello", None)
    connection.execute(update(client_turns).values(created_at="2020-01-01T00:00:00.000000Z"))
    assert find(connection, [], "hello") == Place("t")
    turn(connection, "t", "r2", [("hello", "hi")], "one", None)
    turn(connection, "t", "r3", [("hello", "hi"), ("one", "1")], "two", None)
    assert find(connection, [("hello", "hi")], "one") == Place("t")


def test_a_turn_that_parked_is_repeated_until_it_is_over(connection: Connection) -> None:
    turn(connection, "t", "r", [], "delete it", "may I?", "parked")
    set_run(connection, "r", "done")
    assert find(connection, [], "delete it") == Place("t", "r"), "how it came out was never told"


def test_a_deleted_threads_chats_are_forgotten(connection: Connection) -> None:
    turn(connection, "t", "r", [], "hello", "hi")
    delete_thread(connection, "t")
    assert find(connection, [("hello", "hi")], "and?") == Place()


def test_a_long_talk_is_found_by_its_last_answer_once_its_beginning_is_dropped(connection: Connection) -> None:
    turn(connection, "t", "r1", [], "hello", "hi")
    turn(connection, "t", "r2", [("hello", "hi")], "one", "1")
    assert find(connection, [("one", "1")], "two") == Place("t")
    assert find(connection, [("one", "2")], "two") == Place()
    assert find(connection, [("one", "1")], "two", user=MIA.user_id) == Place()


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.sampled_from("xyz"), max_size=3)), max_size=14))
def test_a_thread_follows_from_the_user_and_the_first_message_alone(
    connection: Connection, moves: list[tuple[str, list[str]]]
) -> None:
    with connection.begin() as whole:
        threads: dict[str, str] = {}
        for number, (first, more) in enumerate(moves):
            said = [first, *more]
            sent = [(text, f"made up {number}") for text in said[:-1]]
            place = find(connection, sent, said[-1])
            assert place == (Place(threads[first]) if first in threads else Place())
            thread = threads.setdefault(first, f"t{number}")
            turn(connection, thread, f"r{number}", sent, said[-1], f"answer {number}")
        whole.rollback()
