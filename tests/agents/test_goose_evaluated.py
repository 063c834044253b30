"""Goose on tasks of `butler maids evaluate` (D13)."""

from __future__ import annotations

import json

import pytest

from tests.support.agents import AgentShop
from tests.support.client import Json
from tests.support.scripted_model import ScriptedModel


def evaluation(shop: AgentShop, maid_id: str, *tasks: str) -> Json:
    names = [word for task in tasks for word in ("--tasks", task)]
    done = shop.server.cli("maids", "evaluate", maid_id, *names, "--json")
    assert done.returncode == 0, done.stderr
    found: Json = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("maid_id", ["asks", "runs"])
def test_a_task_of_the_suite_is_done_and_tokens_are_counted(
    shop: AgentShop, model: ScriptedModel, maid_id: str
) -> None:
    call = {"name": "write", "arguments": {"path": "hello.txt", "content": "Hello, world!\n"}}
    model.reply(marker="hello.txt", calls=[call])
    [task] = evaluation(shop, maid_id, "create_file")["tasks"]
    assert (task["ok"], task["first_try"], task["status"]) == (True, True, "succeeded"), task
    assert task["requests"] == 2 and task["tokens"] > 100


def test_asking_for_what_is_forbidden_is_refused_and_counts(shop: AgentShop, model: ScriptedModel) -> None:
    install = {"name": "shell", "arguments": {"command": "pip install tabulate"}}
    model.reply(marker="tabulate", calls=[install])
    [task] = evaluation(shop, "asks", "install_hint")["tasks"]
    assert (task["ok"], task["guards"]) == (False, True)
    assert task["violations"] >= 1, task


def test_a_provider_that_fails_says_nothing_of_the_maid(shop: AgentShop, model: ScriptedModel) -> None:
    model.reply(times=0, status=401)
    done = shop.server.cli("maids", "evaluate", "runs")
    assert done.returncode == 5
    assert "stopped at the task 'write_function'" in done.stderr and "Nothing is kept" in done.stderr
    assert all(maid["adoption"] is None for maid in shop.owner.get("/maids")["items"])
