"""Arguments nested too deeply are refused before anything is written; whatever is stored, lists can be shown."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from butler.approvals import ledger
from butler.approvals.show import approval, interrupt_payload
from butler.errors import ButlerError
from butler.redact import Redactor
from butler.storage.tables import actions
from butler.tools.validation import compile_schema
from service.events import to_json
from service.http.bodies import read_json
from tests.support.headless import open_brain, says
from tests.support.parts import registry, tool

ANY = tool("ask_any", "approve", schema={"type": "object"})


def deep(levels: int) -> str:
    """JSON of arguments that nest so many levels."""
    return '{"x":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize("levels", [65, 300, 900, 5000])
@pytest.mark.parametrize("typed", [True, False], ids=["command", "model"])
async def test_a_call_nested_too_deeply_is_answered_and_stored_nowhere(
    tmp_path: Path, levels: int, typed: bool
) -> None:
    async with open_brain(tmp_path, says("", ("ask_any", deep(levels))), says("sorry"), tools=[ANY]) as brain:
        state = await brain.say(f"/ask_any {deep(levels)}" if typed else "go")
        assert "__interrupt__" not in state
        count = select(func.count()).select_from(actions)
        assert await brain.database.read(lambda connection: connection.execute(count).scalar()) == 0
        for event, data in brain.events:
            to_json({event: data})


async def test_a_call_at_the_limit_asks_and_runs(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("ask_any", deep(64))), says("done"), tools=[ANY]) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        assert approval(action, brain.faculties.tools, Redactor(["s3cr3t-value"]))["args"] == json.loads(deep(64))
        await brain.decide(action, "approve")
        assert (await brain.go())["ending"]["status"] == "done"


@pytest.mark.parametrize("levels", [65, 300, 900])
async def test_an_edit_nested_too_deeply_decides_nothing(tmp_path: Path, levels: int) -> None:
    async with open_brain(tmp_path, says("", ("ask_any", {})), tools=[ANY]) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        with pytest.raises(ButlerError, match="nested more than 64 levels") as refused:
            await brain.decide(action, "edit", args=json.loads(deep(levels)))
        assert refused.value.code == "invalid_request"
        assert await brain.pending() == [action]


@pytest.mark.parametrize("secrets", [[], ["s3cr3t-value"]], ids=["nothing to mask", "a secret"])
async def test_a_row_that_nests_too_deeply_can_be_shown_all_the_same(tmp_path: Path, secrets: list[str]) -> None:
    async with open_brain(tmp_path, says("", ("ask_any", {})), tools=[ANY]) as brain:
        await brain.say("go")
        [action] = await brain.pending()
        poisoned = replace(action, args=json.loads(deep(600)))
        for show in (approval, interrupt_payload):
            shown = show(poisoned, brain.faculties.tools, Redactor(secrets))
            assert b"nested too deeply to be shown" in to_json(shown)


async def test_an_action_whose_start_can_not_be_told_has_not_run_and_says_so(tmp_path: Path) -> None:
    async with open_brain(tmp_path, says("", ("free", {"text": "a"})), says("sorry")) as brain:

        class Broken(Redactor):
            """Can show a call when it is proposed, and not when it starts."""

            def json(self, value: Any) -> Any:
                if any(data["phase"] == "proposed" for data in brain.told("tool")):
                    raise RecursionError("too deep")
                return super().json(value)

        brain.faculties = replace(brain.faculties, redactor=Broken([]))
        state = await brain.say("go")
        assert state["ending"]["status"] == "done"
        assert brain.journal.lines == []
        [action] = await brain.database.read(lambda connection: ledger.of_run(connection, "run-1"))
        assert action.execution == "failed"
        assert action.result == "Not run: its start could not be told (RecursionError: too deep)."


@pytest.mark.parametrize("levels", [69, 300, 900, 50_000])
def test_a_body_nested_too_deeply_is_refused(levels: int) -> None:
    with pytest.raises(ButlerError, match="The body is nested more than 68 levels deep") as refused:
        read_json(deep(levels).encode())
    assert refused.value.code == "invalid_request"
    assert read_json(deep(68).encode()) == json.loads(deep(68))


def test_arguments_at_the_limit_fit_into_every_form_of_a_decision() -> None:
    for body in (
        f'{{"decisions": [{{"code": "A", "decision": "edit", "args": {deep(64)}}}]}}',
        f'{{"decisions": [{{"type": "edit", "edited_action": {{"args": {deep(64)}}}}}]}}',
    ):
        assert read_json(body.encode())
    assert registry(ANY).validate("ask_any", json.loads(deep(64))) == []


def test_a_schema_that_refers_to_itself_twice_at_every_level_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("butler.tools.validation.CHECK_SECONDS", 0.2)
    doubling = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]} for n in range(40)}
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/l0"}}, "$defs": {**doubling, "l40": {}}}
    began = time.monotonic()
    assert compile_schema(schema)({"a": 1}) == ["the arguments could not be checked in time"]
    assert time.monotonic() - began < 2
