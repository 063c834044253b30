"""SIGKILL from outside at awkward moments: what was accepted is there afterwards, in order, once."""

from __future__ import annotations

from tests.support.client import Client
from tests.support.crash import settle
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import MakeButler

GIVE_UP = {"decision": "reject", "reason": "nobody knows"}


def answered(owner: Client, thread: str) -> list[tuple[str, str]]:
    """The transcript without empty texts, once the thread is idle."""
    owner.when_status(thread, "idle")
    return [(role, text) for role, text in owner.transcript(thread) if text]


def test_a_message_accepted_a_moment_before_the_kill_is_answered_after_it(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    texts = [f"[[say answer {n}]] {fresh()}" for n in range(5)]
    accepted = [owner.chat(text, wait=False) for text in texts]
    server.restart()
    for n, (text, started) in enumerate(zip(texts, accepted, strict=True)):
        owner.when_run(started["run_id"], "done")
        assert answered(owner, started["thread_id"]) == [("user", text), ("assistant", f"answer {n}")]


def test_a_message_is_accepted_with_the_first_event_of_its_stream(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler().start()
    owner = server.client()
    gate = fresh("gate")
    message = f"[[hold {gate}]] [[say after all]]"
    with owner.stream("POST", "/chat", {"message": message}) as stream:
        thread = next(iter(stream)).data["thread_id"]
        server.kill()
    model.release(gate)
    server.start()
    assert answered(owner, thread) == [("user", message), ("assistant", "after all")]


def test_a_turn_killed_in_the_middle_of_its_answer_is_answered_whole_and_once(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler().start()
    owner = server.client()
    gate = fresh("gate")
    message = f"[[hold {gate} 2]] [[say one two three]]"
    with owner.stream("POST", "/chat", {"message": message}) as stream:
        run = stream.until("run").data
        while stream.text() != "one two":
            stream.until("token")
        server.kill()
    model.release(gate)
    server.start()
    assert owner.when_run(run["run_id"], "done")["reply"] == "one two three"
    assert answered(owner, run["thread_id"]) == [("user", message), ("assistant", "one two three")]


def test_parked_and_queued_survive_the_kill_unchanged(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    one, two = fresh("one"), fresh("two")
    parked = park(owner, one, two)
    thread = parked["thread_id"]
    later = [f"[[say later {n}]] {fresh()}" for n in range(3)]
    runs = [owner.chat(text, thread)["run_id"] for text in later]
    before = owner.approvals(thread)
    server.restart()
    assert owner.get(f"/threads/{thread}")["status"] == "parked"
    assert owner.approvals(thread) == before
    assert [owner.get(f"/runs/{run}")["status"] for run in runs] == ["queued"] * 3
    owner.decided(thread, approve(parked["approvals"][0]))
    server.restart()
    assert [a["action_id"] for a in owner.approvals(thread)] == [parked["approvals"][1]["action_id"]]
    owner.decided(thread, approve(parked["approvals"][1]))
    owner.when_run(runs[-1], "done")
    talk = answered(owner, thread)
    assert [text for role, text in talk if role == "user"][1:] == later
    assert [text for role, text in talk if role == "assistant"][-3:] == ["later 0", "later 1", "later 2"]
    assert len(server.workshop.effects(one)) == len(server.workshop.effects(two)) == 1


def test_messages_queued_behind_a_running_turn_survive_the_kill(make_butler: MakeButler, model: ScriptedModel) -> None:
    server = make_butler().start()
    owner = server.client()
    gate = fresh("gate")
    started = owner.chat(f"[[hold {gate}]] [[say answer 0]]", wait=False)
    wait_until(lambda: model.requests(gate), "the model is asked")
    later = [f"[[say answer {n}]] {fresh()}" for n in range(1, 8)]
    runs = [owner.chat(text, started["thread_id"])["run_id"] for text in later]
    server.kill()
    model.release(gate)
    server.start()
    owner.when_run(runs[-1], "done")
    talk = answered(owner, started["thread_id"])
    assert [text for role, text in talk if role == "user"][1:] == later
    assert [text for role, text in talk if role == "assistant"] == [f"answer {n}" for n in range(8)]


def test_a_call_killed_while_it_ran_is_unknown_and_never_repeated(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    text = fresh()
    started = owner.chat(call("slow_note", text), wait=False)
    wait_until(lambda: server.workshop.begun(text), "the tool runs")
    server.restart()
    owner.when_run(started["run_id"], "parked")
    assert settle(owner, started["thread_id"], GIVE_UP) == ["unknown"]
    assert len(server.workshop.begun(text)) == 1, "it ran once"
    assert server.workshop.effects(text) == [], "what the dead server left running was ended"
    assert owner.chat(fresh(), started["thread_id"])["status"] == "done"


def test_a_run_that_was_done_stays_as_it_was(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    outcome = owner.chat(fresh())
    talk = owner.transcript(outcome["thread_id"])
    server.restart()
    assert owner.get(f"/runs/{outcome['run_id']}") == outcome
    assert owner.transcript(outcome["thread_id"]) == talk
    with owner.stream("GET", f"/runs/{outcome['run_id']}/events") as stream:
        assert stream.rest()[-1].data == outcome


def test_decided_actions_and_grants_survive(make_butler: MakeButler) -> None:
    server = make_butler().start()
    owner = server.client()
    prefix = fresh()
    parked = park(owner, f"{prefix} 1")
    [action] = parked["approvals"]
    owner.decided(parked["thread_id"], approve(action, grant={"scope": "thread", "args": {"text": f"{prefix} *"}}))
    decided, grants = owner.approval(action["action_id"]), owner.get("/grants")["items"]
    server.restart()
    assert owner.approval(action["action_id"]) == decided
    assert owner.get("/grants")["items"] == grants
    assert len(grants) == 1
    assert owner.chat(call("append_line", f"{prefix} 2"), parked["thread_id"])["status"] == "done"
