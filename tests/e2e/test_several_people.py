"""Actions that several people have to approve, that someone else must decide, or that escalate (B6, A9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park, reject, results, together
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

RULES = (
    {"name": "two", "tool": "append_line", "args": {"text": "two-*"}, "verdict": "approve", "approvals_needed": 2,
     "deciders": ["admin", "mia"]},
    {"name": "not-oneself", "tool": "append_line", "args": {"text": "other-*"}, "verdict": "approve",
     "deciders": ["mia"]},
    {"name": "later", "tool": "append_line", "args": {"text": "later-*"}, "verdict": "approve", "deciders": ["mia"],
     "escalate_after": 1, "escalate_to": ["max"]},
    {"name": "own", "tool": "plain_line", "args": {"text": "own-*"}, "verdict": "approve", "deciders": ["requester"]},
    {"name": "pair", "tool": "plain_line", "args": {"text": "pair-*"}, "verdict": "approve", "approvals_needed": 2},
)  # fmt: skip


@dataclass(frozen=True)
class People:
    server: ButlerServer
    owner: Client
    ann: Client
    mia: Client
    max: Client


@pytest.fixture(scope="module")
def people(shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    server = ButlerServer(tmp_path_factory.mktemp("people"), shared_model.url)
    server.workshop.write_policy(*RULES)
    server.start()
    yield People(
        server, server.client(), server.user_add("ann", "admin"), server.user_add("mia", "member"),
        server.user_add("max", "member"),
    )  # fmt: skip
    server.close()


def events_of(people: People, action: Json) -> list[str]:
    rows = people.owner.get("/audit", limit=1000)["items"]
    return [row["event"] for row in rows if row["action_id"] == action["action_id"] and row["event"] != "shown"]


def decide(client: Client, action: Json, decision: str = "approve", **more: str | Json) -> Json:
    response = client.post(f"/approvals/{action['action_id']}", {"decision": decision, **more})
    assert response.status_code == 200, response.text
    answer: Json = response.json()
    return answer


def test_one_of_two_approvals_runs_nothing_and_the_second_runs_it(people: People, model: ScriptedModel) -> None:
    text = fresh("two")
    parked = park(people.owner, text)
    [action] = parked["approvals"]
    assert (action["approvals_needed"], action["approved_by"]) == (2, [])
    assert action["allowed_decisions"] == ["approve", "reject"]
    outcome = people.owner.decided(parked["thread_id"], approve(action, reason="fine"))
    assert outcome["status"] == "parked"
    [waiting] = outcome["approvals"]
    assert [(one["by"], one["reason"]) for one in waiting["approved_by"]] == [("owner", "fine")]
    assert "user_id" not in waiting["approved_by"][0]
    assert people.owner.get(f"/threads/{parked['thread_id']}")["status"] == "parked"
    assert people.server.workshop.effects(text) == []
    again = people.owner.post(f"/approvals/{action['action_id']}", {"decision": "approve"})
    assert refused(again, 409, "already_decided")["decision"]["by"] == "owner"
    final = decide(people.mia, action)["approval"]
    assert (final["status"], final["decision"]["by"]) == ("approved", "mia")
    assert [one["by"] for one in final["approved_by"]] == ["owner", "mia"]
    people.owner.when_run(parked["run_id"], "done")
    assert len(people.server.workshop.effects(text)) == 1
    assert events_of(people, action) == ["requested", "approved_in_part", "approved", "started", "done"]


def test_one_reject_ends_it_whoever_has_approved(people: People, model: ScriptedModel) -> None:
    text = fresh("two")
    parked = park(people.owner, text)
    [action] = parked["approvals"]
    decide(people.owner, action)
    outcome = people.owner.decided(parked["thread_id"], reject(action, reason="on second thoughts"))
    assert outcome["status"] == "done"
    assert people.server.workshop.effects(text) == []
    assert events_of(people, action) == ["requested", "approved_in_part", "changes_requested"]


def test_two_people_at_once_make_two_approvals_and_one_person_twice_makes_one(
    people: People, model: ScriptedModel
) -> None:
    text = fresh("two")
    parked = park(people.owner, text)
    [action] = parked["approvals"]
    people.server.workshop.effects(text)
    answers = together(
        lambda client: client.post(f"/approvals/{action['action_id']}", {"decision": "approve"}).status_code,
        [people.ann] * 4,
    )
    assert sorted(answers) == [200, 409, 409, 409]
    assert people.server.workshop.effects(text) == []
    answers = together(
        lambda client: client.post(f"/approvals/{action['action_id']}", {"decision": "approve"}).status_code,
        [people.owner, people.mia],
    )
    assert sorted(answers) == [200, 409]
    people.owner.when_run(parked["run_id"], "done")
    assert len(people.server.workshop.effects(text)) == 1


def test_what_needs_two_can_be_neither_edited_nor_granted(people: People, model: ScriptedModel) -> None:
    [action] = park(people.owner, fresh("two"))["approvals"]
    path = f"/approvals/{action['action_id']}"
    for body in (
        {"decision": "edit", "args": {"text": "x"}}, {"decision": "respond", "response": "x"},
        {"decision": "approve", "grant": {"scope": "thread"}},
    ):  # fmt: skip
        refused(people.owner.post(path, body), 422, "invalid_request")
    assert people.owner.approval(action["action_id"])["approved_by"] == []


def test_a_requester_whom_the_rule_leaves_out_cannot_decide_though_admin(people: People, model: ScriptedModel) -> None:
    text = fresh("other")
    parked = park(people.owner, text)
    [action] = parked["approvals"]
    for kind in ("approve", "reject"):
        response = people.owner.post(f"/approvals/{action['action_id']}", {"decision": kind})
        assert "somebody else" in refused(response, 403, "not_an_approver")["detail"]
    refused(people.max.post(f"/approvals/{action['action_id']}", {"decision": "approve"}), 404, "not_found")
    decide(people.mia, action)
    people.owner.when_run(parked["run_id"], "done")
    assert len(people.server.workshop.effects(text)) == 1
    assert events_of(people, action)[1:3] == ["attempt_refused", "attempt_refused"]


def test_another_admin_may_decide_what_its_requester_may_not(people: People, model: ScriptedModel) -> None:
    parked = park(people.owner, fresh("other"))
    decide(people.ann, parked["approvals"][0])
    people.owner.when_run(parked["run_id"], "done")


def test_after_its_time_further_people_see_it_and_may_decide(people: People, model: ScriptedModel) -> None:
    text = fresh("later")
    parked = park(people.owner, text)
    [action] = parked["approvals"]
    assert action["escalates_at"] and action["escalated_at"] is None
    seen = people.max.request("GET", f"/approvals/{action['action_id']}")
    refused(seen, 404, "not_found")

    def listed() -> bool:
        items = people.max.get("/approvals", status="pending", limit=200)["items"]
        return action["action_id"] in [item["action_id"] for item in items]

    wait_until(listed, "the action escalates")
    wait_until(lambda: "escalated" in events_of(people, action), "the audit says so")
    refused(people.owner.post(f"/approvals/{action['action_id']}", {"decision": "approve"}), 403, "not_an_approver")
    assert decide(people.max, action)["approval"]["decision"]["by"] == "max"
    people.owner.when_run(parked["run_id"], "done")
    assert [event for event in events_of(people, action) if event != "attempt_refused"] == [
        "requested", "escalated", "approved", "started", "done",
    ]  # fmt: skip
    assert people.max.approval(action["action_id"])["status"] == "approved"


def test_a_reject_with_a_reason_is_told_apart_from_a_plain_one(people: People, model: ScriptedModel) -> None:
    plain, reasoned = fresh("plain"), fresh("reasoned")
    for text, more in ((plain, {}), (reasoned, {"reason": "shorter, please"})):
        parked = park(people.owner, text)
        people.owner.decided(parked["thread_id"], reject(parked["approvals"][0], **more))
        last = events_of(people, parked["approvals"][0])[-1]
        assert last == ("changes_requested" if more else "rejected")
    assert "shorter, please" in results(model, reasoned)[0]
    assert results(model, plain) != results(model, reasoned)


def test_a_crash_asks_all_of_them_again(people: People, model: ScriptedModel) -> None:
    text = fresh("two")
    people.server.workshop.write_policy(*RULES, {"name": "two-slow", "tool": "slow_line", "verdict": "approve",
                                                 "approvals_needed": 2})  # fmt: skip
    people.server.restart()
    parked = people.owner.chat(call("slow_line", text))
    [action] = parked["approvals"]
    decide(people.owner, action)
    decide(people.ann, action)
    wait_until(lambda: people.server.workshop.begun(text), "the tool has begun")
    people.server.restart()
    people.owner.when_status(parked["thread_id"], "parked")
    asked = people.owner.approval(action["action_id"])
    assert (asked["execution"], asked["status"], asked["approved_by"]) == ("unknown", "pending", [])
    assert asked["allowed_decisions"] == ["approve", "reject", "respond"]
    assert decide(people.owner, action)["approval"]["status"] == "pending"
    decide(people.ann, action, "respond", response="it was written")
    assert people.owner.when_run(parked["run_id"], "done")["error"] is None
    assert people.server.workshop.effects(text) == []


def test_an_edit_carries_no_call_past_those_who_must_approve_it(people: People, model: ScriptedModel) -> None:
    parked = people.mia.chat(call("plain_line", own := fresh("own")))
    [action] = parked["approvals"]
    path = f"/approvals/{action['action_id']}"
    for text in (fresh("free"), fresh("pair")):
        body = {"decision": "edit", "args": {"text": text}}
        refused(people.mia.post(path, body), 403, "not_an_approver")
        assert people.server.workshop.effects(text) == []
    refused(people.ann.post(path, {"decision": "edit", "args": {"text": fresh("pair")}}), 422, "invalid_request")
    assert people.owner.approval(action["action_id"])["status"] == "pending"
    assert events_of(people, action) == ["requested", "attempt_refused", "attempt_refused"]
    changed = f"{own}-but-shorter"
    assert decide(people.mia, action, "edit", args={"text": changed})["approval"]["status"] == "approved"
    people.mia.when_run(parked["run_id"], "done")
    assert len(people.server.workshop.effects(changed)) == 1
