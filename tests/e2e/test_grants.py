"""Grants: an approve that lets later calls of the tool pass without asking."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.support.client import Client, Json
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
    wait_until(lambda: datetime.now(UTC) > end, "its time has passed", 5)
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
