"""Grants: an approve that lets later calls of the tool pass without asking."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.server import ButlerServer


def granted(client: Client, text: str, tool: str = "append_line", **grant: Any) -> tuple[str, Json]:
    """Park and approve with a grant; gives the thread and the grant as listed."""
    known = {item["grant_id"] for item in client.get("/grants")["items"]}
    parked = park(client, text, tool=tool)
    assert client.decided(parked["thread_id"], approve(parked["approvals"][0], grant=grant))["status"] == "done"
    [made] = [item for item in client.get("/grants")["items"] if item["grant_id"] not in known]
    return parked["thread_id"], made


def test_a_grant_shows_what_it_allows(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("shown")
    _, grant = granted(owner, f"{prefix} 1", scope="thread", args={"text": f"{prefix}*"}, expires_in=60, uses=3)
    assert set(grant) >= {"grant_id", "tool", "scope", "args", "expires_at", "uses_left", "by"}
    assert grant["tool"] == "append_line"
    assert grant["scope"] == "thread"
    assert grant["args"] == {"text": f"{prefix}*"}
    assert grant["uses_left"] == 3
    assert grant["by"] and grant["expires_at"]


def test_in_its_thread_later_calls_pass_and_in_others_they_ask(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("thread")
    thread, _ = granted(owner, f"{prefix} 1", scope="thread", args={"text": f"{prefix}*"})
    assert owner.chat(call("append_line", f"{prefix} 2"), thread)["status"] == "done"
    assert len(butler.workshop.effects(f"{prefix} 2")) == 1
    assert owner.chat(call("append_line", fresh("other")), thread)["status"] == "parked"
    assert owner.chat(call("append_line", f"{prefix} 3"))["status"] == "parked"


def test_a_users_grant_holds_in_all_their_threads_and_for_nobody_else(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    prefix = fresh("user")
    granted(owner, f"{prefix} 1", scope="user", args={"text": f"{prefix}*"})
    assert owner.chat(call("append_line", f"{prefix} 2"))["status"] == "done"
    assert member.chat(call("append_line", f"{prefix} 3"))["status"] == "parked"


def test_a_grant_for_everyone_holds_for_everyone(butler: ButlerServer, owner: Client, member: Client) -> None:
    prefix = fresh("all")
    granted(owner, f"{prefix} 1", scope="everyone", args={"text": f"{prefix}*"}, confirm=True)
    assert member.chat(call("append_line", f"{prefix} 2"))["status"] == "done"


def test_uses_run_out(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("uses")
    thread, _ = granted(owner, f"{prefix} 1", scope="thread", args={"text": f"{prefix}*"}, uses=2)
    again = "".join(call("append_line", f"{prefix} {n}") for n in (2, 3, 4))
    outcome = owner.chat(again, thread)
    assert outcome["status"] == "parked"
    assert len(outcome["approvals"]) == 1
    done = [text for _, text in butler.workshop.effects() if text.startswith(prefix)]
    assert len(done) == 3


def test_a_grant_expires(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("brief")
    thread, grant = granted(owner, f"{prefix} 1", scope="thread", args={"text": f"{prefix}*"}, expires_in=1)
    end = datetime.fromisoformat(grant["expires_at"].replace("Z", "+00:00"))
    wait_until(lambda: datetime.now(UTC) > end, "its time has passed")
    assert owner.chat(call("append_line", f"{prefix} 2"), thread)["status"] == "parked"


def test_a_grant_taken_back_no_longer_counts(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("back")
    thread, grant = granted(owner, f"{prefix} 1", scope="thread", args={"text": f"{prefix}*"})
    assert owner.request("DELETE", f"/grants/{grant['grant_id']}").status_code in (200, 204)
    assert grant["grant_id"] not in [item["grant_id"] for item in owner.get("/grants")["items"]]
    assert owner.chat(call("append_line", f"{prefix} 2"), thread)["status"] == "parked"
    assert owner.request("DELETE", f"/grants/{grant['grant_id']}").status_code == 404


def test_a_refuse_rule_beats_a_grant(butler: ButlerServer, owner: Client) -> None:
    parked = owner.chat(call("delete_thing", target=fresh("test")))
    [action] = parked["approvals"]
    owner.resume(parked["thread_id"], approve(action, grant={"scope": "everyone", "args": {}, "confirm": True}))
    owner.when_status(parked["thread_id"], "idle")
    target = fresh("prod")
    outcome = owner.chat(call("delete_thing", target=target), parked["thread_id"])
    assert (outcome["status"], outcome["approvals"]) == ("done", [])
    assert butler.workshop.effects(target) == []


def test_a_rule_that_asks_is_asked_before_grants(butler: ButlerServer, owner: Client) -> None:
    parked = owner.chat(call("delete_thing", target=fresh("test")))
    [action] = parked["approvals"]
    owner.resume(parked["thread_id"], approve(action, grant={"scope": "thread", "args": {"target": "test-*"}}))
    owner.when_status(parked["thread_id"], "idle")
    assert owner.chat(call("delete_thing", target=fresh("test")), parked["thread_id"])["status"] == "parked"


def test_a_member_can_neither_grant_nor_take_back(butler: ButlerServer, owner: Client, member: Client) -> None:
    prefix = fresh("owners")
    _, grant = granted(owner, f"{prefix} 1", scope="everyone", args={"text": f"{prefix}*"}, confirm=True)
    assert member.request("DELETE", f"/grants/{grant['grant_id']}").status_code in (403, 404)
    assert grant["grant_id"] in [item["grant_id"] for item in owner.get("/grants")["items"]]


def test_before_granting_one_sees_proposals_and_what_they_would_have_covered(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    prefix = fresh("seen")
    for number in (1, 2):
        owner.chat(call("append_line", f"{prefix} {number}"))
    member.chat(call("append_line", f"{prefix} 3"))
    [action] = park(owner, f"{prefix} 4")["approvals"]
    path = f"/approvals/{action['action_id']}/grant"
    offers = owner.get(path)
    assert offers["proposals"][0]["args"] == action["args"]
    assert offers["proposals"][0]["closed"] is True
    assert set(offers["proposals"][0]["covers"]) == set(offers["proposals"][0]["scopes"]) >= {"everyone"}
    wish = {"scope": "user", "args": {"text": f"{prefix} *"}, "uses": 3}
    look = owner.post(path, wish).json()
    assert (look["wide"], look["needs"], look["note"]) == (False, [], None)
    assert look["covered"]["total"] == len(look["covered"]["items"]) == 2
    assert look["grant"]["uses_left"] == 3 and "grant_id" not in look["grant"]
    assert owner.post(path, {**wish, "scope": "everyone"}).json()["covered"]["total"] == 3
    assert prefix not in str(owner.get("/grants"))
    assert owner.approval(action["action_id"]) == action
    refused(owner.post(path, {**wish, "args": {"text": "other *"}}), 422, "invalid_request")
    refused(owner.post(path, {**wish, "confirm": True}), 422, "invalid_request")
    refused(member.request("GET", path), 404, "not_found")


def test_a_wide_grant_is_refused_with_its_preview_until_it_is_confirmed(butler: ButlerServer, owner: Client) -> None:
    text = fresh("wide")
    parked = park(owner, text)
    [action] = parked["approvals"]
    for grant in ({"scope": "everyone"}, {"scope": "thread", "args": {}}, {"scope": "user", "args": {"text": "*"}}):
        body = {"decision": "approve", "grant": grant}
        problem = refused(owner.post(f"/approvals/{action['action_id']}", body), 422, "invalid_request")
        assert problem["needs"] == ["confirm"] and problem["preview"]["covered"]["looked_at"] >= 0
    assert owner.approval(action["action_id"]) == action
    wish = {"scope": "everyone", "confirm": True, "uses": 1}
    answer = owner.post(f"/approvals/{action['action_id']}", {"decision": "approve", "grant": wish}).json()
    assert (answer["grant"]["args"], answer["grant"]["closed"]) == ({"text": text}, True)
    assert answer["grant"]["action_id"] == action["action_id"]
    owner.when_run(parked["run_id"], "done")


def test_the_run_says_what_was_granted_and_when_a_rule_asks_all_the_same(butler: ButlerServer, owner: Client) -> None:
    parked = owner.chat(call("delete_thing", target=fresh("test")))
    wish = {"scope": "thread", "args": {"target": "test-*"}}
    body = {"decisions": [approve(parked["approvals"][0], grant=wish)]}
    with owner.stream("POST", f"/threads/{parked['thread_id']}/resume", body) as stream:
        events = list(stream)
    notices = [one.data["text"] for one in events if one.event == "notice"]
    assert any("Granted in this thread" in text and "'deletes-need-an-admin'" in text for text in notices)


def test_grants_that_count_no_more_are_listed_with_their_state(butler: ButlerServer, owner: Client) -> None:
    prefix = fresh("states")
    thread, once = granted(owner, f"{prefix} 1", scope="thread", args={"text": f"{prefix}*"}, uses=1)
    owner.chat(call("append_line", f"{prefix} 2"), thread)
    _, back = granted(owner, f"{prefix}-b", scope="thread")
    owner.request("DELETE", f"/grants/{back['grant_id']}")
    states = {item["grant_id"]: item["state"] for item in owner.get("/grants", all="true")["items"]}
    assert (states[once["grant_id"]], states[back["grant_id"]]) == ("used_up", "revoked")
    assert once["state"] == "live"
    assert {item["state"] for item in owner.get("/grants")["items"]} <= {"live"}


def test_an_attempt_on_somebody_elses_grant_is_in_the_audit(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    _, grant = granted(owner, fresh("theirs"), scope="thread")
    refused(member.request("DELETE", f"/grants/{grant['grant_id']}"), 404, "not_found")
    rows = owner.get("/audit", limit=1000)["items"]
    [refusal] = [row for row in rows if row["data"].get("grant_id") == grant["grant_id"]]
    assert (refusal["event"], refusal["actor"]) == ("attempt_refused", "mia")


def test_who_looks_at_what_may_be_granted_was_shown_the_call(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    for method, body in (("GET", None), ("POST", {"scope": "thread"})):
        [action] = park(member, fresh())["approvals"]
        owner.request(method, f"/approvals/{action['action_id']}/grant", json=body)
        wait_until(partial(was_shown, owner, action), f"the audit says so after {method}")


def was_shown(owner: Client, action: Json) -> bool:
    """Whether the audit names the owner among those who were shown the action."""
    rows = owner.get("/audit", action_id=action["action_id"], event="shown")["items"]
    return "owner" in [row["actor"] for row in rows]


def test_deleting_a_thread_ends_its_grants_which_its_owner_has_seen(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    one = park(member, fresh("short-lived"))["approvals"][0]
    wish = {"decision": "approve", "grant": {"scope": "thread"}}
    grant = owner.post(f"/approvals/{one['action_id']}", wish).json()["grant"]
    assert grant["grant_id"] in {item["grant_id"] for item in member.get("/grants")["items"]}
    member.when_status(one["thread_id"], "idle")
    assert member.request("DELETE", f"/threads/{one['thread_id']}").status_code == 204
    assert grant["grant_id"] not in {item["grant_id"] for item in owner.get("/grants")["items"]}
    [ended] = [item for item in owner.get("/grants", all="true")["items"] if item["grant_id"] == grant["grant_id"]]
    assert (ended["state"], ended["revoked_by"]) == ("revoked", "mia")
