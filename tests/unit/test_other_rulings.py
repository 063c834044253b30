"""Edits and approvals measured against the rule that speaks of what would run, when it would run (A7, B6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from butler.approvals import ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.approvals.judge import Judge
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.database import Database
from butler.storage.tables import users
from config.policy_file import RuleDefinition
from tests.support.clockwork import MovingClock
from tests.support.parts import ADMIN, MAX, MIA, audited, judge, new_database, proposed, registry, rule, ruling, tool


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh ledger."""
    made = new_database(tmp_path / "butler.db")
    yield made
    made.close()


def about(text: str, **words: Any) -> RuleDefinition:
    """A rule that asks about this text."""
    return replace(rule(f"rule {text}", "act", "approve", text=text), **words)


def judging(*rules: RuleDefinition) -> Judge:
    return judge(registry(tool("act")), *rules)


MINE = about("hello", deciders=("requester",))
RULES = judging(
    MINE, about("draft", deciders=("requester",)), about("two", deciders=("admin",), approvals_needed=2),
    about("other", deciders=("max",)), about("late", deciders=("ada",), escalate_after=60.0, escalate_to=("mia",)),
    rule("free", "act", "allow", text="free"),
)  # fmt: skip


def asked(database: Database, person: Principal = MIA, given: RuleDefinition = MINE) -> Action:
    """A pending call with the text "hello"."""
    said = replace(ruling("approve", deciders=given.deciders), approvals_needed=given.approvals_needed)
    return proposed(database, said, person=person)[0]


def edited(database: Database, action: Action, person: Principal, text: str) -> str:
    """What became of an edit: the status, or the code of the refusal."""
    decision = Decision("edit", args={"text": text})
    try:
        return database.write_now(
            lambda c: decide(c, action.action_id, decision, person, via="test", judge=RULES)
        ).status
    except ButlerError as error:
        return error.code


def approved(database: Database, action: Action, person: Principal) -> Action:
    decision = Decision("approve")
    return database.write_now(lambda c: decide(c, action.action_id, decision, person, via="test", judge=RULES))


def begun(database: Database, action: Action, judge: Judge) -> ledger.Claim:
    return database.write_now(lambda c: ledger.begin(c, action.action_id, judge.at_execution))


@pytest.mark.parametrize(
    ("person", "text", "outcome"),
    [
        (MIA, "draft", "approved"),
        (MIA, "free", "approved"),
        (MIA, "two", "not_an_approver"),
        (MIA, "other", "not_an_approver"),
        (MIA, "what no rule names", "not_an_approver"),
        (MIA, "late", "not_an_approver"),
        (ADMIN, "what no rule names", "approved"),
        (ADMIN, "two", "invalid_request"),
    ],
)
def test_who_edits_a_call_must_be_enough_to_approve_the_edited_one(
    database: Database, person: Principal, text: str, outcome: str
) -> None:
    action = asked(database)
    assert edited(database, action, person, text) == outcome
    still = database.write_now(partial(ledger.get, action_id=action.action_id))
    assert still is not None and still.status == ("approved" if outcome == "approved" else "pending")


def test_an_edit_makes_no_requester_the_judge_of_what_somebody_else_must_decide(database: Database) -> None:
    action = asked(database, ADMIN)
    assert edited(database, action, ADMIN, "other") == "not_an_approver"


def test_those_who_may_decide_the_edited_call_after_a_time_may_edit_after_that_time(database: Database) -> None:
    with MovingClock() as clock:
        action = asked(database)
        clock.move(61)
        assert edited(database, action, MIA, "late") == "approved"


@pytest.mark.parametrize(
    "stricter",
    [
        about("hello", deciders=("requester",), approvals_needed=2),
        about("hello", deciders=("admin",)),
        about("hello", deciders=("max",)),
        about("somewhere else"),
    ],
    ids=["more approvals", "other deciders", "not the requester", "no rule any more"],
)
def test_what_was_approved_is_asked_again_when_that_is_not_enough_any_more(
    database: Database, stricter: RuleDefinition
) -> None:
    action = approved(database, asked(database), MIA)
    claim = begun(database, action, judging(stricter))
    again = claim.action
    assert (claim.won, again.status, again.execution, again.decision) == (False, "pending", "none", None)
    assert "mia approved this" in again.reason and again.approvals_needed == stricter.approvals_needed
    events = database.write_now(partial(audited, action_id=action.action_id))
    assert list(events) == ["requested", "approved", "requested"]


def test_what_is_asked_again_after_an_edit_is_the_edited_call(database: Database) -> None:
    action = asked(database)
    assert edited(database, action, MIA, "draft") == "approved"
    again = begun(database, action, judging(about("draft", approvals_needed=2))).action
    assert (again.status, again.shown_args) == ("pending", {"text": "draft"})


def test_what_is_asked_again_runs_once_enough_have_approved(database: Database) -> None:
    stricter = judging(about("hello", approvals_needed=1))
    action = approved(database, asked(database), MIA)
    assert begun(database, action, stricter).action.status == "pending"
    assert begun(database, approved(database, action, ADMIN), stricter).won


@pytest.mark.parametrize(
    "now",
    [
        (about("hello", deciders=("requester", "max")),),
        (rule("free", "act", "allow"),),
        (about("hello", deciders=("mia",), approvals_needed=1),),
    ],
    ids=["wider", "allowed", "by name"],
)
def test_what_was_approved_runs_when_it_still_would_be(database: Database, now: tuple[RuleDefinition, ...]) -> None:
    action = approved(database, asked(database), MIA)
    assert begun(database, action, judging(*now)).won


def test_what_two_approved_runs_under_the_same_rule_unless_one_was_disabled_since(database: Database) -> None:
    pair = about("hello", deciders=("admin", "max"), approvals_needed=2)
    actions = [asked(database, MIA, pair)]
    approved(database, approved(database, actions[0], ADMIN), MAX)
    change = update(users).where(users.c.name == "max").values(disabled_at="2031")
    database.write_now(lambda connection: connection.execute(change))
    assert begun(database, actions[0], judging(pair)).action.status == "pending"
    back = update(users).where(users.c.name == "max").values(disabled_at=None)
    database.write_now(lambda connection: connection.execute(back))
    assert begun(database, approved(database, approved(database, actions[0], MAX), ADMIN), judging(pair)).won


@pytest.mark.parametrize("values", [{"disabled_at": "2031"}, {"role": "agent"}], ids=str)
def test_of_who_is_shut_out_starts_only_what_somebody_approved(database: Database, values: dict[str, str]) -> None:
    free, asks = rule("free", "act", "allow"), about("hello")
    action = approved(database, asked(database), ADMIN)
    allowed = proposed(database, ruling("allow"), run_id="another", thread_id="elsewhere", person=MIA)[0]
    change = update(users).where(users.c.name == "mia").values(**values)
    database.write_now(lambda connection: connection.execute(change))
    refused = begun(database, allowed, judging(free))
    assert (refused.won, refused.action.execution) == (False, "failed")
    assert "mia may not sign in" in (refused.action.result or "")
    assert begun(database, action, judging(asks)).won
