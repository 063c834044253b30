"""Runs: looking at them and cancelling them; a cancelled turn leaves a sound thread."""

from __future__ import annotations

from tests.support.client import Client, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer


def test_unknown_runs_are_not_found(butler: ButlerServer, owner: Client) -> None:
    refused(owner.request("GET", "/runs/no-such-run"), 404, "not_found")
    refused(owner.request("GET", "/runs/no-such-run/events"), 404, "not_found")
    refused(owner.post("/runs/no-such-run/cancel", {}), 404, "not_found")


def test_a_turn_that_waits_for_the_model_is_cancelled_and_the_next_one_works(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text = f"[[hang]] {fresh()}"
    started = owner.chat(text, wait=False)
    wait_until(lambda: model.requests(text), "the model is asked")
    assert owner.request("POST", f"/runs/{started['run_id']}/cancel").status_code == 202
    assert owner.when_run(started["run_id"], "cancelled")["approvals"] == []
    wait_until(lambda: model.requests(text)[0]["state"] == "disconnected", "the model call is ended")
    assert owner.chat(fresh(), started["thread_id"])["status"] == "done"
    assert ("user", text) in owner.transcript(started["thread_id"])


def test_a_stream_of_a_cancelled_run_ends_cancelled(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    with owner.stream("POST", "/chat", {"message": f"[[hold {gate} 2]] [[say one two three]]"}) as stream:
        run = stream.until("run").data["run_id"]
        stream.until("token")
        assert butler.client().request("POST", f"/runs/{run}/cancel").status_code == 202
        events = stream.rest()
    assert events[-1].event == "end"
    assert events[-1].data["status"] == "cancelled"
    assert stream.kinds().count("end") == 1


def test_cancelling_while_a_tool_runs_leaves_a_sound_history(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text = fresh()
    started = owner.chat(call("slow_note", text) + call("append_line", text + "b"), wait=False)
    wait_until(lambda: butler.workshop.begun(text), "the tool runs")
    assert owner.request("POST", f"/runs/{started['run_id']}/cancel").status_code == 202
    outcome = owner.when_run(started["run_id"], "cancelled")
    assert outcome["approvals"] == []
    after = owner.chat(fresh(), started["thread_id"])
    assert after["status"] == "done"
    assert butler.workshop.effects(text) == []
    assert butler.workshop.effects(text + "b") == []


def test_a_parked_run_is_cancelled_with_its_approvals(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    assert owner.request("POST", f"/runs/{parked['run_id']}/cancel").status_code == 202
    owner.when_run(parked["run_id"], "cancelled")
    owner.when_status(parked["thread_id"], "idle")
    assert owner.approval(action["action_id"])["status"] == "cancelled"
    late = owner.resume(parked["thread_id"], approve(action))
    assert late.status_code in (409, 410), late.text
    assert owner.chat(fresh(), parked["thread_id"])["status"] == "done"
    assert butler.workshop.effects(text) == []


def test_a_queued_run_is_cancelled_before_it_starts(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    parked = park(owner, fresh())
    later = fresh("later")
    queued = owner.chat(later, parked["thread_id"])
    assert owner.request("POST", f"/runs/{queued['run_id']}/cancel").status_code == 202
    owner.when_run(queued["run_id"], "cancelled")
    assert owner.decided(parked["thread_id"], approve(parked["approvals"][0]))["status"] == "done"
    owner.when_status(parked["thread_id"], "idle")
    assert model.requests(later) == []


def test_cancelling_what_is_over_changes_nothing(butler: ButlerServer, owner: Client) -> None:
    outcome = owner.chat(fresh())
    response = owner.request("POST", f"/runs/{outcome['run_id']}/cancel")
    assert response.status_code in (202, 409), response.text
    assert owner.get(f"/runs/{outcome['run_id']}") == outcome
    assert owner.get(f"/threads/{outcome['thread_id']}")["status"] == "idle"


def test_what_is_queued_behind_a_cancelled_turn_runs_next(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    started = owner.chat(f"[[hang]] {fresh()}", wait=False)
    wait_until(lambda: model.requests("[[hang]]"), "the model is asked")
    text = fresh()
    queued = owner.chat(text, started["thread_id"])
    assert queued["status"] == "queued"
    owner.request("POST", f"/runs/{started['run_id']}/cancel")
    assert owner.when_run(queued["run_id"], "done")["reply"].startswith(f"You said: {text}")
