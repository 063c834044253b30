"""Which thread a request belongs to: by the user and the first message; and what was asked before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from butler.storage import client_chats
from butler.storage.chat_tables import client_turns
from butler.storage.client_chats import Asked, Place, digest, digest_of_talk
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


def asked(talk: Talk, message: str, *, named: str | None = None, again: bool = False) -> Asked:
    """A request with that history."""
    said = [text for text, _ in talk] + [message]
    return Asked(digest("thread", named) if named else digest("first", said[0]), digest_of_talk(said), again)


def find(connection: Connection, talk: Talk, message: str, *, user: str = ADMIN.user_id, again: bool = False) -> Place:
    return client_chats.place(connection, user, asked(talk, message, again=again), None)


def turn(
    connection: Connection, thread: str, run: str, talk: Talk, message: str, answer: str | None, status: str = "done",
    *, named: bool = False,
) -> None:  # fmt: skip
    """A turn as it is kept: begun, and answered unless `answer` is None."""
    add_run(connection, run, thread, status=status)
    request = asked(talk, message, named=thread if named else None)
    client_chats.note(connection, ADMIN.user_id, request, thread_id=thread, run_id=run)
    if answer is not None:
        over = status not in client_chats.UNFINISHED
        client_chats.answered(connection, ADMIN.user_id, request, run, over=over)


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


def test_a_deleted_threads_first_message_leads_to_the_thread_made_after_it(connection: Connection) -> None:
    turn(connection, "t1", "r1", [], "hello", "hi")
    delete_thread(connection, "t1")
    assert find(connection, [], "hello") == Place()
    turn(connection, "t2", "r2", [], "hello", "hi")
    assert find(connection, [("hello", "hi")], "and?") == Place("t2")


def test_what_another_first_message_led_to_is_never_found_by_what_was_said_later(connection: Connection) -> None:
    turn(connection, "t", "r", [], "hello", "hi")
    assert find(connection, [("before", "yes"), ("hello", "hi")], "and?") == Place()


def test_a_turn_in_a_named_thread_does_not_move_what_its_first_message_leads_to(connection: Connection) -> None:
    turn(connection, "other", "r0", [], "hello", "hi", named=True)
    assert find(connection, [], "hello") == Place()
    turn(connection, "t", "r1", [], "hello", "hi")
    turn(connection, "other", "r2", [], "hello", "hi", named=True)
    assert find(connection, [], "hello") == Place("t")


@pytest.mark.parametrize("status", ["queued", "running", "parked"])
def test_an_unfinished_turn_is_joined_also_when_another_chat_spoke_in_its_thread_since(
    connection: Connection, status: str
) -> None:
    turn(connection, "t", "r1", [], "hello", "hi")
    turn(connection, "t", "r2", [("hello", "hi")], "pay", None, status)
    turn(connection, "t", "r3", [("hello", "hi")], "weather?", None, "queued")
    assert find(connection, [("hello", "hi")], "pay") == Place("t", "r2")
    assert find(connection, [("hello", "hi")], "weather?") == Place("t", "r3")
    assert find(connection, [("hello", "hi")], "something else") == Place("t")


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
