"""A message to a parked thread: queued, declining, or refused; never lost, and no approval vanishes."""

from __future__ import annotations

from tests.support.client import Client, refused
from tests.support.orders import approve, call, fresh, park, results
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


def test_by_default_the_message_waits_and_becomes_the_next_turn(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text, later = fresh(), fresh("later")
    parked = park(owner, text)
    thread = parked["thread_id"]
    response = owner.post("/chat", {"message": later, "thread_id": thread})
    assert response.status_code == 202
    queued = response.json()
    assert queued["status"] == "queued"
    assert queued["thread_id"] == thread
    assert queued["approvals"] == parked["approvals"]
    assert owner.approvals(thread) == parked["approvals"]
    assert owner.get(f"/runs/{queued['run_id']}")["status"] == "queued"
    assert model.requests(later) == []
    owner.decided(thread, approve(parked["approvals"][0]))
    answered = owner.when_run(queued["run_id"], "done")
    assert answered["reply"].startswith(f"You said: {later}")
    assert len(butler.workshop.effects(text)) == 1


def test_messages_queued_behind_a_park_keep_their_order(butler: ButlerServer, owner: Client) -> None:
    parked = park(owner, fresh())
    thread = parked["thread_id"]
    later = [f"[[say answer {n}]] {fresh()}" for n in range(3)]
    runs = [owner.chat(text, thread, if_parked="queue")["run_id"] for text in later]
    owner.decided(thread, approve(parked["approvals"][0]))
    owner.when_run(runs[-1], "done")
    talk = owner.transcript(thread)
    assert [text for role, text in talk if role == "user"][1:] == later
    assert [text for role, text in talk if role == "assistant"][-3:] == ["answer 0", "answer 1", "answer 2"]


def test_a_queued_message_may_park_in_its_turn(butler: ButlerServer, owner: Client) -> None:
    one, two = fresh("one"), fresh("two")
    parked = park(owner, one)
    thread = parked["thread_id"]
    queued = owner.chat(call("append_line", two), thread)
    owner.decided(thread, approve(parked["approvals"][0]))
    again = owner.when_run(queued["run_id"], "parked")
    assert owner.decided(thread, approve(again["approvals"][0]))["status"] == "done"
    assert len(butler.workshop.effects(one)) == len(butler.workshop.effects(two)) == 1


def test_decline_rejects_every_pending_action_with_the_message_as_the_reason(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    one, two, said = fresh("one"), fresh("two"), fresh("no, do something else")
    parked = park(owner, one, two)
    outcome = owner.chat(said, parked["thread_id"], if_parked="decline")
    assert outcome["thread_id"] == parked["thread_id"]
    owner.when_status(parked["thread_id"], "idle")
    for action in parked["approvals"]:
        after = owner.approval(action["action_id"])
        assert after["status"] == "rejected"
        assert after["decision"]["reason"] == said
    assert butler.workshop.effects(one) == butler.workshop.effects(two) == []
    told = [
        message["content"]
        for entry in model.requests()
        for message in entry["body"]["messages"]
        if message["role"] == "tool"
    ]
    assert sum(said in text for text in told) >= 2


def test_reject_answers_that_the_thread_is_parked_and_keeps_no_message(butler: ButlerServer, owner: Client) -> None:
    said = fresh("said")
    parked = park(owner, fresh())
    body = {"message": said, "thread_id": parked["thread_id"], "if_parked": "reject"}
    problem = refused(owner.post("/chat", body), 409, "parked")
    assert problem["approvals"] == parked["approvals"]
    owner.decided(parked["thread_id"], approve(parked["approvals"][0]))
    owner.when_status(parked["thread_id"], "idle")
    assert said not in [text for _, text in owner.transcript(parked["thread_id"])]


def test_on_a_thread_that_is_not_parked_the_choice_changes_nothing(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    thread = owner.chat(fresh())["thread_id"]
    for choice in ("queue", "decline", "reject"):
        assert owner.chat(fresh(), thread, if_parked=choice)["status"] == "done"


def test_a_partly_decided_thread_still_queues(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    one, two = fresh("one"), fresh("two")
    parked = park(owner, one, two)
    a, b = parked["approvals"]
    owner.decided(parked["thread_id"], approve(a))
    queued = owner.chat(fresh(), parked["thread_id"])
    assert queued["status"] == "queued"
    assert [approval["action_id"] for approval in queued["approvals"]] == [b["action_id"]]
    owner.decided(parked["thread_id"], approve(b))
    owner.when_run(queued["run_id"], "done")
    assert len(results(model, one)) == 2
