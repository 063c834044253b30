"""Who was shown what: the first time is written, polling costs nothing, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from butler.storage.audit import Filter, read_rows
from butler.storage.database import Database
from butler.storage.tables import sightings
from butler.types import Json
from service import showings as module
from service.attempts import Attempts
from service.events import RunLog
from service.showings import Showings
from tests.support.parts import ADMIN, MIA, new_database, proposed, ruling


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = new_database(tmp_path / "butler.db")
    yield made
    made.close()


def told(database: Database, event: str = "shown") -> list[Json]:
    return database.write_now(lambda c: read_rows(c, Filter(event=event), 100))


def test_each_person_and_channel_is_told_once(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    showings = Showings(database)
    for _ in range(3):
        showings.saw(ADMIN, [action.action_id], "http")
        showings.saw(MIA, [action.action_id], "http")
        showings.saw(MIA, [action.action_id], "notify")
    rows = told(database)
    assert [(row["actor"], row["via"], row["action_id"], row["thread_id"]) for row in rows] == [
        ("ada", "http", action.action_id, "thread"), ("mia", "http", action.action_id, "thread"),
        ("mia", "notify", action.action_id, "thread"),
    ]  # fmt: skip
    assert len(database.write_now(lambda c: c.execute(select(sightings)).all())) == 3


def test_after_a_restart_nothing_is_told_twice(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    for _ in range(2):
        Showings(database).saw(ADMIN, [action.action_id], "http")
    assert len(told(database)) == 1


def test_what_is_known_costs_no_write(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    [action] = proposed(database, ruling("approve"))
    showings = Showings(database)
    showings.saw(ADMIN, [action.action_id], "http")
    monkeypatch.setattr(database, "write_soon", None)
    showings.saw(ADMIN, [action.action_id], "http")
    showings.saw(ADMIN, [], "http")


def test_a_showing_is_written_before_the_decision_that_answers_it(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    Showings(database).saw(ADMIN, [action.action_id], "http")
    assert [row["event"] for row in database.write_now(lambda c: read_rows(c, Filter(), 10))] == ["requested", "shown"]


def test_what_could_not_be_written_is_tried_again(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    [action] = proposed(database, ruling("approve"))
    showings = Showings(database)

    def broken(*_args: object, **_more: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(module, "note_sightings", broken)
        showings.saw(ADMIN, [action.action_id], "http")
        assert told(database) == []
    showings.saw(ADMIN, [action.action_id], "http")
    assert len(told(database)) == 1


def test_what_is_remembered_has_a_limit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KNOWN", 2)
    actions = proposed(database, *[ruling("approve")] * 4)
    showings = Showings(database)
    for _ in range(2):
        for action in actions:
            showings.saw(ADMIN, [action.action_id], "http")
    assert len(told(database)) == 4


async def test_the_approvals_of_a_stream_and_of_its_end_are_shown(database: Database) -> None:
    first, second = proposed(database, *[ruling("approve")] * 2)
    log = RunLog("run")
    log.begin("thread")
    log.emit("token", {"text": "\nevent: approval\ndata: {not one}\n\n"})
    log.emit("approval", {"action_id": first.action_id})
    log.end({"approvals": [{"action_id": first.action_id}, {"action_id": second.action_id}]})
    showings = Showings(database)
    async for chunk in log.follow(0):
        showings.events(MIA, chunk, "http")
    assert [row["action_id"] for row in told(database)] == [first.action_id, second.action_id]


async def test_a_busy_client_can_not_fill_the_audit_with_its_attempts(database: Database) -> None:
    attempts = Attempts(database)
    for _ in range(100):
        await attempts.refused(MIA, "GET /audit", "http")
    await attempts.refused(MIA, "GET /users", "http")
    rows = told(database, "attempt_refused")
    assert [row["data"]["wish"] for row in rows] == ["GET /audit", "GET /users"]
    assert rows[0]["actor"] == "mia"
