"""What may be granted: never wider than the call that was shown without an admin who says so twice (E3)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from butler.approvals import grants, ledger
from butler.approvals.actions import Action
from butler.approvals.calls import Proposal
from butler.approvals.decide import Decision, decide
from butler.approvals.grants import Grant, GrantWish, args_covered
from butler.approvals.judge import Judge
from butler.approvals.preview import offers, preview_for
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage.database import Database
from butler.storage.tables import actions, users
from butler.types import Json
from tests.support.parts import ADMIN, MAX, MIA, add_run, judge, new_database, registry, rule, tool

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "path": {"type": "string"}, "force": {"type": "boolean"}, "argv": {"type": "array"},
        "token": {"type": "string", "writeOnly": True},
    },
}  # fmt: skip
TOOL = tool("act", schema=SCHEMA)
BOUND = grants.bound_to(TOOL)
JUDGE = judge(registry(TOOL))
HERS = judge(registry(TOOL), rule("hers", "act", "approve"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh ledger."""
    made = new_database(tmp_path / "butler.db")
    yield made
    made.close()


def ask(database: Database, args: Json, *, person: Principal = ADMIN, run_id: str = "run", **row: Any) -> Action:
    """A pending call with these arguments; `row` changes its columns."""
    call = Proposal("call", 0, "act", args, f"act({args})", TOOL.digest)

    def write(connection: Any) -> Action:
        add_run(connection, run_id, f"thread of {run_id}", person)
        [made] = ledger.propose(
            connection, [call], run_id=run_id, thread_id=f"thread of {run_id}", person=person,
            rule=lambda c, p: JUDGE.on_proposal(c, p, thread_id=f"thread of {run_id}", person=person),
        )  # fmt: skip
        if row:
            connection.execute(update(actions).where(actions.c.action_id == made.action_id).values(**row))
        return ledger.get(connection, made.action_id) or made

    return database.write_now(write)


def give(database: Database, action: Action, by: Principal = ADMIN, using: Judge = JUDGE, **wish: Any) -> Grant:
    decision = Decision("approve", grant=GrantWish(**{"scope": "thread", "args": None, **wish}))

    def write(connection: Any) -> Grant | None:
        decide(connection, action.action_id, decision, by, via="test", judge=using)
        return grants.given_with(connection, action.action_id)

    grant = database.write_now(write)
    assert grant is not None
    return grant


def refusal(database: Database, action: Action, by: Principal = ADMIN, **wish: Any) -> ButlerError:
    """The error of a wish that is refused; the action stays as it was."""
    with pytest.raises(ButlerError) as refused:
        give(database, action, by, **wish)
    assert database.write_now(partial(ledger.get, action_id=action.action_id)) == action
    assert database.write_now(partial(grants.visible_to, person=ADMIN)) == []
    return refused.value


def test_without_patterns_exactly_this_call_is_granted(database: Database) -> None:
    action = ask(database, {"path": "a[1]*?", "argv": ["git", "log", "*"]})
    grant = give(database, action)
    assert args_covered(grant.args, grant.closed, action.args)
    for other in (
        {**action.args, "path": "a1xy"},
        {**action.args, "force": True},
        {"path": "a[1]*?"},
        {**action.args, "argv": ["git", "log", "x"]},
        {**action.args, "argv": ["git", "log", "*", "-p"]},
        {},
    ):
        assert not args_covered(grant.args, grant.closed, other), other


@pytest.mark.parametrize(
    ("value", "alike"),
    [(1, "1"), ("1", 1), (True, "true"), (None, "null"), ({"a": 1}, '{"a":1}'), (["rm"], "rm"), ("rm", ["rm"])],
)
def test_where_the_schema_leaves_the_type_open_exactly_this_call_is_of_that_very_type(
    database: Database, value: Any, alike: Any
) -> None:
    grant = give(database, ask(database, {"path": "a", "open": value}))
    assert grant.args == {"path": "a", "open": {"exactly": value}}
    assert args_covered(grant.args, grant.closed, {"path": "a", "open": value})
    for other in ({"path": "a", "open": alike}, {"path": "a"}):
        assert not args_covered(grant.args, grant.closed, other)


def test_patterns_must_be_about_the_call_that_was_shown(database: Database) -> None:
    action = ask(database, {"path": "docs/a"})
    for args, told in (
        ({"path": "src/*"}, "path"), ({"pth": "docs/*"}, "did you mean 'path'"), ({"force": "true"}, "force"),
        ({"path": ["docs", "**"]}, "path"),
    ):  # fmt: skip
        error = refusal(database, action, args=args)
        assert error.code == "invalid_request" and told in error.detail
    assert refusal(database, ask(database, {"path": "a", "force": True}, run_id="b"), args={"path": "a"}, closed=True)


def test_a_grant_for_everyone_needs_an_admin_who_says_so_twice(database: Database) -> None:
    action = ask(database, {"path": "a"}, deciders=["mia", "admin"])
    assert refusal(database, action, MIA, scope="everyone", confirm=True).code == "forbidden"
    error = refusal(database, action, scope="everyone")
    assert (error.code, error.extras["needs"]) == ("invalid_request", ["confirm"])
    assert give(database, action, scope="everyone", confirm=True).scope_id is None


@pytest.mark.parametrize(
    "args",
    [
        {}, {"path": "*"}, {"path": "**"}, {"path": "?*"}, {"argv": ["**"]}, {"path": "[!~]*"}, {"path": "[ -~]*"},
        {"path": "*[!~]"}, {"argv": ["[!~]*", "**"]}, {"argv": ["[]!-~]*"]},
    ],
)  # fmt: skip
def test_a_grant_that_limits_nothing_needs_the_same(database: Database, args: Json) -> None:
    action = ask(database, {"path": "a", "argv": ["ls"]}, deciders=["mia", "admin"])
    assert refusal(database, action, MIA, args=args, confirm=True).code == "forbidden"
    assert refusal(database, action, args=args).extras["needs"] == ["confirm"]
    give(database, action, args=args, confirm=True)


@pytest.mark.parametrize("pattern", ["[*]*", "a*", "[*]", "?[?]", "[[]*"])
def test_a_star_that_is_meant_as_one_is_a_limit(database: Database, pattern: str) -> None:
    path = {"[*]*": "*b", "a*": "ab", "[*]": "*", "?[?]": "a?", "[[]*": "[a"}[pattern]
    give(database, ask(database, {"path": path}), args={"path": pattern})


def test_on_a_safe_action_it_does_not(database: Database) -> None:
    give(database, ask(database, {"path": "a"}, risk="safe"), args={})


def test_secret_arguments_are_never_part_of_a_grant(database: Database) -> None:
    action = ask(database, {"path": "a", "token": "hunter2"})
    assert "token" in refusal(database, action).detail
    assert "secret" in refusal(database, action, args={"token": "hunter2"}).detail
    shown = database.write_now(partial(offers, action_id=action.action_id, person=ADMIN, judge=JUDGE))
    assert [one["args"] for one in shown["proposals"]] == [{"path": "a"}]
    grant = give(database, action, args={"path": "a"})
    assert args_covered(grant.args, grant.closed, {"path": "a", "token": "other"})


def test_a_tool_that_was_redefined_since_can_not_be_granted(database: Database) -> None:
    error = refusal(database, ask(database, {"path": "a"}, tool_digest="an older one"))
    assert error.code == "invalid_request" and "changed" in error.detail


def test_what_several_people_must_approve_each_time_can_not_be_granted(database: Database) -> None:
    assert refusal(database, ask(database, {"path": "a"}, approvals_needed=2)).code == "invalid_request"


def test_a_folder_is_not_left_upwards() -> None:
    for text in ("docs/../secret", "docs/a/../../b", "docs/..", "docs/..\\..\\b"):
        assert not args_covered({"path": "docs/*"}, False, {"path": text}), text
    for text in ("docs/a..b", "docs/...", "docs/a/b"):
        assert args_covered({"path": "docs/*"}, False, {"path": text}), text
    assert args_covered({"path": "../docs/*"}, False, {"path": "../docs/a"})
    assert not args_covered({"argv": ["cat", "docs/*"]}, False, {"argv": ["cat", "docs/../b"]})


def covers(database: Database, args: Json) -> bool:
    found = database.write_now(
        lambda c: grants.covering(
            c, "act", grants.bound_to(TOOL), args, thread_id="thread of run", user_id=ADMIN.user_id
        )
    )
    return found is not None


def test_a_grant_never_gives_more_than_its_giver_may_decide(database: Database) -> None:
    mias = ask(database, {"path": "docs/a"}, deciders=["mia"])
    give(database, mias, MIA, HERS, args={"path": "d*"})
    assert not covers(database, {"path": "docs/a"})  # a call without a rule is an admin's to decide
    give(database, ask(database, {"path": "docs/b"}, run_id="other"), scope="user", args={"path": "docs/*"})
    assert covers(database, {"path": "docs/a"})
    for values in ({"role": "member"}, {"role": "admin", "disabled_at": "2031"}):
        change = update(users).where(users.c.name == "ada").values(**values)
        database.write_now(methodcaller("execute", change))
        assert not covers(database, {"path": "docs/a"})


def test_a_rule_that_keeps_asking_is_said(database: Database) -> None:
    action = ask(database, {"path": "a"})
    wish = GrantWish("thread", None)
    look = partial(preview_for, action_id=action.action_id, wish=wish, person=ADMIN)
    assert database.write_now(partial(look, judge=JUDGE))["note"] is None
    assert "'hers'" in database.write_now(partial(look, judge=HERS))["note"]


def test_the_preview_names_the_past_calls_that_it_would_have_covered(database: Database) -> None:
    for number, path in enumerate(("docs/1", "src/1", "docs/../x")):
        ask(database, {"path": path}, run_id=f"past-{number}")
    ask(database, {"path": "docs/2"}, run_id="max", person=MAX)
    action = ask(database, {"path": "docs/now"}, run_id="run")

    def look(**wish: Any) -> Json:
        full = GrantWish(**{"scope": "user", "args": {"path": "docs/*"}, **wish})
        return database.write_now(lambda c: preview_for(c, action.action_id, full, ADMIN, JUDGE))

    assert [one["title"] for one in look()["covered"]["items"]] == ["act({'path': 'docs/1'})"]
    assert (look()["needs"], look()["wide"], look()["covered"]["looked_at"]) == ([], False, 4)
    everyone = look(scope="everyone")
    assert (everyone["covered"]["total"], everyone["needs"]) == (2, ["confirm"])
    assert look(scope="thread")["covered"]["total"] == 0
    assert look(args=None)["covered"]["total"] == 0
    assert look(args={})["wide"] is True
    assert database.write_now(partial(grants.visible_to, person=ADMIN)) == []
    with pytest.raises(ButlerError):
        database.write_now(lambda c: preview_for(c, action.action_id, GrantWish("user", None), MAX, JUDGE))


def test_a_named_decider_sees_only_the_past_calls_that_are_its_to_know(database: Database) -> None:
    ask(database, {"path": "docs/1"}, run_id="past")
    ask(database, {"path": "docs/2"}, run_id="known", deciders=["mia"])
    action = ask(database, {"path": "docs/now"}, deciders=["mia"])
    wish = GrantWish("user", {"path": "docs/*"})
    seen = database.write_now(lambda c: preview_for(c, action.action_id, wish, MIA, JUDGE))
    assert [one["title"] for one in seen["covered"]["items"]] == ["act({'path': 'docs/2'})"]
    assert seen["covered"]["looked_at"] == 1
