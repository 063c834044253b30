"""What was parked under one configuration and decided under another: the stricter verdict wins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.client import Client, Json
from tests.support.orders import approve, call, fresh, park, results
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer
from tests.support.workshop import standard_tools, tool


class Changed:
    """A server on which one call of each kind was parked before its files changed."""

    def __init__(self, server: ButlerServer) -> None:
        self.server = server
        self.owner: Client = server.client()
        self.parked: dict[str, Json] = {}

    def park(self, name: str) -> None:
        self.parked[name] = park(self.owner, fresh(name), tool=name)

    def decide(self, name: str, **more: Json) -> tuple[str, Json]:
        """Approve the call parked for that tool; gives its text and the Outcome."""
        parked = self.parked.pop(name)
        [action] = parked["approvals"]
        assert self.owner.approval(action["action_id"])["status"] == "pending"
        outcome = self.owner.decided(parked["thread_id"], approve(action, **more))
        return action["args"]["text"], outcome


@pytest.fixture(scope="module")
def changed(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Changed]:
    server = ButlerServer(tmp_path_factory.mktemp("changed"), shared_model.url)
    server.workshop.write_tools(*standard_tools(), tool("gone_line", "approve"), tool("strict_line", "approve"))
    state = Changed(server.start())
    for name in ("append_line", "plain_line", "gone_line", "strict_line", "steady_line"):
        state.park(name)
    strict = {
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 1}},
        "required": ["text"],
    }
    remaining = [t for t in standard_tools() if t["name"] not in ("steady_line",)]
    server.workshop.write_tools(
        *remaining,
        tool("strict_line", "approve") | {"input_schema": strict},
        tool("steady_line", "allow", idempotent=True),
    )
    server.workshop.write_policy(
        {"name": "no-more-lines", "tool": "append_line", "verdict": "refuse", "reason": "Closed today"}
    )
    assert server.stop() == 0
    server.start()
    yield state
    server.close()


def test_a_call_that_policy_refuses_by_now_is_not_run_though_approved(changed: Changed, model: ScriptedModel) -> None:
    text, outcome = changed.decide("append_line")
    assert outcome["status"] == "done"
    assert changed.server.workshop.effects(text) == []
    assert "Closed today" in results(model, text)[0]


def test_a_tool_that_is_gone_is_not_run_though_approved(changed: Changed, model: ScriptedModel) -> None:
    text, outcome = changed.decide("gone_line")
    assert outcome["status"] == "done"
    assert changed.server.workshop.effects(text) == []
    assert "gone_line" in results(model, text)[0]


def test_arguments_that_no_longer_fit_the_schema_are_not_run(changed: Changed, model: ScriptedModel) -> None:
    text, outcome = changed.decide("strict_line")
    assert outcome["status"] == "done"
    assert changed.server.workshop.effects(text) == []
    assert "wrote" not in results(model, text)[0]


def test_what_nobody_changed_still_runs(changed: Changed, model: ScriptedModel) -> None:
    text, outcome = changed.decide("plain_line")
    assert outcome["status"] == "done"
    assert len(changed.server.workshop.effects(text)) == 1


def test_a_call_that_would_be_allowed_by_now_still_waits_for_its_answer(changed: Changed, model: ScriptedModel) -> None:
    text, outcome = changed.decide("steady_line")
    assert outcome["status"] == "done"
    assert len(changed.server.workshop.effects(text)) == 1
    assert changed.owner.chat(call("steady_line", fresh()))["status"] == "done"
