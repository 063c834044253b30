"""Approvals that expire: refused by time, and the model is told that nobody answered."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park, results
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

RULES = (
    {
        "name": "brief",
        "tool": "append_line",
        "verdict": "approve",
        "expires_in": 1,
        "reason": "Soon or never",
    },
    {"name": "patient", "tool": "plain_line", "verdict": "approve", "expires_in": 3600},
)


@pytest.fixture(scope="module")
def hasty(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ButlerServer]:
    server = ButlerServer(tmp_path_factory.mktemp("hasty"), shared_model.url)
    server.workshop.write_policy(*RULES)
    yield server.start()
    server.close()


@pytest.fixture
def asker(hasty: ButlerServer, model: ScriptedModel) -> Client:
    return hasty.client()


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def expired(client: Client, action: Json) -> Json:
    """Wait until the action has expired; gives it as it is then."""

    def probe() -> Json | None:
        now = client.approval(action["action_id"])
        return now if now["status"] == "expired" else None

    return wait_until(probe, "the action expires")


def test_an_action_nobody_answers_expires_and_the_turn_goes_on_by_itself(
    hasty: ButlerServer, asker: Client, model: ScriptedModel
) -> None:
    text = fresh()
    parked = park(asker, text)
    [action] = parked["approvals"]
    assert action["rule"] == "brief"
    lifetime = moment(action["expires_at"]) - moment(action["requested_at"])
    assert 0.5 <= lifetime.total_seconds() <= 1.5
    assert expired(asker, action)["execution"] == "none"
    assert asker.when_run(parked["run_id"], "done")["error"] is None
    assert hasty.workshop.effects(text) == []
    [result] = results(model, text)
    assert "wrote" not in result
    assert result


def test_a_decision_after_the_time_is_refused_as_expired(hasty: ButlerServer, asker: Client) -> None:
    text = fresh()
    parked = park(asker, text)
    [action] = parked["approvals"]
    expired(asker, action)
    refused(asker.post(f"/approvals/{action['action_id']}", {"decision": "approve"}), 410, "expired")
    refused(asker.resume(parked["thread_id"], approve(action)), 410, "expired")
    asker.when_run(parked["run_id"], "done")
    assert hasty.workshop.effects(text) == []


def test_expired_and_rejected_are_told_apart_to_the_model(
    hasty: ButlerServer, asker: Client, model: ScriptedModel
) -> None:
    late, no = fresh("late"), fresh("no")
    waited = park(asker, late)
    rejected = park(asker, no, tool="plain_line")
    asker.decided(rejected["thread_id"], {"action_id": rejected["approvals"][0]["action_id"], "decision": "reject"})
    asker.when_run(waited["run_id"], "done")
    assert results(model, late)[0].replace(late, "") != results(model, no)[0].replace(no, "")


def test_a_long_time_leaves_the_action_pending(hasty: ButlerServer, asker: Client) -> None:
    text = fresh()
    parked = park(asker, text, tool="plain_line")
    [action] = parked["approvals"]
    lifetime = moment(action["expires_at"]) - moment(action["requested_at"])
    assert 3590 <= lifetime.total_seconds() <= 3610
    assert asker.decided(parked["thread_id"], approve(action))["status"] == "done"


def test_one_of_two_expires_and_the_other_still_waits(hasty: ButlerServer, asker: Client, model: ScriptedModel) -> None:
    brief, patient = fresh("brief"), fresh("patient")
    outcome = asker.chat(call("append_line", brief) + call("plain_line", patient))
    by_tool = {action["tool"]: action for action in outcome["approvals"]}
    expired(asker, by_tool["append_line"])
    asker.when_status(outcome["thread_id"], "parked")
    assert asker.decided(outcome["thread_id"], approve(by_tool["plain_line"]))["status"] == "done"
    assert hasty.workshop.effects(brief) == []
    assert len(hasty.workshop.effects(patient)) == 1
    assert len(results(model, brief)) == 2


def test_an_action_expires_while_the_server_is_down(hasty: ButlerServer, asker: Client, model: ScriptedModel) -> None:
    text = fresh()
    parked = park(asker, text)
    [action] = parked["approvals"]
    hasty.kill()
    wait_until(lambda: datetime.now(UTC) > moment(action["expires_at"]), "its time has passed")
    hasty.start()
    expired(asker, action)
    assert asker.when_run(parked["run_id"], "done")["error"] is None
    assert hasty.workshop.effects(text) == []
