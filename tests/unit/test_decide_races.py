"""Many decisions for one action: one wins, and everyone else learns what it was (http-api, *Resume*)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, select

from butler.approvals import deadlines, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide, find_pending_code
from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.database import Database
from butler.storage.tables import audit
from tests.support.parts import ADMIN, MIA, audited, judge, new_database, proposed, registry, ruling, tool

JUDGE = judge(registry(tool("act")))
DECISIONS = (
    Decision("approve"), Decision("reject", reason="no"), Decision("edit", args={"text": "other"}),
    Decision("respond", response="done by hand"),
)  # fmt: skip


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh ledger."""
    made = new_database(tmp_path / "butler.db")
    yield made
    made.close()


def deciding(action: Action, number: int, person: Principal = ADMIN) -> Callable[[Connection], Action]:
    return lambda connection: decide(
        connection, action.action_id, DECISIONS[number % 4], person, via=f"face-{number}", judge=JUDGE
    )


def check_that_one_won(database: Database, action: Action, answers: list[Action | BaseException]) -> None:
    winners = [answer for answer in answers if isinstance(answer, Action)]
    assert len(winners) == 1
    losers = [answer for answer in answers if isinstance(answer, BaseException)]
    for loser in losers:
        assert isinstance(loser, ButlerError) and loser.code == "already_decided", loser
        assert loser.extras["decision"] == winners[0].decision
    row = database.write_now(lambda connection: ledger.get(connection, action.action_id))
    assert row is not None and row.decision == winners[0].decision
    told = {"approve": "approved", "reject": "changes_requested", "edit": "edited", "respond": "responded"}
    assert row.decision is not None
    assert database.write_now(lambda connection: audited(connection, action.action_id)) == [
        "requested", told[row.decision["decision"]],
    ]  # fmt: skip


async def test_of_ten_tasks_one_decides(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    answers = await asyncio.gather(
        *(database.write(deciding(action, number)) for number in range(10)), return_exceptions=True
    )
    check_that_one_won(database, action, answers)


def test_of_ten_threads_one_decides(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    start = threading.Barrier(10)
    answers: list[Action | BaseException] = []

    def run(number: int) -> None:
        start.wait(20)
        try:
            answers.append(database.write_now(deciding(action, number)))
        except ButlerError as error:
            answers.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(answers) == 10
    check_that_one_won(database, action, answers)


def test_two_servers_on_one_file_decide_once(tmp_path: Path) -> None:
    databases = [new_database(tmp_path / "butler.db")]
    databases += [Database(tmp_path / "butler.db") for _ in range(2)]
    actions = proposed(databases[0], *[ruling("approve")] * 8)

    async def all_at_once() -> list[list[Action | BaseException]]:
        return [
            await asyncio.gather(
                *(databases[number % 3].write(deciding(action, number)) for number in range(9)),
                return_exceptions=True,
            )
            for action in actions
        ]

    for action, answers in zip(actions, asyncio.run(all_at_once()), strict=True):
        check_that_one_won(databases[0], action, answers)
    for database in databases:
        database.close()


async def test_of_ten_claims_one_runs_the_action(database: Database) -> None:
    allowed, asked = proposed(database, ruling("allow"), ruling("approve"))
    await database.write(deciding(asked, 0))
    for action in (allowed, asked):
        claims = await asyncio.gather(
            *(
                database.write(partial(ledger.begin, action_id=action.action_id, check=lambda *_: None))
                for _ in range(10)
            )
        )
        assert sum(claim.won for claim in claims) == 1
        assert {claim.action.attempts for claim in claims} == {1}


async def test_an_approve_and_the_clock_dont_both_win(database: Database) -> None:
    actions = proposed(database, *[ruling("approve", expires_in=3600)] * 10)
    later = "2999-01-01T00:00:00.000000Z"
    for number, action in enumerate(actions):
        race = [database.write(deciding(action, 0)), database.write(lambda c: len(deadlines.expire_due(c, later)))]
        await asyncio.gather(*(race if number % 2 else reversed(race)), return_exceptions=True)
        events = await database.read(partial(audited, action_id=action.action_id))
        assert list(events) in (["requested", "approved"], ["requested", "expired"])
        if events[1] == "expired":
            with pytest.raises(ButlerError) as late:
                await database.write(deciding(action, 0))
            assert late.value.code == "expired"


async def test_many_decisions_in_one_commit_stand_alone(database: Database) -> None:
    actions = proposed(database, *[ruling("approve")] * 6)
    persons = [ADMIN, MIA, ADMIN, MIA, ADMIN, MIA]
    answers = await asyncio.gather(
        *(
            database.write(deciding(action, 0, person))
            for action, person in zip(actions, persons, strict=True)
        ),
        return_exceptions=True,
    )  # fmt: skip
    told = [answer.code if isinstance(answer, ButlerError) else answer for answer in answers]
    assert told[1::2] == ["not_an_approver"] * 3
    assert [answer.status for answer in told[::2] if isinstance(answer, Action)] == ["approved"] * 3
    waiting = await database.read(lambda connection: ledger.pending_of_thread(connection, "thread"))
    assert [action.action_id for action in waiting] == [
        actions[1].action_id,
        actions[3].action_id,
        actions[5].action_id,
    ]


async def test_a_set_of_decisions_with_one_bad_one_changes_nothing(database: Database) -> None:
    first, second = proposed(database, ruling("approve"), ruling("approve", deciders=("admin",)))

    def both(connection: Connection) -> None:
        decide(connection, first.action_id, Decision("approve"), ADMIN, via="test", judge=JUDGE)
        decide(connection, second.action_id, Decision("approve"), MIA, via="test", judge=JUDGE)

    with pytest.raises(ButlerError):
        await database.write(both)
    assert len(await database.read(lambda connection: ledger.pending_of_thread(connection, "thread"))) == 2
    events = await database.read(lambda c: c.execute(select(audit.c.event).order_by(audit.c.seq)).scalars().all())
    assert list(events) == ["requested", "requested"]


async def test_a_used_code_finds_nothing_any_more(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    code = action.code
    assert code is not None
    found = await database.write(lambda connection: find_pending_code(connection, f" {code.lower()} ", ADMIN))
    assert found is not None and found.action_id == action.action_id
    assert await database.write(lambda connection: find_pending_code(connection, code, MIA)) is None
    await database.write(deciding(action, 0))
    assert await database.write(lambda connection: find_pending_code(connection, code, ADMIN)) is None


async def test_what_is_overdue_cant_be_decided_before_anyone_wrote_that_down(database: Database) -> None:
    [action] = proposed(database, ruling("approve", expires_in=0.000001))
    assert action.expires_at is not None and action.expires_at <= stamp()
    with pytest.raises(ButlerError) as late:
        await database.write(deciding(action, 0))
    assert (late.value.code, late.value.status) == ("expired", 410)
