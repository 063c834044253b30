"""The value of an argument that a schema marks as secret reaches the tool, and nothing else that anybody sees."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from butler.approvals import ledger
from butler.approvals.decide import Decision
from butler.commands import HouseCommand
from butler.errors import ButlerError
from butler.redact import Redactor
from butler.storage.tables import actions, audit
from butler.types import Invocation, ToolResult
from service.commands import Commands
from service.decisions import Decided, Decisions
from service.showings import Showings
from tests.support.headless import Brain, open_brain, says
from tests.support.parts import ADMIN, add_run, new_database, tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"user": {"type": "string"}, "pw": {"type": "string", "writeOnly": True}},
    "required": ["user", "pw"],
    "maxProperties": 2,
}
CALL = {"user": "mia", "pw": "hunter2pass"}
EDIT = {"user": "mia", "pw": "edited-pass"}


async def _quiet(call: Invocation) -> ToolResult:
    return ToolResult(f"set {len(call.args['pw'])} characters")


SET_PW = tool("set_pw", "approve", _quiet, schema=SCHEMA)


def told(brain: Brain) -> str:
    """All that clients were told, and all tool results that the model read."""
    read = [message for request in brain.model.heard for message in request if message["role"] == "tool"]
    return json.dumps([brain.events, read])


@pytest.mark.parametrize(
    "args", [{"pw": "hunter2pass"}, {**CALL, "more": 1}, {"user": 5, "pw": "hunter2pass"}], ids=str
)
async def test_a_call_that_does_not_fit_is_told_without_its_secret(tmp_path: Path, args: Any) -> None:
    async with open_brain(tmp_path, says("", ("set_pw", args)), says("sorry"), tools=[SET_PW]) as brain:
        await brain.say("go")
        [event] = brain.told("tool")
        assert (event["phase"], event["args"]["pw"]) == ("failed", "***")
        assert "hunter2pass" not in told(brain)


async def test_what_is_wrong_with_a_call_is_told_without_the_secrets_of_the_house(tmp_path: Path) -> None:
    call = ("free", {"text": 5, "house-s3cret": 1})
    async with open_brain(tmp_path, says("", call), says("sorry")) as brain:
        brain.faculties = replace(brain.faculties, redactor=Redactor(["house-s3cret"]))
        await brain.say("go")
        assert "***" in told(brain) and "house-s3cret" not in told(brain)


async def test_titles_are_stored_without_secrets(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("set_pw", CALL)), tools=[SET_PW]) as brain:
        await brain.say("go")
        title = await brain.database.read(lambda connection: connection.execute(select(actions.c.title)).scalar_one())
        assert title == "set_pw(user=mia, pw=***)"


async def test_an_edited_secret_reaches_the_tool_and_nobody_else(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("set_pw", CALL)), says("done"), tools=[SET_PW]) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        await brain.decide(action, "edit", args=EDIT)
        with pytest.raises(ButlerError) as late:
            await brain.decide(action, "approve")
        assert late.value.code == "already_decided"
        assert late.value.extras["decision"]["args"] == {"user": "mia", "pw": "***"}
        state = await brain.go()
        assert state["ending"]["status"] == "done"
        assert json.dumps('changed the arguments to {"user": "mia", "pw": "***"}')[1:-1] in told(brain)
        assert [event["args"] for event in brain.told("tool")][1:] == [{"user": "mia", "pw": "***"}] * 2
        assert "edited-pass" not in told(brain) and "hunter2pass" not in told(brain)


async def test_the_audit_has_no_edited_secret_even_after_a_crash(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("set_pw", CALL)), tools=[SET_PW]) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        await brain.decide(action, "edit", args=EDIT)
        claim = await brain.faculties.ledger.begin(action.action_id, brain.faculties.judge.at_execution)
        assert claim.won
        await brain.database.write(lambda connection: ledger.after_crash(connection, claim.action, idempotent=False))
        rows = await brain.database.read(
            lambda connection: connection.execute(select(audit.c.event, audit.c.data)).all()
        )
        assert [row.event for row in rows] == ["requested", "edited", "started", "unknown"]
        assert rows[-1].data["earlier_decision"]["decision"] == "edit"
        shown = json.dumps([row.data for row in rows])
        assert "edited-pass" not in shown and "hunter2pass" not in shown


async def test_approving_from_another_thread_names_the_action_without_its_secret(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("set_pw", CALL)), tools=[SET_PW]) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        # As rows were stored before titles were masked.
        action = replace(action, title="set_pw(user=mia, pw=hunter2pass)")

        class Deciding:
            async def by_code(self, code: str, decision: Decision, *more: Any) -> Decided:
                return Decided([action], action.run_id, cast(Any, None), 0)

        brain.database.write_now(lambda connection: add_run(connection, "elsewhere", "another"))
        commands = Commands(brain.faculties, brain.database, cast(Decisions, Deciding()), Showings(brain.database))
        answer = await commands.run(HouseCommand("approve", "ABCDE"), "/approve ABCDE", "another", ADMIN)
        assert answer.text.startswith("Approved: set_pw(user=mia, pw=***).")


async def test_errors_of_the_database_do_not_repeat_what_was_to_be_stored(tmp_path: Path) -> None:
    database = new_database(tmp_path / "butler.db")
    try:
        for work in (database.write, database.read):
            with pytest.raises(OperationalError) as raised:
                await work(lambda connection: connection.execute(text("SELECT :v FROM nowhere"), {"v": "hunter2pass"}))
            assert "hunter2pass" not in str(raised.value)
    finally:
        database.close()
