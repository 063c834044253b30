"""SIGKILL at every named point: nothing accepted is lost, and no effect happens twice by itself."""

from __future__ import annotations

import pytest

from tests.support.client import Client, Json
from tests.support.crash import POINTS, crash, settle
from tests.support.orders import approve, call, fresh
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler

BY_HAND: Json = {"decision": "respond", "response": "looked after by hand"}

# What an approved call needs after the restart: who is asked (by execution), and how often it ran in the end.
# `resume_after` is met first on the way to the park and again after the decision (`:2`).
APPROVED: dict[str, tuple[list[str], int]] = {
    "accept_before_commit": (["none"], 1),
    "accept_after_commit": (["none"], 1),
    "park_before": (["none"], 1),
    "park_after": (["none"], 1),
    "decision_before": (["none"], 1),
    "decision_after": ([], 1),
    "resume_before": ([], 1),
    "resume_after": (["none"], 1),
    "resume_after:2": ([], 1),
    "started_before": ([], 1),
    "started_after": (["unknown"], 0),
    "effect_after": (["unknown"], 1),
    "done_after": ([], 1),
    "finish_before": ([], 1),
    "finish_after": ([], 1),
}

# The same for a call that policy allows.
ALLOWED: dict[str, tuple[list[str], int]] = {
    "started_before": ([], 1),
    "started_after": (["unknown"], 0),
    "effect_after": (["unknown"], 1),
    "done_after": ([], 1),
}


def the_thread(owner: Client, message: str) -> str:
    """The only thread; if the crash came before the message was accepted, say it again."""
    threads = owner.get("/threads")["items"]
    if not threads:
        started: str = owner.chat(message, wait=False)["thread_id"]
        return started
    [thread] = threads
    found: str = thread["thread_id"]
    return found


def check_whole(owner: Client, thread: str, message: str) -> None:
    """The thread holds the message once and one answer to it, and the talk goes on."""
    talk = [(role, text) for role, text in owner.transcript(thread) if text]
    assert [role for role, _ in talk] == ["user", "assistant"], talk
    assert talk[0] == ("user", message)
    assert talk[1][1].startswith("done: ")
    assert owner.approvals(thread) == []
    assert owner.chat(fresh(), thread)["status"] == "done"


def test_the_table_names_every_point() -> None:
    assert {point.partition(":")[0] for point in APPROVED} == set(POINTS)


@pytest.mark.parametrize("point", list(APPROVED))
def test_a_governed_call_survives_death_at(make_butler: MakeButler, point: str) -> None:
    server = make_butler()
    text = fresh()
    message = call("append_line", text)
    accepted: list[Json] = []
    decided: list[Json] = []

    def talk(owner: Client) -> None:
        accepted.append(owner.chat(message, wait=False))
        parked = owner.when_run(accepted[0]["run_id"], "parked")
        decided.append(owner.decided(parked["thread_id"], approve(parked["approvals"][0])))
        owner.when_status(parked["thread_id"], "idle")

    crash(server, point, talk)
    owner = server.start().client()
    if accepted:
        assert owner.get(f"/threads/{accepted[0]['thread_id']}")
    if point == "accept_before_commit":
        assert not accepted
    thread = the_thread(owner, message)
    asked, effects = APPROVED[point]
    assert settle(owner, thread, BY_HAND) == asked
    assert len(server.workshop.effects(text)) == effects
    check_whole(owner, thread, message)
    [action] = owner.approvals(thread, None)
    assert action["status"] == "approved"
    assert action["execution"] == "done"


@pytest.mark.parametrize("point", list(ALLOWED))
def test_an_allowed_call_survives_death_at(make_butler: MakeButler, point: str) -> None:
    server = make_butler()
    text = fresh()
    message = call("note_line", text)
    crash(server, point, lambda owner: owner.chat(message))
    owner = server.start().client()
    thread = the_thread(owner, message)
    asked, effects = ALLOWED[point]
    assert settle(owner, thread, BY_HAND) == asked
    assert len(server.workshop.effects(text)) == effects
    check_whole(owner, thread, message)


@pytest.mark.parametrize(
    ("tool", "point", "times"),
    [
        ("steady_note", "started_after", 1),
        ("steady_note", "effect_after", 2),
        ("steady_line", "started_after", 1),
        ("steady_line", "effect_after", 2),
    ],
)
def test_an_idempotent_call_is_repeated_with_the_same_key_and_nobody_is_asked_again(
    make_butler: MakeButler, point: str, times: int, tool: str
) -> None:
    server = make_butler()
    text = fresh()
    message = call(tool, text)

    def talk(owner: Client) -> None:
        outcome = owner.chat(message)
        for action in outcome["approvals"]:
            owner.decided(outcome["thread_id"], approve(action))

    crash(server, point, talk)
    owner = server.start().client()
    thread = the_thread(owner, message)
    assert settle(owner, thread, BY_HAND) == []
    effects = server.workshop.effects(text)
    assert len(effects) == times
    assert len(set(effects)) == 1, "every repetition carries the same action id"
    check_whole(owner, thread, message)


def unknown_action(server: ButlerServer, owner: Client, message: str) -> Json:
    """The action that a crash left unknown, checked for what it shows."""
    thread = the_thread(owner, message)
    assert owner.when_status(thread, "parked")["pending"] == 1
    [action] = owner.approvals(thread)
    assert (action["status"], action["execution"]) == ("pending", "unknown")
    assert set(action["allowed_decisions"]) >= {"approve", "respond", "reject"}
    return action


@pytest.mark.parametrize(
    ("decision", "effects"),
    [("approve", 2), ("respond", 1), ("reject", 1)],
    ids=["approve", "respond", "reject"],
)
def test_an_unknown_action_is_decided_by_a_person(
    make_butler: MakeButler, model: ScriptedModel, decision: str, effects: int
) -> None:
    server = make_butler()
    text = fresh()
    message = call("note_line", text)
    crash(server, "effect_after", lambda owner: owner.chat(message))
    owner = server.start().client()
    action = unknown_action(server, owner, message)
    assert len(server.workshop.effects(text)) == 1, "it is not repeated by itself"
    more = {"respond": {"response": "it is in the journal"}, "reject": {"reason": "given up"}}.get(decision, {})
    outcome = owner.decided(action["thread_id"], {"action_id": action["action_id"], "decision": decision, **more})
    assert outcome["status"] == "done"
    assert len(server.workshop.effects(text)) == effects
    told = {"approve": f"wrote {text}", "respond": "it is in the journal", "reject": "given up"}[decision]
    assert told in outcome["reply"]
    check_whole(owner, action["thread_id"], message)


def test_an_unknown_action_stays_unknown_over_further_restarts(make_butler: MakeButler) -> None:
    server = make_butler()
    text = fresh()
    message = call("append_line", text)

    def talk(owner: Client) -> None:
        parked = owner.chat(message)
        owner.decided(parked["thread_id"], approve(parked["approvals"][0]))

    crash(server, "effect_after", talk)
    first = unknown_action(server, server.start().client(), message)
    server.kill()
    owner = server.start().client()
    second = unknown_action(server, owner, message)
    assert second["action_id"] == first["action_id"]
    assert len(server.workshop.effects(text)) == 1
    assert settle(owner, second["thread_id"], BY_HAND) == ["unknown"]
    check_whole(owner, second["thread_id"], message)


def test_death_during_the_recovery_from_a_death_changes_nothing(make_butler: MakeButler) -> None:
    server = make_butler()
    text = fresh()
    message = call("append_line", text)

    def talk(owner: Client) -> None:
        parked = owner.chat(message)
        owner.decided(parked["thread_id"], approve(parked["approvals"][0]))

    crash(server, "decision_after", talk)
    server.launch(BUTLER_CRASH_AT="started_before")
    assert server.process is not None and server.process.stdout is not None
    with server.process.stdout:
        assert server.died() == -9
    owner = server.start().client()
    thread = the_thread(owner, message)
    assert settle(owner, thread, BY_HAND) == []
    assert len(server.workshop.effects(text)) == 1
    check_whole(owner, thread, message)


def test_of_two_running_calls_each_is_asked_about_alone(make_butler: MakeButler) -> None:
    server = make_butler()
    one, two = fresh("one"), fresh("two")
    message = call("note_line", one) + call("append_line", two)
    crash(server, "effect_after", lambda owner: owner.chat(message))
    owner = server.start().client()
    thread = the_thread(owner, message)
    owner.when_status(thread, "parked")
    executions = {a["args"]["text"]: a["execution"] for a in owner.approvals(thread)}
    assert executions == {one: "unknown", two: "none"}
    assert sorted(settle(owner, thread, BY_HAND)) == ["none", "unknown"]
    assert len(server.workshop.effects(one)) == len(server.workshop.effects(two)) == 1
    check_whole(owner, thread, message)
