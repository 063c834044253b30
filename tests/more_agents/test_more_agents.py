"""codex-acp and opencode, from the task to the applied diff, and what must not pass for success (D4, D7, D10)."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.agents import scenes
from tests.agents.scenes import TROUBLES, Trouble
from tests.more_agents.rows import CODEX_STARTER, MORE_AGENTS, Agent
from tests.support.agents import DONE, AgentShop, asked
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

every_agent = pytest.mark.parametrize("agent", MORE_AGENTS, ids=lambda one: one.name)


@pytest.fixture(scope="module")
def agents_shop(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentShop]:
    server = ButlerServer(tmp_path_factory.mktemp("agents"), shared_model.url)
    (server.config / "start_codex.py").write_text(CODEX_STARTER)
    rows = [agent.row(shared_model.url) for agent in MORE_AGENTS]
    rows += [{**row, "maid_id": f"{row['maid_id']}_impatient", "limits": {"permission_wait": 1}} for row in rows]
    rows += [{**row, "maid_id": f"{row['maid_id']}_trusted", "permission": "allow"} for row in rows[:2]]
    yield AgentShop(server, rows, {"max_attempts": 2, "retry_on": ["wrong_output"]})
    server.close()


@pytest.fixture
def shop(agents_shop: AgentShop, model: ScriptedModel) -> AgentShop:
    agents_shop.restore()
    return agents_shop


@every_agent
def test_a_task_is_allowed_done_verified_approved_and_applied(
    shop: AgentShop, model: ScriptedModel, agent: Agent
) -> None:
    ids = shop.begin(agent.name, f"{agent.hello}[[then]]{DONE}")
    shop.decide(asked(shop, ids, f"maid:{agent.name}:{agent.kind}"), "approve")
    shop.decide(asked(shop, ids, "session_complete"), "approve")
    task = shop.when(ids, "succeeded", "failed")
    assert task["status"] == "succeeded"
    [attempt] = task["attempts"]
    assert attempt["tokens"]["requests"] >= 2
    shop.clean()
    assert shop.read() == "hello world\n"


@every_agent
def test_a_denied_permission_leaves_nothing(shop: AgentShop, model: ScriptedModel, agent: Agent) -> None:
    ids = shop.begin(agent.name, f"{agent.hello}[[then]]{DONE}")
    shop.decide(asked(shop, ids, f"maid:{agent.name}:{agent.kind}"), "reject")
    task = shop.when(ids, "failed", "succeeded")
    assert task["status"] == "failed"
    shop.clean()
    assert shop.read() is None


@every_agent
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.name.replace(" ", "-"))
def test_no_trouble_of_the_model_passes_for_success(
    shop: AgentShop, model: ScriptedModel, agent: Agent, trouble: Trouble
) -> None:
    # opencode tries a failing server again and again; Butler ends that after a minute.
    scenes.model_fails(shop, model, agent.name, trouble, seconds=120)


@every_agent
def test_after_the_death_of_the_server_the_agent_is_gone_and_starts_anew(
    shop: AgentShop, model: ScriptedModel, agent: Agent
) -> None:
    scenes.server_is_killed(shop, model, f"{agent.name}_trusted", agent.program, agent.half, agent.hello)


@every_agent
def test_a_killed_agent_has_failed_and_leaves_no_process(shop: AgentShop, model: ScriptedModel, agent: Agent) -> None:
    model.reply(marker="hello.txt", hold="in-the-middle", times=0)
    ids = shop.begin(agent.name, "create hello.txt")
    wait_until(lambda: model.requests("hello.txt"), "the first request came", 60.0)
    shop.agent(agent.program).send_signal(signal.SIGKILL)
    task = shop.when(ids, "failed", "succeeded")
    assert task["status"] == "failed"
    model.release("in-the-middle")
    shop.clean()


@every_agent
def test_after_a_late_answer_it_loads_its_own_session_and_acts_once(
    shop: AgentShop, model: ScriptedModel, agent: Agent
) -> None:
    scenes.person_is_slow(shop, model, f"{agent.name}_impatient", agent.append)
