"""Decisions that are malformed, stale, doubled or misplaced: they change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park, reject, together
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

ID = "<the action's id>"
CODE = "<the action's code>"


def one(**decision: Any) -> Json:
    return {"decisions": [{"action_id": ID, **decision}]}


MALFORMED: list[Any] = [
    {},
    [],
    None,
    "approve",
    True,
    {"decisions": []},
    {"decisions": None},
    {"decisions": {}},
    {"decisions": "approve"},
    {"decisions": ["approve"]},
    {"decisions": [None]},
    {"decisions": [{}]},
    {"decisions": [{"action_id": ID}]},
    {"decisions": [{"decision": "approve"}]},
    {"decisions": [{"action_id": None, "decision": "approve"}]},
    {"decisions": [{"action_id": 7, "decision": "approve"}]},
    one(decision=True),
    one(decision=1),
    one(decision=None),
    one(decision="true"),
    one(decision="yes"),
    one(decision="Approve"),
    one(decision="APPROVE"),
    one(decision=" approve"),
    one(decision="approved"),
    one(decision=["approve"]),
    one(decision="edit"),
    one(decision="edit", args=None),
    one(decision="edit", args="text"),
    one(decision="edit", args=["text"]),
    one(decision="edit", args={}),
    one(decision="edit", args={"text": 5}),
    one(decision="edit", args={"text": "x" * 501}),
    one(decision="edit", args={"text": "x", "more": 1}),
    one(decision="edit", args={"text": "x"}, tool="note_line"),
    one(decision="respond"),
    one(decision="respond", response=None),
    one(decision="respond", response=5),
    one(decision="approve", approved=True),
    one(decision="approve", fingerprint=5),
    one(decision="reject", reason=5),
    one(decision="approve", grant={}),
    one(decision="approve", grant={"scope": "world"}),
    one(decision="approve", grant={"scope": "thread", "uses": "many"}),
    one(decision="approve", grant={"scope": "thread", "expires_in": -1}),
    one(decision="approve", grant={"scope": "thread", "args": {"text": 5}}),
    one(decision="approve", grant={"scope": "thread", "colour": "red"}),
    {**one(decision="approve"), "wait": "no"},
    {**one(decision="approve"), "colour": "red"},
    {"decisions": [{"action_id": ID, "decision": "approve"}, {"action_id": ID, "decision": "maybe"}]},
    {"decisions": [{"action_id": ID, "decision": "approve"}, {"action_id": ID, "decision": "reject"}]},
    {"decisions": [{"action_id": ID, "decision": "approve"}, {"code": CODE, "decision": "approve"}]},
    {"decisions": [{"type": "approve"}, {"type": "approve"}]},
    {"decisions": [{"type": "approved"}]},
    {"decisions": [{"type": True}]},
    {"decisions": [{"type": "edit"}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "note_line", "args": {"text": "x"}}}]},
    {"decisions": [{"type": "edit", "edited_action": {"name": "append_line", "args": {"text": 5}}}]},
    {"answer": True},
    {"answer": None},
    {"answer": {}},
    {"answer": {"approved": None}},
    {"answer": {"approved": "true"}},
    {"answer": {"approved": 1}},
    {"answer": {"approved": "yes"}},
    {"answer": {"approved": [True]}},
    {"answer": {"approved": True, "comment": 5}},
    {"answer": {"approve": True}},
    {"answer": {"approved": True}, "decisions": [{"action_id": ID, "decision": "approve"}]},
    {"approved": True},
    {"resume": True},
]


def filled(value: Any, action: Json) -> Any:
    """The value with the placeholders replaced."""
    if isinstance(value, dict):
        return {key: filled(item, action) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, action) for item in value]
    return {ID: action["action_id"], CODE: action["code"]}.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def waiting(shared_butler: ButlerServer, owner: Client) -> Json:
    """One parked action that every malformed decision leaves as it is."""
    return park(owner, fresh("waiting"))


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: str(body).replace(" ", "")[:70])
def test_a_malformed_decision_is_refused_and_changes_nothing(
    butler: ButlerServer, owner: Client, waiting: Json, body: Any
) -> None:
    [action] = waiting["approvals"]
    response = owner.post(f"/threads/{waiting['thread_id']}/resume", filled(body, action))
    refused(response, 422, "invalid_request")
    assert owner.approval(action["action_id"]) == action
    assert owner.get(f"/threads/{waiting['thread_id']}")["status"] == "parked"
    assert butler.workshop.effects(action["args"]["text"]) == []


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"decision": True},
        {"decision": "yes"},
        {"approved": True},
        {"decision": "approve", "colour": "red"},
        {"decisions": [{"decision": "approve"}]},
        {"decision": "edit"},
        {"decision": "respond"},
    ],
    ids=str,
)
def test_a_malformed_decision_at_the_approvals_own_address_changes_nothing(
    butler: ButlerServer, owner: Client, waiting: Json, body: Any
) -> None:
    [action] = waiting["approvals"]
    refused(owner.post(f"/approvals/{action['action_id']}", body), 422, "invalid_request")
    assert owner.approval(action["action_id"]) == action


def test_what_is_not_json_decides_nothing(butler: ButlerServer, owner: Client, waiting: Json) -> None:
    path = f"/threads/{waiting['thread_id']}/resume"
    for raw in (b"", b"approve", b'{"decisions": [{"type": "approve"}]'):
        response = owner.request("POST", path, content=raw, headers={"Content-Type": "application/json"})
        refused(response, 422, "invalid_request")
    assert owner.approval(waiting["approvals"][0]["action_id"]) == waiting["approvals"][0]


def test_a_stale_fingerprint_decides_nothing(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    for stale in ("0" * 64, action["fingerprint"].upper(), action["fingerprint"][:10], ""):
        refused(owner.resume(parked["thread_id"], approve(action, fingerprint=stale)), 409, "stale_decision")
        body = {"decision": "approve", "fingerprint": stale}
        refused(owner.post(f"/approvals/{action['action_id']}", body), 409, "stale_decision")
    assert owner.approval(action["action_id"]) == action
    good = approve(action, fingerprint=action["fingerprint"])
    assert owner.decided(parked["thread_id"], good)["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1


def test_one_stale_decision_in_a_batch_stops_the_whole_batch(butler: ButlerServer, owner: Client) -> None:
    one_text, two_text = fresh("one"), fresh("two")
    parked = park(owner, one_text, two_text)
    a, b = parked["approvals"]
    response = owner.resume(parked["thread_id"], approve(a), approve(b, fingerprint="0" * 64))
    refused(response, 409, "stale_decision")
    assert butler.workshop.effects(two_text) == []
    assert owner.approval(b["action_id"])["status"] == "pending"


def test_an_idle_thread_is_not_parked(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat(fresh())["thread_id"]
    path = f"/threads/{thread}/resume"
    refused(owner.post(path, {"decisions": [{"type": "approve"}]}), 409, "not_parked")
    refused(owner.post(path, {"answer": {"approved": True}}), 409, "not_parked")
    assert owner.get(f"/threads/{thread}")["status"] == "idle"
    assert len(owner.transcript(thread)) == 2


def test_an_unknown_thread_cannot_be_resumed_into_being(butler: ButlerServer, owner: Client) -> None:
    for body in ({"decisions": [{"type": "approve"}]}, {"answer": {"approved": True}}):
        refused(owner.post("/threads/no-such-thread/resume", body), 404, "not_found")
    refused(owner.request("GET", "/threads/no-such-thread"), 404, "not_found")


def test_an_unknown_action_is_refused_and_its_batch_with_it(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    for unknown in ({"action_id": "no-such-action"}, {"code": "ZZZZZZZZ"}):
        response = owner.resume(
            parked["thread_id"], approve(parked["approvals"][0]), {**unknown, "decision": "approve"}
        )
        assert response.status_code in (404, 422), response.text
    assert butler.workshop.effects(text) == []
    assert owner.approval(parked["approvals"][0]["action_id"])["status"] == "pending"


def test_an_action_of_another_thread_cannot_be_decided_here(butler: ButlerServer, owner: Client) -> None:
    here, there = park(owner, fresh("here")), park(owner, fresh("there"))
    for decision in (
        approve(there["approvals"][0]),
        {"code": there["approvals"][0]["code"], "decision": "approve"},
    ):
        response = owner.resume(here["thread_id"], decision)
        assert response.status_code in (404, 422), response.text
    for parked in (here, there):
        assert owner.approval(parked["approvals"][0]["action_id"])["status"] == "pending"


def test_forms_for_one_action_are_refused_when_two_are_pending(butler: ButlerServer, owner: Client) -> None:
    parked = park(owner, fresh("one"), fresh("two"))
    path = f"/threads/{parked['thread_id']}/resume"
    refused(owner.post(path, {"answer": {"approved": True}}), 422, "invalid_request")
    refused(owner.post(path, {"decisions": [{"type": "approve"}]}), 422, "invalid_request")
    assert len(owner.approvals(parked["thread_id"])) == 2


def test_a_decided_action_stays_decided_while_others_wait(butler: ButlerServer, owner: Client) -> None:
    text = fresh("one")
    parked = park(owner, text, fresh("two"))
    a, b = parked["approvals"]
    owner.decided(parked["thread_id"], approve(a))
    problem = refused(owner.resume(parked["thread_id"], reject(a)), 409, "already_decided")
    assert problem["decision"]["decision"] == "approve"
    assert len(butler.workshop.effects(text)) == 1
    assert owner.approval(b["action_id"])["status"] == "pending"


def test_an_edit_cannot_reach_what_policy_refuses(butler: ButlerServer, owner: Client) -> None:
    target = fresh("prod")
    parked = owner.chat(call("delete_thing", target=fresh("test")))
    [action] = parked["approvals"]
    edit = {"action_id": action["action_id"], "decision": "edit", "args": {"target": target}}
    response = owner.resume(parked["thread_id"], edit)
    assert response.status_code in (200, 403, 422), response.text
    assert butler.workshop.effects(target) == []
    if response.status_code != 200:
        assert owner.approval(action["action_id"])["status"] == "pending"
    else:
        assert response.json()["status"] == "done"
        assert "off limits" in response.json()["reply"]


def test_ten_decisions_at_once_have_one_winner(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    kinds = [approve(action), reject(action, reason="too late")] * 5
    responses = together(lambda decision: owner.resume(parked["thread_id"], decision), kinds)
    won = [
        decision["decision"] for decision, response in zip(kinds, responses, strict=True) if response.status_code == 200
    ]
    assert len(won) == 1, [response.text for response in responses]
    for response in responses:
        if response.status_code != 200:
            assert refused(response, 409, "already_decided")["decision"]["decision"] == won[0]
    assert owner.when_run(parked["run_id"], "done")
    assert len(butler.workshop.effects(text)) == (1 if won == ["approve"] else 0)
    assert len(model.requests(text)) == 2


def test_ten_approvals_at_once_run_the_call_once(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    path = f"/approvals/{action['action_id']}"
    responses = together(lambda _: owner.post(path, {"decision": "approve"}), range(10))
    assert sorted(response.status_code for response in responses) == [200] + [409] * 9
    owner.when_run(parked["run_id"], "done")
    assert butler.workshop.effects(text) == [(action["action_id"], text)]
