"""Decisions on many actions at once: each on its own, one result each, every thread woken once (issue 3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.server import ButlerServer


def decide(client: Client, *decisions: Json) -> list[Json]:
    response = client.post("/approvals", {"decisions": list(decisions)})
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


def test_each_has_a_result_of_its_own_in_order(butler: ButlerServer, owner: Client, member: Client) -> None:
    texts = [fresh(f"many{number}") for number in range(4)]
    mine, two = park(owner, texts[0]), park(owner, texts[1], texts[2])
    theirs = park(member, texts[3])
    actions = [*mine["approvals"], *two["approvals"], *theirs["approvals"]]
    gone = {"action_id": "no-such-action", "decision": "approve"}
    answers = decide(
        owner,
        {"action_id": actions[0]["action_id"], "decision": "approve", "grant": {"scope": "thread"}},
        {"code": actions[1]["code"], "decision": "reject", "reason": "no"},
        gone,
        {"action_id": actions[2]["action_id"], "decision": "approve", "fingerprint": "0" * 64},
        {"action_id": actions[3]["action_id"], "decision": "edit", "args": {"text": 5}},
        {"action_id": actions[0]["action_id"], "decision": "approve"},
        {"action_id": actions[2]["action_id"], "decision": "approve"},
        {"code": actions[1]["code"], "decision": "approve"},
    )
    assert [one["ok"] for one in answers] == [True, True, False, False, False, False, True, False]
    assert [one["error"]["code"] for one in answers if not one["ok"]] == [
        "not_found", "stale_decision", "invalid_request", "already_decided", "not_found",
    ]  # fmt: skip
    assert answers[0]["grant"]["args"] == {"text": texts[0]}
    assert answers[0]["approval"]["status"] == "approved" and answers[0]["run_id"] == mine["run_id"]
    assert answers[2]["action_id"] == "no-such-action" and answers[7]["code"] == actions[1]["code"]
    assert answers[5]["error"]["decision"]["by"] == answers[0]["approval"]["decision"]["by"]
    owner.when_run(mine["run_id"], "done")
    owner.when_run(two["run_id"], "done")
    done = [len(butler.workshop.effects(text)) for text in texts]
    assert done == [1, 0, 1, 0]
    assert owner.approval(actions[3]["action_id"])["status"] == "pending"


def test_a_member_decides_only_its_own_part(butler: ButlerServer, owner: Client, member: Client) -> None:
    mine, theirs = park(member, fresh()), park(owner, fresh())
    draft = member.chat(call("delete_thing", target=fresh("draft")))
    answers = decide(
        member,
        *({"action_id": one["approvals"][0]["action_id"], "decision": "approve"} for one in (mine, theirs, draft)),
    )
    assert [one["ok"] or one["error"]["code"] for one in answers] == ["not_an_approver", "not_found", True]
    rows = owner.get("/audit", limit=1000)["items"]
    refusals = [row["data"]["code"] for row in rows if row["event"] == "attempt_refused"]
    assert refusals[-2:] == ["not_an_approver", "not_found"]
    member.when_run(draft["run_id"], "done")


def test_of_several_decisions_at_once_only_those_that_are_not_theirs_count_as_refused_attempts(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    both = member.chat(call("append_line", fresh()) + call("delete_thing", target=fresh("draft")))
    by_tool = {one["tool"]: one for one in both["approvals"]}
    refused(member.resume(both["thread_id"], *map(approve, both["approvals"])), 403, "not_an_approver")
    rows = owner.get("/audit", thread_id=both["thread_id"], event="attempt_refused")["items"]
    assert [row["action_id"] for row in rows] == [by_tool["append_line"]["action_id"]]


@pytest.mark.parametrize(
    "decisions",
    [
        [], None, {}, "approve", [{}], [None], [{"decision": "approve"}], [{"action_id": "a", "code": "b"}],
        [{"action_id": "<id>", "decision": "approve"}, {"action_id": "x", "decision": "maybe"}],
        [{"action_id": "<id>", "decision": "approve"}, {"action_id": "x", "decision": "edit"}],
        [{"action_id": "<id>", "decision": "approve", "colour": "red"}],
        [{"action_id": "<id>", "type": "approve"}],
        [{"action_id": "<id>", "decision": "approve"}] * 201,
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_a_malformed_body_decides_nothing(butler: ButlerServer, owner: Client, decisions: Any) -> None:
    [action] = park(owner, fresh())["approvals"]
    text = action["action_id"]
    if isinstance(decisions, list):
        decisions = [
            {**one, "action_id": text} if isinstance(one, dict) and one.get("action_id") == "<id>" else one
            for one in decisions
        ]
    refused(owner.post("/approvals", {"decisions": decisions}), 422, "invalid_request")
    assert owner.approval(action["action_id"]) == action


def test_two_hundred_over_many_threads_run_once_each(butler: ButlerServer, owner: Client) -> None:
    texts = [[fresh("bulk") for _ in range(10)] for _ in range(4)]
    parked = [park(owner, *group) for group in texts]
    decisions = [
        {"action_id": action["action_id"], "decision": "approve", "fingerprint": action["fingerprint"]}
        for outcome in parked
        for action in outcome["approvals"]
    ]
    assert all(one["ok"] for one in decide(owner, *decisions))
    for outcome in parked:
        owner.when_run(outcome["run_id"], "done", seconds=60)
    assert all(len(butler.workshop.effects(text)) == 1 for group in texts for text in group)


def test_several_codes_in_chat(butler: ButlerServer, owner: Client) -> None:
    texts = [fresh("codes") for _ in range(3)]
    parked = [park(owner, text) for text in texts]
    codes = [outcome["approvals"][0]["code"] for outcome in parked]
    wrong = owner.chat(f"/approve {codes[0]} never {codes[1]}")
    assert (wrong["status"], wrong["error"]["code"]) == ("failed", "not_found")
    said = owner.chat(f"/approve {codes[0]} {codes[1].lower()}")
    assert said["status"] == "done" and said["reply"].count("Approved:") == 2
    for outcome in parked[:2]:
        owner.when_run(outcome["run_id"], "done")
    assert [len(butler.workshop.effects(text)) for text in texts] == [1, 1, 0]


def test_edit_and_respond_in_chat(butler: ButlerServer, owner: Client) -> None:
    first, second, changed = fresh("a"), fresh("b"), fresh("changed")
    parked = park(owner, first, second)
    codes = [action["code"] for action in parked["approvals"]]
    assert owner.chat(f"/edit {codes[0]}")["error"]["code"] == "invalid_request"
    assert owner.chat(f"/respond {codes[0]}")["error"]["code"] == "invalid_request"
    assert owner.chat(f"/edit {codes[0]} txt=x")["error"]["code"] == "invalid_request"
    owner.chat(f"/edit {codes[0]} text={changed}", parked["thread_id"])
    owner.chat(f"/respond {codes[1]} written by hand", parked["thread_id"])
    owner.when_run(parked["run_id"], "done")
    assert [len(butler.workshop.effects(text)) for text in (first, second, changed)] == [0, 0, 1]
    decided = [owner.approval(action["action_id"])["decision"] for action in parked["approvals"]]
    assert [one["decision"] for one in decided] == ["edit", "respond"]


def test_an_unconfirmed_grant_among_many_says_what_it_would_have_covered(butler: ButlerServer, owner: Client) -> None:
    [one] = park(owner, fresh("unconfirmed"))["approvals"]
    [answer] = decide(owner, approve(one, grant={"scope": "everyone"}))
    assert (answer["ok"], answer["error"]["needs"]) == (False, ["confirm"])
    assert answer["error"]["preview"]["grant"]["scope"] == "everyone"
    assert owner.approval(one["action_id"])["status"] == "pending"
