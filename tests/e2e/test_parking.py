"""A turn that waits for a person: what an Approval shows, and that nothing runs meanwhile."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from tests.support.client import Client, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

FIELDS = set(
    [
        "action_id",
        "code",
        "thread_id",
        "run_id",
        "tool",
        "args",
        "title",
        "reason",
        "rule",
        "risk",
        "fingerprint",
        "requested_by",
        "requested_at",
        "expires_at",
        "allowed_decisions",
        "status",
        "decision",
        "execution",
    ]
)


def test_an_approval_shows_the_whole_call_and_who_asked(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    outcome = park(owner, text)
    assert outcome["error"] is None
    [approval] = outcome["approvals"]
    assert set(approval) == FIELDS
    assert approval["thread_id"] == outcome["thread_id"]
    assert approval["run_id"] == outcome["run_id"]
    assert approval["tool"] == "append_line"
    assert approval["args"] == {"text": text}
    assert re.fullmatch(r"\S{4,8}", approval["code"])
    assert re.fullmatch(r"[0-9a-f]{64}", approval["fingerprint"])
    assert approval["rule"] == "default"
    assert approval["risk"] in ("safe", "dangerous", "cross_hub", "forbidden")
    assert approval["title"] and approval["reason"] and approval["requested_by"]
    assert sorted(approval["allowed_decisions"]) == ["approve", "edit", "reject", "respond"]
    assert approval["expires_at"] is None
    assert approval["status"] == "pending"
    assert approval["decision"] is None
    assert approval["execution"] == "none"
    asked = datetime.fromisoformat(approval["requested_at"].replace("Z", "+00:00"))
    assert asked.utcoffset() == timedelta(0)


def test_the_rule_that_asked_names_reason_and_risk(butler: ButlerServer, owner: Client) -> None:
    [approval] = owner.chat(call("delete_thing", target=fresh()))["approvals"]
    assert approval["rule"] == "deletes-need-an-admin"
    assert approval["reason"] == "Deleting cannot be undone"
    assert approval["risk"] == "dangerous"


def test_the_fingerprint_is_bound_to_tool_and_arguments_alone(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    first, second = park(owner, text)["approvals"][0], park(owner, text)["approvals"][0]
    other_text = park(owner, text + "!")["approvals"][0]
    other_tool = park(owner, text, tool="steady_line")["approvals"][0]
    assert first["fingerprint"] == second["fingerprint"]
    assert first["action_id"] != second["action_id"]
    assert first["code"] != second["code"]
    assert len({a["fingerprint"] for a in (first, other_text, other_tool)}) == 3


def test_nothing_runs_while_the_turn_is_parked(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    outcome = park(owner, text)
    thread = owner.get(f"/threads/{outcome['thread_id']}")
    assert (thread["status"], thread["pending"]) == ("parked", 1)
    assert owner.get(f"/runs/{outcome['run_id']}")["status"] == "parked"
    assert len(model.requests(text)) == 1
    assert butler.workshop.effects(text) == []


def test_text_beside_the_calls_is_kept(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    text = fresh()
    outcome = owner.chat(f"[[say I will ask first]] {call('append_line', text)}")
    assert outcome["status"] == "parked"
    assert ("assistant", "I will ask first") in owner.transcript(outcome["thread_id"])


def test_pending_approvals_are_listed_by_thread_and_status(butler: ButlerServer, owner: Client) -> None:
    outcome = park(owner, fresh("a"), fresh("b"))
    thread = outcome["thread_id"]
    ids = [approval["action_id"] for approval in outcome["approvals"]]
    assert sorted(a["action_id"] for a in owner.approvals(thread)) == sorted(ids)
    owner.decided(thread, approve(outcome["approvals"][0]))
    assert [a["action_id"] for a in owner.approvals(thread)] == [ids[1]]
    assert [a["action_id"] for a in owner.approvals(thread, "approved")] == [ids[0]]
    assert sorted(a["action_id"] for a in owner.approvals(thread, None)) == sorted(ids)


def test_the_list_of_approvals_comes_in_pages(butler: ButlerServer, owner: Client) -> None:
    outcome = park(owner, *(fresh(str(n)) for n in range(5)))
    seen: list[str] = []
    cursor = None
    for _ in range(5):
        params = {"thread_id": outcome["thread_id"], "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = owner.get("/approvals", **params)
        assert len(page["items"]) <= 2
        seen += [item["action_id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(a["action_id"] for a in outcome["approvals"])


def test_an_unknown_approval_is_not_found(butler: ButlerServer, owner: Client) -> None:
    refused(owner.request("GET", "/approvals/no-such-action"), 404, "not_found")
    refused(owner.post("/approvals/no-such-action", {"decision": "approve"}), 404, "not_found")


def test_queries_out_of_range_are_refused(butler: ButlerServer, owner: Client) -> None:
    for query in ("limit=0", "limit=-1", "limit=many", "status=open", "cursor=@@@"):
        refused(owner.request("GET", f"/approvals?{query}"), 422, "invalid_request")
