"""A tool that is defined anew: its grants end, and what was approved for the old definition is asked again (A7, E3)."""

from __future__ import annotations

from typing import Any

from tests.support.client import Client, Json
from tests.support.orders import approve, call, fresh, park
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler
from tests.support.workshop import standard_tools, tool


def redefine(server: ButlerServer, *names: str, **changes: Any) -> None:
    """Write tools.yml with other definitions of these tools."""
    others = [one for one in standard_tools() if one["name"] not in names]
    changed = [one | changes for one in standard_tools() if one["name"] in names]
    server.workshop.write_tools(*others, *changed)


def grants(client: Client, **params: Any) -> list[Json]:
    items: list[Json] = client.get("/grants", **params)["items"]
    return items


def test_a_grant_is_void_after_a_restart_with_another_definition(make_butler: MakeButler, model: ScriptedModel) -> None:
    server = make_butler().start()
    owner = server.client()
    prefix = fresh("granted")
    parked = park(owner, f"{prefix} 1")
    wish = {"scope": "user", "args": {"text": f"{prefix} *"}}
    answer = owner.post(f"/approvals/{parked['approvals'][0]['action_id']}", {"decision": "approve", "grant": wish})
    assert answer.json()["grant"]["note"] is None
    owner.when_run(parked["run_id"], "done")
    assert owner.chat(call("append_line", f"{prefix} 2"))["status"] == "done"
    server.restart()
    assert owner.chat(call("append_line", f"{prefix} 3"))["status"] == "done"

    redefine(server, "append_line", timeout=7)
    server.restart()
    assert owner.chat(call("append_line", f"{prefix} 4"))["status"] == "parked"
    assert grants(owner) == []
    [ended] = grants(owner, all="true")
    assert ended["state"] == "void"
    assert owner.request("DELETE", f"/grants/{ended['grant_id']}").status_code == 404

    redefine(server, "append_line")
    server.restart()
    assert owner.chat(call("append_line", f"{prefix} 5"))["status"] == "parked"
    rows = owner.get("/audit", limit=1000)["items"]
    [revoked] = [row for row in rows if row["event"] == "revoked"]
    assert revoked["actor"] == "butler" and "definition" in revoked["data"]["why"]


def test_a_verdict_that_turns_to_refuse_is_not_outlived_by_a_grant(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler().start()
    owner = server.client()
    parked = park(owner, fresh())
    wish = {"scope": "user", "args": {}, "confirm": True}
    owner.decided(parked["thread_id"], approve(parked["approvals"][0], grant=wish))
    redefine(server, "append_line", verdict="refuse")
    server.restart()
    text = fresh()
    assert owner.chat(call("append_line", text))["status"] == "done"
    assert server.workshop.effects(text) == []


def test_what_was_asked_about_the_old_definition_is_asked_again(make_butler: MakeButler, model: ScriptedModel) -> None:
    server = make_butler().start()
    owner = server.client()
    text = fresh()
    parked = park(owner, text)
    [action] = parked["approvals"]
    redefine(server, "append_line", description="Sample tool that now does something else")
    server.restart()
    outcome = owner.decided(parked["thread_id"], approve(action))
    assert outcome["status"] == "parked"
    [again] = outcome["approvals"]
    assert again["action_id"] == action["action_id"] and again["fingerprint"] == action["fingerprint"]
    assert "definition" in again["reason"] and "owner" in again["reason"]
    assert server.workshop.effects(text) == []
    assert owner.decided(parked["thread_id"], approve(again))["status"] == "done"
    assert len(server.workshop.effects(text)) == 1


def test_an_edit_for_the_old_definition_is_asked_again_with_its_arguments(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler().start()
    owner = server.client()
    text, edited = fresh("asked"), fresh("edited")
    parked = park(owner, text)
    [action] = parked["approvals"]
    redefine(server, "append_line", timeout=9)
    server.restart()
    edit = {"action_id": action["action_id"], "decision": "edit", "args": {"text": edited}}
    [again] = owner.decided(parked["thread_id"], edit)["approvals"]
    assert again["args"] == {"text": edited}
    assert owner.decided(parked["thread_id"], approve(again, fingerprint=again["fingerprint"]))["status"] == "done"
    assert [len(server.workshop.effects(one)) for one in (text, edited)] == [0, 1]


def test_what_a_crash_interrupted_is_not_repeated_under_another_definition(
    make_butler: MakeButler, model: ScriptedModel
) -> None:
    server = make_butler()
    slow = tool("slow_steady", "approve", "wait", idempotent=True)
    server.workshop.write_tools(*standard_tools(), slow)
    server.start()
    owner = server.client()
    text = fresh()
    parked = park(owner, text, tool="slow_steady")
    owner.post(f"/approvals/{parked['approvals'][0]['action_id']}", {"decision": "approve"})
    wait_until(lambda: server.workshop.begun(text), "the tool has begun")
    server.kill()
    server.workshop.write_tools(*standard_tools(), tool("slow_steady", "approve", "append", idempotent=True))
    server.start()
    owner.when_status(parked["thread_id"], "parked")
    asked = owner.approval(parked["approvals"][0]["action_id"])
    assert asked["execution"] == "unknown" and "may have taken effect" in asked["reason"]
    assert server.workshop.effects(text) == []
    assert owner.decided(parked["thread_id"], approve(asked))["status"] == "done"
    assert len(server.workshop.effects(text)) == 1
