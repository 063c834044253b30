"""Corners of the ledger: codes that collide, transitions that lose, calls that come again, guards (A5, A7, A8)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, update

from butler.approvals import deadlines, ledger
from butler.approvals.actions import Action
from butler.approvals.decide import Decision, decide
from butler.canonical import fingerprint
from butler.storage.database import Database
from butler.storage.tables import actions
from butler.types import Json, Ruling, ToolResult
from tests.support.parts import (
    ADMIN,
    add_run,
    audited,
    judge,
    new_database,
    proposal,
    proposed,
    registry,
    rule,
    ruling,
    set_run,
    tool,
)

JUDGE = judge(registry(tool("act")))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A fresh ledger."""
    made = new_database(tmp_path / "butler.db")
    yield made
    made.close()


def get(database: Database, action: Action) -> Action:
    row = database.write_now(partial(ledger.get, action_id=action.action_id))
    assert row is not None
    return row


def start(database: Database, action: Action) -> Action:
    claim = database.write_now(partial(ledger.begin, action_id=action.action_id, check=lambda *_: None))
    assert claim.won
    return claim.action


def events(database: Database, action: Action) -> list[str]:
    return list(database.write_now(partial(audited, action_id=action.action_id)))


def change(database: Database, action: Action, **values: Any) -> None:
    """What somebody does who writes to the store by hand."""
    database.write_now(
        lambda connection: connection.execute(
            update(actions).where(actions.c.action_id == action.action_id).values(**values)
        )
    )


def test_codes_that_collide_are_drawn_again_and_grow(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def poor(length: int = 5) -> str:
        drawn.append(length)
        return "A" * length

    monkeypatch.setattr(ledger, "new_code", poor)
    rows = proposed(database, *[ruling("approve")] * 3)
    assert [row.code for row in rows] == ["A" * 5, "A" * 6, "A" * 7]
    assert drawn == [5, 5, 5, 6, 5, 5, 6, 7]
    # A code is free again once nothing pending has it.
    database.write_now(
        lambda connection: decide(connection, rows[0].action_id, Decision("reject"), ADMIN, via="t", judge=JUDGE)
    )
    [again] = proposed(database, ruling("approve"), run_id="later", thread_id="later")
    assert again.code == "A" * 5


def test_a_full_house_of_codes_undoes_the_whole_message(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "new_code", lambda length=5: "A" * 5)
    with pytest.raises(Exception, match="UNIQUE"):
        proposed(database, ruling("allow"), ruling("approve"), ruling("approve"))
    assert database.write_now(lambda c: c.execute(select(func.count()).select_from(actions)).scalar_one()) == 0


def test_the_same_call_proposed_again_keeps_its_first_verdict(database: Database) -> None:
    [first] = proposed(database, ruling("approve"))
    [again] = proposed(database, ruling("allow"))
    assert again == first
    assert events(database, first) == ["requested"]


def test_the_verdict_counts_and_the_rule_is_asked_once_per_call(database: Database) -> None:
    asked: list[str] = []

    def rule_on(_: Connection, call: ledger.Proposal) -> Ruling:
        asked.append(call.call_id)
        return ruling("refuse", name="closed")

    def write(connection: Connection) -> list[Action]:
        add_run(connection, "run")
        calls = [proposal("a", 0), proposal("b", 1)]
        return ledger.propose(connection, calls, run_id="run", thread_id="t", person=ADMIN, rule=rule_on)

    rows = database.write_now(write)
    assert database.write_now(write) == rows
    assert asked == ["a", "b"]
    assert [row.result for row in rows] == ["Refused by policy: because of closed"] * 2
    assert all(row.result_is_error and row.code is None for row in rows)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("meanwhile", ["finished", "cancelled", "settled"])
def test_settling_a_crash_loses_against_whatever_came_first(
    database: Database, idempotent: bool, meanwhile: str
) -> None:
    started = start(database, *proposed(database, ruling("allow")))
    if meanwhile == "finished":
        database.write_now(lambda c: ledger.finish(c, started.action_id, 1, ToolResult("done")))
    elif meanwhile == "cancelled":
        database.write_now(lambda c: ledger.cancel_open(c, started.run_id, actor="ada", via="t", why="enough"))
    else:
        database.write_now(lambda c: ledger.after_crash(c, started, idempotent=False))
    before, told = get(database, started), events(database, started)
    assert database.write_now(lambda c: ledger.after_crash(c, started, idempotent=idempotent)) is None
    assert get(database, started) == before and events(database, started) == told


def test_reopening_loses_against_a_start(database: Database) -> None:
    [allowed] = proposed(database, ruling("allow"))
    started = start(database, allowed)
    after = database.write_now(lambda c: ledger.reopen(c, allowed, ruling("approve")))
    assert after == started and events(database, allowed) == ["allowed", "started"]


def test_an_edit_that_was_interrupted_is_asked_about_as_it_ran(database: Database) -> None:
    [asked] = proposed(database, ruling("approve"))
    edit = Decision("edit", args={"text": "edited"}, fingerprint=asked.fingerprint)
    database.write_now(lambda c: decide(c, asked.action_id, edit, ADMIN, via="t", judge=JUDGE))
    started = start(database, asked)
    database.write_now(lambda c: ledger.after_crash(c, started, idempotent=False))
    unknown = get(database, asked)
    assert unknown.shown_args == {"text": "edited"}
    assert unknown.shown_fingerprint == fingerprint("act", {"text": "edited"})
    assert unknown.allowed_decisions == ("approve", "reject", "respond")
    stale = Decision("approve", fingerprint=asked.fingerprint)
    with pytest.raises(Exception, match="not the one you were shown"):
        database.write_now(lambda c: decide(c, asked.action_id, stale, ADMIN, via="t", judge=JUDGE))
    fresh = Decision("approve", fingerprint=unknown.shown_fingerprint)
    database.write_now(lambda c: decide(c, asked.action_id, fresh, ADMIN, via="t", judge=JUDGE))
    again = start(database, asked)
    assert (again.run_args, again.attempts) == ({"text": "edited"}, 2)


@pytest.mark.parametrize("status", ["parked", "done", "failed", "cancelled", "queued", "gone"])
def test_a_guarded_ledger_starts_and_proposes_nothing_for_a_run_that_is_not_running(
    database: Database, status: str
) -> None:
    [allowed] = proposed(database, ruling("allow"))
    run_id = "unknown" if status == "gone" else "run"
    if status == "gone":
        change(database, allowed, run_id="unknown")
    else:
        database.write_now(lambda c: set_run(c, "run", status))
    with pytest.raises(LookupError, match=status):
        database.write_now(lambda c: ledger.begin(c, allowed.action_id, lambda *_: None, guarded=True))

    def propose(connection: Connection) -> list[Action]:
        return ledger.propose(
            connection, [proposal("new")], run_id=run_id, thread_id="thread", person=ADMIN,
            rule=lambda *_: ruling("allow"), guarded=True,
        )  # fmt: skip

    with pytest.raises(LookupError, match=status):
        database.write_now(propose)
    assert get(database, allowed).execution == "none" and events(database, allowed) == ["allowed"]


def test_an_action_that_is_gone_is_a_lookup_error(database: Database) -> None:
    with pytest.raises(LookupError):
        database.write_now(lambda c: ledger.begin(c, "no such", lambda *_: None))


def held(database: Database, action: Action, ruler: Any) -> Action:
    claim = database.write_now(lambda c: ledger.begin(c, action.action_id, ruler.at_execution))
    assert not claim.won
    return claim.action


@pytest.mark.parametrize("verdict", ["allow", "approve"])
@pytest.mark.parametrize(
    ("tools", "rules", "altered", "says"),
    [
        ([tool("act")], [], {"args": {"text": "evil"}}, "they were altered"),
        ([], [], {}, "the tool 'act' no longer exists"),
        ([tool("act", schema={"type": "object", "required": ["more"]})], [], {}, "schema no longer accepts"),
        ([tool("act", "allow")], [rule("shut", "act", "refuse", "shut")], {}, "policy now refuses it: shut"),
    ],
    ids=["altered", "gone", "schema", "policy"],
)
def test_what_changed_since_the_yes_is_not_run(
    database: Database, verdict: Any, tools: list[Any], rules: list[Any], altered: Json, says: str
) -> None:
    [action] = proposed(database, ruling(verdict))
    if verdict == "approve":
        database.write_now(
            lambda c: decide(
                c, action.action_id, Decision("approve"), ADMIN, via="t", judge=judge(registry(tool("act")))
            )
        )
    if altered:
        change(database, action, **altered)
    row = held(database, action, judge(registry(*tools), *rules))
    assert (row.execution, row.attempts, row.result_is_error) == ("failed", 0, True)
    assert row.result is not None and row.result.startswith("Not run: ") and says in row.result
    assert events(database, action)[-1] == "refused"
    assert not database.write_now(lambda c: ledger.begin(c, action.action_id, lambda *_: None)).won


def test_edited_arguments_that_were_altered_in_the_store_are_not_run(database: Database) -> None:
    [asked] = proposed(database, ruling("approve"))
    edit = Decision("edit", args={"text": "edited"})
    database.write_now(lambda c: decide(c, asked.action_id, edit, ADMIN, via="t", judge=JUDGE))
    change(database, asked, run_args={"text": "evil"})
    assert "altered" in (held(database, asked, JUDGE).result or "")


def test_an_allowed_action_that_policy_asks_about_by_now_waits_with_its_new_rule(database: Database) -> None:
    [action] = proposed(database, ruling("allow"))
    row = held(
        database, action, judge(registry(tool("act", "allow")), rule("ask-now", "act", "approve", "since today"))
    )
    assert (row.status, row.verdict, row.rule, row.reason) == ("pending", "approve", "ask-now", "since today")
    assert row.code and row.result is None and events(database, action) == ["allowed", "requested"]


def test_an_approved_action_runs_although_policy_would_ask(database: Database) -> None:
    [action] = proposed(database, ruling("approve"))
    strict = judge(registry(tool("act", "allow")), rule("ask", "act", "approve"))
    database.write_now(lambda c: decide(c, action.action_id, Decision("approve"), ADMIN, via="t", judge=strict))
    assert database.write_now(lambda c: ledger.begin(c, action.action_id, strict.at_execution)).won


def test_pending_actions_stand_in_the_order_of_the_calls(database: Database) -> None:
    rows = proposed(database, *[ruling("approve")] * 5)
    waiting = database.write_now(lambda c: ledger.pending_of_thread(c, "thread"))
    assert [row.action_id for row in waiting] == [row.action_id for row in rows]


def test_the_next_expiry_is_that_of_what_still_waits(database: Database) -> None:
    assert database.write_now(deadlines.next_expiry) is None
    late, soon, _ = proposed(
        database, ruling("approve", expires_in=500), ruling("approve", expires_in=50), ruling("approve")
    )
    assert database.write_now(deadlines.next_expiry) == soon.expires_at
    database.write_now(lambda c: decide(c, soon.action_id, Decision("reject"), ADMIN, via="t", judge=JUDGE))
    assert database.write_now(deadlines.next_expiry) == late.expires_at


def test_each_end_is_told_apart_to_the_model(database: Database) -> None:
    rows = proposed(database, *[ruling("approve", expires_in=1e-6 if n == 2 else None) for n in range(4)])
    for row, decision in zip(rows, (Decision("reject"), Decision("reject", reason="smaller")), strict=False):
        one = partial(decide, action_id=row.action_id, decision=decision, person=ADMIN, via="t", judge=JUDGE)
        database.write_now(one)
    database.write_now(lambda c: deadlines.expire_due(c, "2999"))
    database.write_now(lambda c: ledger.cancel_open(c, "run", actor="ada", via="t", why="enough"))
    results = [get(database, row).result for row in rows]
    assert len({*results}) == 4
    assert "rejected" in results[0] and "smaller" in results[1]  # type: ignore[operator]
    assert "nobody answered" in results[2] and results[3] == "Cancelled: enough"  # type: ignore[operator]
