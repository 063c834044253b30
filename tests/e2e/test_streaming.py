"""Event streams: order, one end, replay and following, and that a client may go away."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.client import Client, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer
from tests.support.sse import Event

KINDS = {"run", "token", "tool", "approval", "maid", "notice", "end"}


def check_order(events: list[Event]) -> None:
    """Every stream starts with `run`, ends with its only `end`, and its ids grow."""
    kinds = [event.event for event in events]
    assert set(kinds) <= KINDS
    assert kinds[0] == "run"
    assert kinds[-1] == "end"
    assert kinds.count("end") == 1
    numbers = [int(event.id) for event in events]
    assert numbers == sorted(set(numbers))


def test_a_plain_turn_streams_run_tokens_and_one_end(butler: ButlerServer, owner: Client) -> None:
    with owner.stream("POST", "/chat", {"message": fresh()}) as stream:
        events = stream.rest()
    check_order(events)
    assert set(events[0].data) >= {"thread_id", "run_id"}
    outcome = events[-1].data
    assert outcome["status"] == "done"
    assert outcome["run_id"] == events[0].data["run_id"]
    assert stream.text() == outcome["reply"]
    assert "token" in stream.kinds()
    assert owner.get(f"/runs/{outcome['run_id']}") == outcome


def test_tokens_reach_the_client_while_the_model_still_speaks(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    gate = fresh("gate")
    with owner.stream("POST", "/chat", {"message": f"[[hold {gate} 3]] [[say one two three four]]"}) as stream:
        seen = ""
        while seen != "one two three":
            seen += stream.until("token").data["text"]
        model.release(gate)
        assert stream.rest()[-1].data["reply"] == "one two three four"


def test_a_tool_shows_as_proposed_started_and_done(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    with owner.stream("POST", "/chat", {"message": call("note_line", text)}) as stream:
        events = stream.rest()
    check_order(events)
    tools = [event.data for event in events if event.event == "tool"]
    assert [tool["phase"] for tool in tools] == ["proposed", "started", "done"]
    for tool in tools:
        assert tool["tool"] == "note_line"
        assert tool["args"] == {"text": text}
        assert tool["verdict"] == "allow"
    assert len({tool["action_id"] for tool in tools}) == 1
    assert tools[0]["action_id"] == butler.workshop.effects(text)[0][0]
    assert f"wrote {text}" in json.dumps(tools[-1]["result"])


def test_a_failing_tool_shows_as_failed(butler: ButlerServer, owner: Client) -> None:
    with owner.stream("POST", "/chat", {"message": call("fail_line", fresh())}) as stream:
        events = stream.rest()
    phases = [event.data["phase"] for event in events if event.event == "tool"]
    assert phases == ["proposed", "started", "failed"]


def test_a_refused_tool_never_shows_as_started(butler: ButlerServer, owner: Client) -> None:
    with owner.stream("POST", "/chat", {"message": call("burn_line", fresh())}) as stream:
        events = stream.rest()
    tools = [event.data for event in events if event.event == "tool"]
    assert tools[0]["phase"] == "proposed"
    assert {tool["verdict"] for tool in tools} == {"refuse"}
    assert not {"started", "done"} & {tool["phase"] for tool in tools}


def test_a_park_streams_the_approval_and_ends_parked_and_the_resume_streams_the_rest(
    butler: ButlerServer, owner: Client
) -> None:
    text = fresh()
    with owner.stream("POST", "/chat", {"message": call("append_line", text)}) as stream:
        parked = stream.rest()
    check_order(parked)
    [shown] = [event.data for event in parked if event.event == "approval"]
    outcome = parked[-1].data
    assert outcome["status"] == "parked"
    assert outcome["approvals"] == [shown]
    assert owner.approval(shown["action_id"]) == shown
    path = f"/threads/{outcome['thread_id']}/resume"
    with owner.stream("POST", path, {"decisions": [approve(shown)]}) as stream:
        resumed = stream.rest()
    check_order(resumed)
    assert resumed[-1].data["status"] == "done"
    assert resumed[-1].data["run_id"] == outcome["run_id"]
    phases = [event.data["phase"] for event in resumed if event.event == "tool"]
    assert phases[-2:] == ["started", "done"]
    assert int(resumed[-1].id) > int(parked[-1].id)
    assert len(butler.workshop.effects(text)) == 1


def test_a_client_that_goes_away_cancels_nothing(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    message = f"[[hold {gate} 1]] [[say one two]] {call('note_line', gate)}"
    with owner.stream("POST", "/chat", {"message": message}) as stream:
        run = stream.until("run").data["run_id"]
        stream.until("token")
    model.release(gate)
    outcome = owner.when_run(run, "done")
    assert outcome["error"] is None
    assert len(butler.workshop.effects(gate)) == 1


def test_a_finished_run_can_be_read_again_from_any_event_on(butler: ButlerServer, owner: Client) -> None:
    with owner.stream("POST", "/chat", {"message": call("note_line", fresh())}) as stream:
        events = stream.rest()
    path = f"/runs/{events[0].data['run_id']}/events"
    with owner.stream("GET", path) as again:
        assert again.rest() == events
    middle = len(events) // 2
    with owner.stream("GET", path, **{"Last-Event-ID": events[middle].id}) as again:
        assert again.rest() == events[middle + 1 :]


def test_a_late_joiner_gets_what_it_missed_and_follows(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    gate = fresh("gate")
    started = owner.chat(f"[[hold {gate} 2]] [[say one two three]]", wait=False)
    wait_until(lambda: model.requests(gate), "the model is asked")
    with owner.stream("GET", f"/runs/{started['run_id']}/events") as stream:
        while stream.text() != "one two":
            stream.until("token")
        model.release(gate)
        events = stream.rest()
    check_order(events)
    assert stream.text() == "one two three"


def test_a_run_that_parked_is_replayed_with_one_end(butler: ButlerServer, owner: Client) -> None:
    parked = park(owner, fresh())
    done = owner.decided(parked["thread_id"], approve(parked["approvals"][0]))
    with owner.stream("GET", f"/runs/{done['run_id']}/events") as stream:
        events = stream.rest()
    check_order(events)
    assert events[-1].data["status"] == "done"


def test_a_parked_runs_events_end_parked(butler: ButlerServer, owner: Client) -> None:
    parked = park(owner, fresh())
    with owner.stream("GET", f"/runs/{parked['run_id']}/events") as stream:
        events = stream.rest()
    check_order(events)
    assert events[-1].data["status"] == "parked"


def test_a_bad_last_event_id_is_refused_or_read_from_the_start(butler: ButlerServer, owner: Client) -> None:
    run = owner.chat(fresh())["run_id"]
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "not-a-number"}
    response = owner.request("GET", f"/runs/{run}/events", headers=headers)
    assert response.status_code in (200, 422), response.text


def test_refusals_of_a_stream_request_are_plain_problems(butler: ButlerServer, owner: Client) -> None:
    headers = {"Accept": "text/event-stream"}
    empty = owner.request("POST", "/chat", json={"message": ""}, headers=headers)
    refused(empty, 422, "invalid_request")
    unknown = owner.request("POST", "/chat", json={"message": "x", "thread_id": "none"}, headers=headers)
    refused(unknown, 404, "not_found")
    refused(owner.request("GET", "/runs/none/events", headers=headers), 404, "not_found")


def test_a_command_streams_too(butler: ButlerServer, owner: Client) -> None:
    with owner.stream("POST", "/chat", {"message": "/help"}) as stream:
        events = stream.rest()
    check_order(events)
    assert events[-1].data["status"] == "done"


def test_hidden_model_calls_leak_no_token(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    for purpose in ("title", "compaction"):
        model.reply(purpose=purpose, text="HIDDEN words", times=0)
    with owner.stream("POST", "/chat", {"message": fresh()}) as stream:
        events = stream.rest()
    assert "HIDDEN" not in json.dumps([event.data for event in events if event.event != "run"])
    again = owner.chat("/compact", events[0].data["thread_id"])
    assert "HIDDEN" not in again["reply"]


def test_a_silent_stream_is_kept_alive(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    begun = time.monotonic()
    with owner.stream("POST", "/chat", {"message": f"[[hold {gate}]]"}) as stream:
        for line in stream.response.iter_lines():
            if line.startswith(":"):
                break
        assert time.monotonic() - begun < 25
        model.release(gate)


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/plain"])
def test_without_asking_for_a_stream_there_is_none(butler: ButlerServer, owner: Client, accept: str) -> None:
    response = owner.request("POST", "/chat", json={"message": fresh()}, headers={"Accept": accept})
    assert response.headers["content-type"].startswith("application/json")
    assert response.json()["status"] == "done"
