"""Goose over the Agent Client Protocol, from the task to the applied diff (D4, D7, D10)."""

from __future__ import annotations

import pytest

from tests.agents import scenes
from tests.agents.scenes import TROUBLES, Trouble
from tests.support.agents import DONE, HELLO, AgentShop, asked
from tests.support.scripted_model import ScriptedModel


def test_a_task_is_done_verified_approved_and_applied(shop: AgentShop, model: ScriptedModel) -> None:
    scenes.work_is_done(shop, model, "acp")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.name.replace(" ", "-"))
def test_no_trouble_of_the_model_passes_for_success(shop: AgentShop, model: ScriptedModel, trouble: Trouble) -> None:
    scenes.model_fails(shop, model, "acp", trouble)


def test_a_killed_agent_has_failed_and_the_next_attempt_does_the_work(shop: AgentShop, model: ScriptedModel) -> None:
    scenes.agent_is_killed(shop, model, "acp")


def test_after_the_death_of_the_server_the_agent_is_gone_and_starts_anew(shop: AgentShop, model: ScriptedModel) -> None:
    scenes.server_is_killed(shop, model, "acp")


def test_a_denied_permission_is_told_to_the_agent_and_nothing_is_written(shop: AgentShop, model: ScriptedModel) -> None:
    ids = shop.begin("asks", f"{HELLO}[[then]]{DONE}")
    task = shop.when(ids, "waiting_approval")
    question = shop.decide(task, "reject", reason="not that file")
    assert question["tool"] == "maid:asks:edit"
    assert question["args"]["paths"] == ["hello.txt"]
    task = shop.when(ids, "failed", "succeeded")
    assert task["status"] == "failed"
    [attempt] = task["attempts"]
    assert [one["answer"] for one in attempt["permissions"]] == ["reject"]
    assert attempt["failure_class"] in ("false_completion", "no_changes")
    shop.clean()
    assert shop.read() is None
    assert "declined" in str(model.requests()[-1]["body"]["messages"][-1])


def test_an_allowed_permission_lets_the_same_session_go_on(shop: AgentShop, model: ScriptedModel) -> None:
    ids = shop.begin("asks", f"{HELLO}[[then]]{DONE}")
    shop.decide(shop.when(ids, "waiting_approval"), "approve")
    shop.decide(asked(shop, ids, "session_complete"), "approve")
    task = shop.when(ids, "succeeded", "failed")
    assert task["status"] == "succeeded"
    assert [one["status"] for one in task["attempts"]] == ["passed"]
    shop.clean()
    assert shop.read() == "hello world\n"


def test_after_a_late_answer_it_loads_its_own_session_and_acts_once(shop: AgentShop, model: ScriptedModel) -> None:
    append = {"name": "shell", "arguments": {"command": "echo hello world >> hello.txt"}}
    scenes.person_is_slow(shop, model, "impatient", append)
