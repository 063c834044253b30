"""Decisions that are valid: every kind, every form, one by one and together."""

from __future__ import annotations

import pytest

from tests.support.client import Client, Json, good, refused
from tests.support.orders import approve, call, fresh, park, reject, results
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


def check_decided(owner: Client, action_id: str, decision: str, execution: str) -> Json:
    """The approval as decided, over HTTP by the owner; gives its decision."""
    approval = owner.approval(action_id)
    assert approval["status"] == ("rejected" if decision == "reject" else "approved")
    assert approval["execution"] == execution
    made: Json = approval["decision"]
    assert set(made) == {"decision", "by", "at", "via", "reason", "args"}
    assert made["decision"] == decision
    assert made["by"] == approval["requested_by"]
    assert made["at"] and made["via"]
    return made


def test_approve_runs_the_call_once_and_the_turn_goes_on(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    outcome = owner.decided(parked["thread_id"], approve(action, fingerprint=action["fingerprint"]))
    assert outcome["status"] == "done"
    assert outcome["approvals"] == []
    assert outcome["run_id"] == parked["run_id"]
    assert f"wrote {text}" in outcome["reply"]
    assert outcome["usage"]["model_calls"] == 2
    assert butler.workshop.effects(text) == [(action["action_id"], text)]
    check_decided(owner, action["action_id"], "approve", "done")
    assert owner.get(f"/threads/{parked['thread_id']}")["status"] == "idle"


def test_a_decision_may_name_the_code(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    decision = {"code": parked["approvals"][0]["code"], "decision": "approve"}
    assert owner.decided(parked["thread_id"], decision)["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1


def test_edit_runs_the_new_arguments_instead(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text, better = fresh(), fresh("better")
    parked = park(owner, text)
    [action] = parked["approvals"]
    edit = {"action_id": action["action_id"], "decision": "edit", "args": {"text": better}}
    outcome = owner.decided(parked["thread_id"], edit)
    assert outcome["status"] == "done"
    assert butler.workshop.effects(text) == []
    assert butler.workshop.effects(better) == [(action["action_id"], better)]
    assert check_decided(owner, action["action_id"], "edit", "done")["args"] == {"text": better}


def test_reject_runs_nothing_and_tells_the_model_why(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    outcome = owner.decided(parked["thread_id"], reject(action, reason="wrong day, use Tuesday"))
    assert outcome["status"] == "done"
    assert butler.workshop.effects(text) == []
    [result] = results(model, text)
    assert "wrong day, use Tuesday" in result
    assert check_decided(owner, action["action_id"], "reject", "none")["reason"] == "wrong day, use Tuesday"


def test_reject_needs_no_reason(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    parked = park(owner, text)
    assert owner.decided(parked["thread_id"], reject(parked["approvals"][0]))["status"] == "done"
    assert len(results(model, text)) == 1


def test_respond_runs_nothing_and_gives_the_response_as_the_result(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text = fresh()
    parked = park(owner, text)
    action_id = parked["approvals"][0]["action_id"]
    respond = {"action_id": action_id, "decision": "respond", "response": "I did it by hand"}
    assert owner.decided(parked["thread_id"], respond)["status"] == "done"
    assert butler.workshop.effects(text) == []
    [result] = results(model, text)
    assert "I did it by hand" in result


def test_several_decisions_in_one_request(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    one, two, three = fresh("one"), fresh("two"), fresh("three")
    parked = park(owner, one, two, three)
    a, b, c = parked["approvals"]
    decisions = [
        reject(b, reason="not this one"),
        approve(a),
        {"action_id": c["action_id"], "decision": "respond", "response": "third by hand"},
    ]
    assert owner.decided(parked["thread_id"], *decisions)["status"] == "done"
    assert [text for _, text in butler.workshop.effects() if text in (one, two, three)] == [one]
    first, second, third = results(model, one)
    assert f"wrote {one}" in first
    assert "not this one" in second
    assert "third by hand" in third


def test_a_decided_action_runs_at_once_while_others_stay_pending(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    one, two = fresh("one"), fresh("two")
    parked = park(owner, one, two)
    a, b = parked["approvals"]
    outcome = owner.decided(parked["thread_id"], approve(b))
    assert outcome["status"] == "parked"
    assert [pending["action_id"] for pending in outcome["approvals"]] == [a["action_id"]]
    assert len(butler.workshop.effects(two)) == 1
    assert butler.workshop.effects(one) == []
    assert len(model.requests(one)) == 1, "the model is asked again only when all are decided"
    assert owner.decided(parked["thread_id"], approve(a))["status"] == "done"
    assert len(butler.workshop.effects(one)) == 1
    assert len(butler.workshop.effects(two)) == 1
    first, second = results(model, one)
    assert f"wrote {one}" in first and f"wrote {two}" in second


def test_one_turn_may_park_again_and_again(butler: ButlerServer, owner: Client) -> None:
    one, two = fresh("one"), fresh("two")
    outcome = owner.chat(f"{call('append_line', one)} [[then]] {call('append_line', two)} [[then]] [[say all]]")
    again = owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    assert again["status"] == "parked"
    assert again["run_id"] == outcome["run_id"]
    assert [a["args"]["text"] for a in again["approvals"]] == [two]
    done = owner.decided(outcome["thread_id"], approve(again["approvals"][0]))
    assert (done["status"], done["reply"]) == ("done", "all")
    assert len(butler.workshop.effects(one)) == len(butler.workshop.effects(two)) == 1


def test_langchains_form_decides_all_in_their_order(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    one, two, three, better = fresh("one"), fresh("two"), fresh("three"), fresh("better")
    parked = park(owner, one, two, three)
    body = {
        "decisions": [
            {"type": "approve"},
            {"type": "edit", "edited_action": {"name": "append_line", "args": {"text": better}}},
            {"type": "reject", "message": "no third line"},
        ]
    }
    assert good(owner.post(f"/threads/{parked['thread_id']}/resume", body))["status"] == "done"
    first, second, third = results(model, one)
    assert f"wrote {one}" in first
    assert f"wrote {better}" in second
    assert "no third line" in third
    assert butler.workshop.effects(two) == butler.workshop.effects(three) == []


def test_the_answer_form_approves_the_only_pending_action(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    body = {"answer": {"approved": True}}
    assert good(owner.post(f"/threads/{parked['thread_id']}/resume", body))["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1


def test_the_answer_form_rejects_with_a_comment(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    parked = park(owner, text)
    body = {"answer": {"approved": False, "comment": "rather not"}}
    assert good(owner.post(f"/threads/{parked['thread_id']}/resume", body))["status"] == "done"
    assert butler.workshop.effects(text) == []
    assert "rather not" in results(model, text)[0]


def test_without_waiting_the_decision_is_accepted_and_the_turn_goes_on(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    response = owner.resume(parked["thread_id"], approve(parked["approvals"][0]), wait=False)
    assert response.status_code in (200, 202)
    assert owner.when_run(parked["run_id"], "done")["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1


def test_one_approval_is_decided_by_its_own_address_and_the_server_resumes(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    response = owner.post(f"/approvals/{action['action_id']}", {"decision": "approve"})
    assert response.status_code == 200
    body = response.json()
    assert set(body) == {"approval", "run_id"}
    assert body["approval"]["status"] == "approved"
    assert body["run_id"] == parked["run_id"]
    assert owner.when_run(parked["run_id"], "done")["reply"]
    assert butler.workshop.effects(text) == [(action["action_id"], text)]


def test_while_the_approved_call_runs_its_execution_is_started(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text, tool="slow_line")
    [action] = parked["approvals"]
    owner.resume(parked["thread_id"], approve(action), wait=False)
    thread = owner.when_status(parked["thread_id"], "running")
    assert thread["pending"] == 0
    butler.workshop.let_go()
    owner.when_run(parked["run_id"], "done")
    assert owner.approval(action["action_id"])["execution"] == "done"
    assert butler.workshop.begun(text) == butler.workshop.effects(text) == [(action["action_id"], text)]


@pytest.mark.parametrize("kind", ["approve", "edit", "reject", "respond"])
def test_a_second_decision_gets_the_first_one_back(butler: ButlerServer, owner: Client, kind: str) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    extra: dict[str, Json] = {"edit": {"args": {"text": text}}, "respond": {"response": "x"}}
    more = extra.get(kind, {})
    owner.decided(parked["thread_id"], {"action_id": action["action_id"], "decision": kind, **more})
    count = len(butler.workshop.effects(text))
    opposite = approve(action) if kind == "reject" else reject(action)
    for response in (
        owner.resume(parked["thread_id"], opposite),
        owner.resume(parked["thread_id"], approve(action)),
        owner.post(f"/approvals/{action['action_id']}", {"decision": opposite["decision"]}),
    ):
        assert refused(response, 409, "already_decided")["decision"]["decision"] == kind
    assert len(butler.workshop.effects(text)) == count
