"""Goose called once with ``goose run``, whose exit status says little (D4, D7)."""

from __future__ import annotations

import pytest

from tests.agents import scenes
from tests.agents.scenes import TROUBLES, Trouble
from tests.support.agents import AgentShop
from tests.support.scripted_model import ScriptedModel


def test_a_task_is_done_verified_approved_and_applied(shop: AgentShop, model: ScriptedModel) -> None:
    scenes.work_is_done(shop, model, "runs")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.name.replace(" ", "-"))
def test_no_trouble_of_the_model_passes_for_success(shop: AgentShop, model: ScriptedModel, trouble: Trouble) -> None:
    scenes.model_fails(shop, model, "runs", trouble)


def test_a_killed_agent_has_failed_and_the_next_attempt_does_the_work(shop: AgentShop, model: ScriptedModel) -> None:
    scenes.agent_is_killed(shop, model, "runs")


def test_after_the_death_of_the_server_the_agent_is_gone_and_starts_anew(shop: AgentShop, model: ScriptedModel) -> None:
    scenes.server_is_killed(shop, model, "runs")
