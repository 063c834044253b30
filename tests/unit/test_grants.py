"""Grants: what they cover, how they end, and that refuse rules beat them (http-api, *Resume*; E3)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from butler.approvals import grants, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.approvals.grants import Grant, GrantWish
from butler.approvals.judge import Judge
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import Principal
from butler.storage.database import Database
from butler.types import Json
from tests.support.clockwork import MovingClock
from tests.support.parts import (
    ADMIN,
    MAX,
    MIA,
    add_people,
    audited,
    judge,
    new_database,
    proposal,
    registry,
    rule,
    tool,
)

DIGEST = grants.bound_to(tool("act"))
JUDGE = judge(registry(tool("act")))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh ledger and the people of the house."""
    made = new_database(tmp_path / "butler.db")
    made.write_now(add_people)
    yield made
    made.close()


@pytest.fixture
def clock() -> Iterator[MovingClock]:
    """Time that only the test moves."""
    with MovingClock() as made:
        yield made


def call(
    database: Database, text: str = "hello", *, thread_id: str = "t", person: Principal = ADMIN, by: Judge = JUDGE,
    run_id: str = "",
) -> Action:  # fmt: skip
    """Propose one call in a run of its own."""
    one = proposal("call", text=text)
    [action] = database.write_now(
        lambda connection: ledger.propose(
            connection, [one], run_id=run_id or new_id(), thread_id=thread_id,
            person=person, rule=lambda c, p: by.on_proposal(c, p, thread_id=thread_id, person=person),
        )
    )  # fmt: skip
    return action


def give(database: Database, action: Action, by: Principal = ADMIN, **wish: Any) -> Grant:
    """Approve with a grant."""
    decision = Decision("approve", grant=GrantWish(**{"scope": "thread", "args": {}, "confirm": True, **wish}))

    def write(connection: Connection) -> Grant:
        decide(connection, action.action_id, decision, by, via="test", judge=JUDGE)
        return grants.visible_to(connection, ADMIN)[-1]

    return database.write_now(write)


def covers(
    database: Database, args: Json, *, thread_id: str = "t", person: Principal = ADMIN, digest: str = DIGEST
) -> bool:
    grant = database.write_now(
        lambda c: grants.covering(c, "act", digest, args, thread_id=thread_id, user_id=person.user_id)
    )
    return grant is not None


def test_a_grant_allows_later_calls_and_names_itself(database: Database) -> None:
    first = call(database)
    assert first.status == "pending"
    grant = give(database, first)
    later = call(database, "again")
    assert (later.status, later.rule) == ("allowed", f"grant:{grant.grant_id}")
    assert "ada" in later.reason
    assert database.write_now(lambda c: ledger.begin(c, later.action_id, JUDGE.at_execution)).won


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("thread", {("t", MIA), ("t", MAX), ("t", ADMIN)}),
        ("user", {("t", MIA), ("u", MIA)}),
        ("everyone", {(thread, person) for thread in "tu" for person in (ADMIN, MIA, MAX)}),
    ],
)
def test_the_scope_says_where_it_counts(database: Database, scope: Any, covered: set[tuple[str, Principal]]) -> None:
    give(database, call(database, person=MIA), scope=scope)
    found = {
        (thread, person)
        for thread in "tu"
        for person in (ADMIN, MIA, MAX)
        if covers(database, {"text": "x"}, thread_id=thread, person=person)
    }
    assert found == covered


def test_the_globs_say_which_arguments(database: Database) -> None:
    give(database, call(database, "draft-7"), args={"text": "draft-?"})
    assert covers(database, {"text": "draft-1"})
    assert covers(database, {"text": "draft-1", "more": True})
    assert not covers(database, {"text": "draft-10"})
    assert not covers(database, {"more": "draft-1"})


def test_a_changed_definition_of_the_tool_voids_it(database: Database) -> None:
    give(database, call(database), scope="everyone")
    assert covers(database, {}) and not covers(database, {}, digest="another")


def test_what_a_changed_definition_voided_stays_void_when_it_is_changed_back(database: Database) -> None:
    give(database, call(database), scope="everyone")
    now, missing = registry(tool("act", digest="another")), registry()
    for tools, left in ((missing, 1), (now, 0), (registry(tool("act")), 0)):
        database.write_now(partial(grants.void, tools=tools))
        assert len(database.write_now(partial(grants.visible_to, person=ADMIN))) == left
    assert database.write_now(audited)[-1] == "revoked"
    [ended] = database.write_now(partial(grants.visible_to, person=ADMIN, everything=True))
    assert (ended.state(now), ended.state(registry(tool("act")))) == ("void", "void")


def test_what_ended_a_grant_first_is_what_is_told_and_nothing_ends_it_again(
    database: Database, clock: MovingClock
) -> None:
    limits: list[Json] = [{}, {"uses": 1}, {"expires_in": 60}, {}]
    revoked, spent, short, live = (
        give(database, call(database, text), args={"text": f"{text}*"}, **more)
        for text, more in zip("abcd", limits, strict=True)
    )
    database.write_now(lambda c: grants.revoke(c, revoked.grant_id, ADMIN, "test"))
    assert call(database, "b1").status == "allowed"
    clock.move(61)
    now = registry(tool("act", digest="another"))
    before = list(database.write_now(audited))
    database.write_now(partial(grants.void, tools=now))
    assert list(database.write_now(audited)) == [*before, "revoked"]
    found = database.write_now(partial(grants.visible_to, person=ADMIN, everything=True))
    told = {grant.grant_id: (grant.state(now), grant.revoked_by) for grant in found}
    assert told == {
        revoked.grant_id: ("revoked", "ada"), spent.grant_id: ("used_up", None),
        short.grant_id: ("expired", None), live.grant_id: ("void", "butler"),
    }  # fmt: skip


def test_a_grant_for_a_user_says_the_name(database: Database) -> None:
    given = give(database, call(database, person=MIA), scope="user")
    everyone = give(database, call(database, "b", thread_id="u", person=MAX), scope="everyone")
    found = database.write_now(partial(grants.visible_to, person=ADMIN))
    assert {grant.grant_id: grant.public()["scope_name"] for grant in found} == {
        given.grant_id: "mia", everyone.grant_id: None
    }  # fmt: skip


def test_a_refuse_rule_and_an_approve_rule_beat_it_and_spend_nothing(database: Database) -> None:
    grant = give(database, call(database), scope="everyone", uses=2)
    refusing = judge(registry(tool("act")), rule("shut", "act", "refuse"))
    asking = judge(registry(tool("act")), rule("ask", "act", "approve"))
    assert call(database, "a", by=refusing).status == "refused"
    assert call(database, "b", by=asking).status == "pending"
    [left] = database.write_now(lambda c: grants.visible_to(c, ADMIN))
    assert (left.grant_id, left.uses_left) == (grant.grant_id, 2)


def test_uses_run_out(database: Database) -> None:
    give(database, call(database), uses=2)
    assert [call(database, text).status for text in "abc"] == ["allowed", "allowed", "pending"]
    assert database.write_now(lambda c: grants.visible_to(c, ADMIN)) == []


def test_the_calls_of_one_message_share_the_uses(database: Database) -> None:
    give(database, call(database), uses=2)
    calls = [proposal(f"c{number}", number) for number in range(3)]
    rows = database.write_now(
        lambda connection: ledger.propose(
            connection, calls, run_id="many", thread_id="t", person=ADMIN,
            rule=lambda c, p: JUDGE.on_proposal(c, p, thread_id="t", person=ADMIN),
        )
    )  # fmt: skip
    assert [row.status for row in rows] == ["allowed", "allowed", "pending"]


def test_a_call_that_is_proposed_again_spends_no_second_use(database: Database) -> None:
    give(database, call(database), uses=2)
    assert call(database, "a", run_id="same").action_id == call(database, "a", run_id="same").action_id
    assert call(database, "b").status == "allowed"


def test_the_last_use_is_honoured_at_execution(database: Database) -> None:
    give(database, call(database), uses=1)
    last = call(database, "a")
    assert database.write_now(lambda c: ledger.begin(c, last.action_id, JUDGE.at_execution)).won


def test_it_expires(database: Database, clock: MovingClock) -> None:
    give(database, call(database), expires_in=60)
    before = call(database, "a")
    clock.move(61)
    assert call(database, "b").status == "pending"
    # What it allowed but has not begun yet is asked for, since it stands no more.
    claim = database.write_now(lambda c: ledger.begin(c, before.action_id, JUDGE.at_execution))
    assert not claim.won and claim.action.status == "pending"
    assert database.write_now(lambda c: grants.visible_to(c, ADMIN)) == []


def test_revoked_it_counts_no_more_not_even_for_what_it_allowed_already(database: Database) -> None:
    grant = give(database, call(database))
    allowed = call(database, "a")
    database.write_now(lambda c: grants.revoke(c, grant.grant_id, ADMIN, "test"))
    assert call(database, "b").status == "pending"
    claim = database.write_now(lambda c: ledger.begin(c, allowed.action_id, JUDGE.at_execution))
    assert not claim.won and claim.action.status == "pending"
    with pytest.raises(ButlerError) as gone:
        database.write_now(lambda c: grants.revoke(c, grant.grant_id, ADMIN, "test"))
    assert gone.value.code == "not_found"


def test_a_grant_that_is_used_up_hides_no_other(database: Database) -> None:
    first, second = call(database, "a"), call(database, "b")
    give(database, first, uses=1)
    lasting = give(database, second, scope="everyone")
    rules = [call(database, text).rule for text in "cde"]
    assert rules[0] != rules[1] and rules[1:] == [f"grant:{lasting.grant_id}"] * 2


def test_only_an_admin_grants_for_everyone_and_a_refused_grant_decides_nothing(database: Database) -> None:
    mias = judge(registry(tool("act")), rule("hers", "act", "approve"))
    action = call(database, person=MIA, by=mias)
    database.write_now(
        lambda c: c.exec_driver_sql("UPDATE actions SET deciders = '[\"requester\"]' WHERE status = 'pending'")
    )
    with pytest.raises(ButlerError) as refused:
        give(database, action, by=MIA, scope="everyone")
    assert refused.value.code == "forbidden"
    row = database.write_now(lambda c: ledger.get(c, action.action_id))
    assert row is not None and row.status == "pending"
    assert list(database.write_now(lambda c: audited(c, action.action_id))) == ["requested"]
    assert give(database, action, by=MIA, scope="user", args=None).scope_id == MIA.user_id


@pytest.mark.parametrize("kind", ["reject", "edit", "respond"])
def test_a_grant_goes_with_an_approve_only(database: Database, kind: Any) -> None:
    action = call(database)
    fields: dict[str, Json] = {"edit": {"args": {"text": "x"}}, "respond": {"response": "x"}}
    more = fields.get(kind, {})
    decision = Decision(kind, grant=GrantWish("thread", {}), **more)
    with pytest.raises(ButlerError) as refused:
        database.write_now(lambda c: decide(c, action.action_id, decision, ADMIN, via="test", judge=JUDGE))
    assert refused.value.code == "invalid_request"


def test_members_see_and_revoke_only_what_is_theirs(database: Database) -> None:
    hers = give(database, call(database, person=MIA), scope="user")
    general = give(database, call(database, "b", thread_id="u", person=MAX), scope="everyone")
    seen = {
        person.name: {grant.grant_id for grant in database.write_now(partial(grants.visible_to, person=person))}
        for person in (ADMIN, MIA, MAX)
    }
    assert seen == {"ada": {hers.grant_id, general.grant_id}, "mia": {hers.grant_id}, "max": set()}
    with pytest.raises(ButlerError):
        database.write_now(lambda c: grants.revoke(c, general.grant_id, MIA, "test"))
    database.write_now(lambda c: grants.revoke(c, hers.grant_id, MIA, "test"))
    assert set(hers.public()) >= {"grant_id", "tool", "scope", "args", "expires_at", "uses_left", "by"}


def test_giving_and_taking_back_are_in_the_audit(database: Database) -> None:
    action = call(database)
    grant = give(database, action)
    database.write_now(lambda c: grants.revoke(c, grant.grant_id, ADMIN, "test"))
    assert list(database.write_now(audited)) == ["requested", "approved", "granted", "revoked"]
