"""The audit of a running server: what each person did and saw, in order, and the chain beside the writer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.client import Client, refused
from tests.support.orders import approve, fresh, park
from tests.support.server import ButlerServer


def rows(owner: Client, **wanted: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = owner.get("/audit", limit=1000, **wanted)["items"]
    return found


def events(owner: Client, action_id: str) -> list[tuple[str, str]]:
    return [(row["event"], row["actor"]) for row in rows(owner, action_id=action_id)]


def test_the_rows_of_an_action_tell_who_asked_saw_and_decided(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    outcome = park(member, fresh())
    action_id = outcome["approvals"][0]["action_id"]
    owner.get(f"/approvals/{action_id}")
    owner.get("/approvals", status="pending")
    owner.get("/approvals", status="pending")
    owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    assert events(owner, action_id) == [
        ("requested", "mia"), ("shown", "mia"), ("shown", "owner"), ("approved", "owner"), ("started", "butler"),
        ("done", "butler"),
    ]  # fmt: skip


def test_a_stream_and_the_list_in_chat_show_too(butler: ButlerServer, owner: Client) -> None:
    with owner.stream("POST", "/chat", {"message": f"/append_line text={fresh()}"}) as stream:
        action_id = next(event.data["action_id"] for event in stream if event.event == "approval")
    owner.chat("/approvals")
    shown = [row["via"] for row in rows(owner, action_id=action_id, event="shown")]
    assert shown == ["http", "chat"]


def test_filters_choose_rows_and_after_pages_through_them(butler: ButlerServer, owner: Client) -> None:
    outcome = park(owner, fresh())
    thread_id = outcome["thread_id"]
    everything = rows(owner)
    assert [row["seq"] for row in everything] == list(range(1, len(everything) + 1))
    assert all(len(row["hash"]) == 64 for row in everything)
    assert {row["thread_id"] for row in rows(owner, thread_id=thread_id)} == {thread_id}
    assert {row["actor"] for row in rows(owner, actor="butler")} == {"butler"}
    paged: list[dict[str, Any]] = []
    while page := owner.get("/audit", limit=3, after=paged[-1]["seq"] if paged else 0)["items"]:
        paged += page
    assert paged[: len(everything)] == everything


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00+14:00", "0999-12-31T23:59:59Z", "1969-12-31"])
def test_a_time_before_all_rows_chooses_all(butler: ButlerServer, owner: Client, since: str) -> None:
    assert owner.get("/audit", since=since, limit=1)["items"][0]["seq"] == 1


def test_a_time_at_the_end_of_the_calendar_chooses_none(butler: ButlerServer, owner: Client) -> None:
    assert rows(owner, since="9999-12-31T23:59:59-14:00") == []


@pytest.mark.parametrize("query", [{"after": "-1"}, {"after": "x"}, {"after": str(2**63)}, {"who": "mia"}])
def test_a_filter_that_means_nothing_is_refused(butler: ButlerServer, owner: Client, query: dict[str, str]) -> None:
    assert owner.request("GET", "/audit", params=query).status_code == 422


def test_an_attempt_to_read_the_audit_is_in_it(butler: ButlerServer, owner: Client, member: Client) -> None:
    assert member.request("GET", "/audit").status_code == 403
    [row] = [row for row in rows(owner, event="attempt_refused") if row["data"].get("wish") == "GET /audit"]
    assert (row["actor"], row["data"]["code"]) == ("mia", "forbidden")


def test_the_chain_is_verified_beside_the_server_and_in_every_export(
    butler: ButlerServer, owner: Client, tmp_path: Path
) -> None:
    park(owner, 'a reason with ütf-8, "quotes" and =formulas')
    verified = butler.cli("audit", "verify")
    assert verified.returncode == 0, verified.stderr
    head = verified.stdout.splitlines()[-1].removeprefix("head ")
    for kind, media in (("csv", "text/csv"), ("ndjson", "application/x-ndjson")):
        over_http, by_shell = tmp_path / f"http.{kind}", tmp_path / f"shell.{kind}"
        over_http.write_bytes(owner.request("GET", "/audit?limit=1000", headers={"Accept": media}).content)
        assert butler.cli("audit", "export", "--format", kind, "--output", str(by_shell)).returncode == 0
        assert by_shell.read_bytes() == over_http.read_bytes()
        done = butler.cli("audit", "verify", "--file", str(by_shell), "--head", head)
        assert done.returncode == 0, done.stderr
    listed = [json.loads(line)["seq"] for line in (tmp_path / "http.ndjson").read_text().splitlines()]
    assert listed == [row["seq"] for row in rows(owner)]


def test_the_story_of_an_action_is_told_in_the_shell(butler: ButlerServer, owner: Client) -> None:
    outcome = park(owner, fresh())
    approval = outcome["approvals"][0]
    owner.decided(outcome["thread_id"], approve(approval))
    told = butler.cli("audit", "show", approval["code"])
    assert told.returncode == 0, told.stderr
    lines = [line.partition("  ")[2] for line in told.stdout.splitlines()[1:]]
    assert [line.split()[0] for line in lines] == ["asked", "shown", "approved", "started,", "done,"]


def test_an_attempt_at_an_action_that_is_not_theirs_to_know_is_audited_and_told_nothing(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    stranger = butler.user_add("ben", "member")
    outcome = park(member, fresh())
    approval = outcome["approvals"][0]
    action_id, thread_id = approval["action_id"], outcome["thread_id"]
    before = len(rows(owner))
    refused(stranger.post(f"/approvals/{action_id}", {"decision": "approve"}), 404, "not_found")
    refused(stranger.resume(thread_id, approve(approval)), 404, "not_found")
    refused(stranger.post(f"/threads/{thread_id}/resume", {"answer": {"approved": True}}), 404, "not_found")
    said = stranger.chat(f"/deny {approval['code']} because")
    assert said["error"]["code"] == "not_found"
    refused(stranger.post("/approvals/no-such-thing", {"decision": "approve"}), 404, "not_found")
    new = [row for row in rows(owner)[before:] if row["event"] == "attempt_refused"]
    assert [(row["actor"], row["action_id"], row["data"]["code"]) for row in new] == [
        ("ben", action_id, "not_found")
    ] * 4
    assert [row["data"]["decision"] for row in new] == ["approve", "approve", "approve", "reject"]
    assert owner.approval(action_id)["status"] == "pending"
