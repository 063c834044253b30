"""The queue of notifications, in one process: whom it asks, and what it remembers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from butler.clock import stamp, stamp_in
from butler.people import Principal
from butler.storage import conversations
from butler.storage.tables import actions, notifications, users
from config.notify_file import ChannelDefinition
from service.notify import queue
from service.notify.announcing import Replies
from service.notify.notifier import ago
from tests.support.notifying import House, channel
from tests.support.parts import (
    ADMIN,
    MAX,
    MIA,
    add_run,
    proposed,
    ruling,
)

Open = Callable[..., House]


@pytest.fixture
def open_house(tmp_path: Path) -> Any:
    made: list[House] = []

    def build(*definitions: ChannelDefinition) -> House:
        made.append(House(tmp_path, *(definitions or (channel("ada"), channel("mia"), channel("max")))))
        return made[-1]

    yield build
    for house in made:
        house.database.close()


def test_everyone_who_may_decide_is_asked_and_nobody_else(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    assert [row["name"] for row in house.look()] == ["ada"]


def test_deciders_whom_the_policy_names_are_asked_too(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve", deciders=("max", "admin")))
    assert sorted(row["name"] for row in house.look()) == ["ada", "max"]


def test_who_wants_no_requests_gets_none(open_house: Open) -> None:
    house = open_house(channel("ada", events=frozenset({"replies"})))
    proposed(house.database, ruling("approve"))
    assert house.look() == []


def test_a_disabled_person_gets_nothing(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve", deciders=("max", "admin")))
    house.database.write_now(
        lambda c: c.execute(update(users).where(users.c.name == "max").values(disabled_at=stamp()))
    )
    assert [row["name"] for row in house.look()] == ["ada"]


def test_looking_again_adds_nothing(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    assert len(house.look()) == len(house.look()) == 1


def test_what_is_asked_anew_is_told_anew(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve"))
    house.look()
    house.change(action, requested_at=stamp())
    assert len(house.look()) == 2


def test_after_escalation_the_further_deciders_are_asked(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve", deciders=("admin",)))
    house.change(action, escalate_at=stamp_in(3600), escalate_to=["max"])
    assert [row["name"] for row in house.look()] == ["ada"]
    house.change(action, escalate_at=ago(1))
    assert [(row["name"], row["kind"]) for row in house.look()] == [("ada", "approval"), ("max", "escalation")]
    assert len(house.look()) == 2


def test_escalations_that_reach_nobody_hold_up_no_others(open_house: Open) -> None:
    house = open_house()
    [action] = proposed(house.database, ruling("approve", deciders=("admin",)))
    house.change(action, escalate_at=ago(10), escalate_to=["max"])

    def copies(connection: Any) -> None:
        row = dict(connection.execute(select(actions)).one()._mapping)
        lone = {**row, "escalate_to": ["zed"], "escalate_at": ago(20), "requested_at": ago(30), "code": None}
        connection.execute(
            insert(actions),
            [{**lone, "action_id": f"a{n}", "call_id": f"c{n}", "fingerprint": "f"} for n in range(600)],
        )

    house.database.write_now(copies)
    assert [row["name"] for row in house.look() if row["kind"] == "escalation"] == ["max"]


def test_more_pending_requests_than_one_look_takes_are_queued_page_by_page(open_house: Open) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))

    def copies(connection: Any) -> None:
        row = dict(connection.execute(select(actions)).one()._mapping)
        connection.execute(
            insert(actions),
            [{**row, "action_id": f"a{n}", "call_id": f"c{n}", "code": None, "fingerprint": "f"} for n in range(1200)],
        )

    house.database.write_now(copies)
    assert len(house.look()) == 1201


def test_no_url_is_stored(open_house: Open, tmp_path: Path) -> None:
    house = open_house()
    proposed(house.database, ruling("approve"))
    house.look()
    assert b"planted-path" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def finished(house: House, run_id: str, person: Principal, status: Any = "done") -> None:
    def transaction(connection: Any) -> None:
        add_run(connection, run_id, person=person)
        run = conversations.move_run(connection, run_id, ["running"], status, reply="the answer")
        assert run is not None
        Replies(house.channels).ended(connection, run)

    house.database.write_now(transaction)


def test_a_finished_run_is_told_to_its_requester(open_house: Open) -> None:
    house = open_house()
    finished(house, "r1", MIA)
    finished(house, "r2", MAX, "failed")
    finished(house, "r3", ADMIN, "cancelled")
    assert [(row["name"], row["kind"], row["run_id"]) for row in house.rows()] == [
        ("mia", "reply", "r1"), ("max", "reply", "r2"),
    ]  # fmt: skip


def test_replies_nobody_wants_cost_no_statement(open_house: Open) -> None:
    house = open_house(channel("ada", events=frozenset({"approvals"})))
    run = conversations.Run("r", "t", 1, "u", "m", "done", "", None, None, False, 0, None, None, "", "")
    Replies(house.channels).ended(None, run)  # type: ignore[arg-type]


def test_sent_rows_go_after_thirty_days_unless_their_question_is_open(open_house: Open) -> None:
    house = open_house()
    [kept] = proposed(house.database, ruling("approve"))
    [gone] = proposed(house.database, ruling("approve"), run_id="another", thread_id="another")
    house.look()
    house.reject(gone)
    values = {"status": "sent", "finished_at": ago(31 * 24 * 3600)}
    house.database.write_now(lambda c: c.execute(update(notifications).values(**values)))
    house.database.write_now(lambda c: queue.sweep(c, ago(queue.KEPT_SECONDS)))
    assert [row["action_id"] for row in house.rows()] == [kept.action_id]
    assert len(house.look()) == 1
