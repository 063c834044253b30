"""Approvals by several people, and escalation, at the ledger itself: who counts, how often, and until when (B6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, update

from butler.approvals import deadlines, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.approvals.ledger import Objection
from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.database import Database
from butler.storage.tables import actions, users
from butler.types import Ruling
from service.approvals import list_approvals
from tests.support.clockwork import MovingClock
from tests.support.parts import ADMIN, BOT, MAX, MIA, audited, judge, new_database, proposed, registry, ruling, tool

JUDGE = judge(registry(tool("act")))
APPROVERS = [Principal(f"u-{number}", f"admin-{number}", "admin") for number in range(8)]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh ledger and some more admins."""
    made = new_database(tmp_path / "butler.db")
    rows = [{"user_id": one.user_id, "name": one.name, "role": one.role, "created_at": "2031"} for one in APPROVERS]
    made.write_now(lambda connection: connection.execute(insert(users), rows))
    yield made
    made.close()


@pytest.fixture
def clock() -> Iterator[MovingClock]:
    """Time that only the test moves."""
    with MovingClock() as made:
        yield made


def asked(database: Database, person: Principal = MIA, **rule: Any) -> Action:
    """One pending action under a rule with these words about people and time."""
    given: Ruling = replace(ruling("approve", deciders=rule.pop("deciders", None)), **rule)
    return proposed(database, given, person=person)[0]


def deciding(action: Action, person: Principal, kind: Any = "approve", **more: Any) -> Callable[[Connection], Action]:
    return lambda c: decide(c, action.action_id, Decision(kind, **more), person, via="test", judge=JUDGE)


def refusal(database: Database, action: Action, person: Principal, kind: Any = "approve", **more: Any) -> ButlerError:
    with pytest.raises(ButlerError) as refused:
        database.write_now(deciding(action, person, kind, **more))
    return refused.value


async def test_of_many_at_once_exactly_as_many_count_as_are_needed(tmp_path: Path, database: Database) -> None:
    other = Database(tmp_path / "butler.db")
    action = asked(database, approvals_needed=3)
    crowd = APPROVERS * 3
    answers = await asyncio.gather(
        *(
            (database, other)[number % 2].write(deciding(action, person))
            for number, person in enumerate(crowd)
        ),
        return_exceptions=True,
    )  # fmt: skip
    other.close()
    counted = [answer for answer in answers if isinstance(answer, Action)]
    assert sorted(one.status for one in counted) == ["approved", "pending", "pending"]
    refused = [answer for answer in answers if not isinstance(answer, Action)]
    assert {one.code for one in refused if isinstance(one, ButlerError)} == {"already_decided"}
    row = next(one for one in counted if one.status == "approved")
    names = [one["by"] for one in row.approved_by or ()]
    assert len(set(names)) == 3
    events = database.write_now(partial(audited, action_id=action.action_id))
    assert list(events) == ["requested", "approved_in_part", "approved_in_part", "approved"]


def test_the_fingerprint_binds_every_one_of_them(database: Database) -> None:
    action = asked(database, approvals_needed=2)
    database.write_now(deciding(action, ADMIN, fingerprint=action.fingerprint))
    assert refusal(database, action, APPROVERS[0], fingerprint="0" * 64).code == "stale_decision"


def test_an_agent_is_never_one_of_them(database: Database) -> None:
    action = asked(database, approvals_needed=2, deciders=("bot", "agent", "admin"))
    assert refusal(database, action, BOT).code == "not_an_approver"


@pytest.mark.parametrize("values", [{"disabled_at": "2031"}, {"role": "member"}], ids=str)
def test_who_was_disabled_or_lost_the_role_since_counts_no_more(database: Database, values: dict[str, str]) -> None:
    action = asked(database, approvals_needed=2)
    database.write_now(deciding(action, APPROVERS[0]))
    change = update(users).where(users.c.user_id == APPROVERS[0].user_id).values(**values)
    database.write_now(lambda connection: connection.execute(change))
    second = database.write_now(deciding(action, ADMIN))
    assert (second.status, [one["by"] for one in second.approved_by or ()]) == ("pending", ["ada"])
    assert database.write_now(deciding(action, APPROVERS[7])).status == "approved"


def test_a_stricter_policy_at_execution_still_has_the_last_word(database: Database) -> None:
    action = asked(database, approvals_needed=2)
    for person in (ADMIN, APPROVERS[0]):
        database.write_now(deciding(action, person))
    no = Objection("policy refuses now", ruling("refuse"))
    claim = database.write_now(lambda c: ledger.begin(c, action.action_id, lambda *_: no))
    assert (claim.won, claim.action.execution) == (False, "failed")


@pytest.mark.parametrize(
    ("deciders", "may"),
    [
        (None, True), (("admin",), True), (("ada",), True), (("requester",), True), (("mia",), False),
        (("member",), False), (("mia", "max"), False), (("mia", "requester"), True),
    ],
)  # fmt: skip
def test_a_requester_decides_only_where_the_rule_names_them(
    database: Database, deciders: tuple[str, ...] | None, may: bool
) -> None:
    action = asked(database, ADMIN, deciders=deciders)
    assert action.may_be_decided_by(ADMIN) == may
    assert action.may_be_decided_by(APPROVERS[0])
    if not may:
        assert "somebody else" in refusal(database, action, ADMIN, "reject").detail


def test_time_lets_further_people_decide_though_no_one_wrote_it_down(database: Database, clock: MovingClock) -> None:
    action = asked(database, ADMIN, deciders=("mia",), escalate_after=60.0, escalate_to=("max", "admin"))
    assert refusal(database, action, MAX).code == "not_an_approver"
    clock.move(61)
    assert refusal(database, action, ADMIN).code == "not_an_approver"  # not even time makes a requester its own judge
    decided = database.write_now(deciding(action, MAX))
    assert decided.escalated_at is not None and decided.may_be_decided_by(MAX)
    assert database.write_now(lambda c: deadlines.escalate_due(c, stamp())) == []
    events = database.write_now(partial(audited, action_id=action.action_id))
    assert list(events) == ["requested", "escalated", "approved"]


def test_what_was_decided_in_time_never_escalates(database: Database, clock: MovingClock) -> None:
    action = asked(database, deciders=("mia",), escalate_after=60.0, escalate_to=("max",))
    decided = database.write_now(deciding(action, MIA))
    clock.move(61)
    assert database.write_now(lambda c: deadlines.escalate_due(c, stamp())) == []
    assert not decided.may_be_decided_by(MAX)
    assert database.write_now(deadlines.next_escalation) is None


def test_what_expired_does_not_escalate(database: Database, clock: MovingClock) -> None:
    asked(database, escalate_after=60.0, escalate_to=("max",), expires_in=90.0)
    clock.move(100)
    assert database.write_now(lambda c: deadlines.escalate_due(c, stamp())) == []


@pytest.mark.parametrize("named", [("somebody",), ("admin",)])
def test_a_members_inbox_costs_the_same_however_many_others_are_named(
    database: Database, clock: MovingClock, named: tuple[str, ...]
) -> None:
    one = asked(database, ADMIN, deciders=named, escalate_after=60.0, escalate_to=("member",))
    columns = [column for column in actions.c if column.name not in ("action_id", "call_id", "code")]
    row = database.write_now(lambda c: c.execute(actions.select()).one())._mapping
    copies = [
        {**{column.name: row[column.name] for column in columns}, "action_id": f"a{number}", "call_id": f"c{number}",
         "code": f"{number:05}"}
        for number in range(3000)
    ]  # fmt: skip
    database.write_now(lambda c: c.execute(insert(actions), copies))
    statements: list[str] = []

    def look(connection: Connection) -> list[Action]:
        event.listen(connection, "before_cursor_execute", lambda *args: statements.append(args[2]))
        return list_approvals(connection, MIA, status="pending", thread_id=None, limit=50, cursor=None)[0]

    assert database.write_now(look) == []
    assert len(statements) <= 4
    clock.move(61)
    assert len(database.write_now(look)) == 50 and one.action_id
