"""Threads: the list, the visible transcript, and deleting."""

from __future__ import annotations

from datetime import datetime

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

UNKNOWN = "/threads/no-such-thread"


def walk(client: Client, path: str, limit: int) -> list[Json]:
    """All items of a list that comes in pages."""
    items: list[Json] = []
    cursor: str | None = None
    for _ in range(200):
        page = client.get(path, limit=limit, **({"cursor": cursor} if cursor else {}))
        assert len(page["items"]) <= limit
        items += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return items
    raise AssertionError("the list has no end")


def test_the_list_shows_status_title_and_pending(butler: ButlerServer, owner: Client) -> None:
    parked = park(owner, fresh("one"), fresh("two"))
    idle = owner.chat(fresh())["thread_id"]
    listed = {item["thread_id"]: item for item in owner.get("/threads", limit=100)["items"]}
    item = listed[parked["thread_id"]]
    assert set(item) >= {"thread_id", "title", "status", "updated_at", "pending"}
    assert (item["status"], item["pending"]) == ("parked", 2)
    assert (listed[idle]["status"], listed[idle]["pending"]) == ("idle", 0)
    assert isinstance(item["title"], str)
    assert datetime.fromisoformat(item["updated_at"].replace("Z", "+00:00")).tzinfo is not None
    shown = owner.get(f"/threads/{idle}")
    assert shown["thread_id"] == idle


def test_the_list_comes_in_pages_without_gap_or_repeat(butler: ButlerServer, owner: Client) -> None:
    made = [owner.chat("/help")["thread_id"] for _ in range(5)]
    seen = [item["thread_id"] for item in walk(owner, "/threads", 2)]
    assert len(seen) == len(set(seen))
    assert set(made) <= set(seen)


def test_the_newest_talk_comes_first(butler: ButlerServer, owner: Client) -> None:
    first = owner.chat(fresh())["thread_id"]
    second = owner.chat(fresh())["thread_id"]
    owner.chat(fresh(), first)
    seen = [item["thread_id"] for item in owner.get("/threads", limit=2)["items"]]
    assert seen == [first, second]


def test_the_transcript_is_whole_and_in_order(butler: ButlerServer, owner: Client) -> None:
    text = fresh()
    outcome = owner.chat(call("note_line", text))
    items = owner.get(f"/threads/{outcome['thread_id']}/messages")["items"]
    assert items[0]["role"] == "user"
    assert items[-1]["role"] == "assistant"
    assert items[-1]["text"] == outcome["reply"]
    for item in items:
        assert set(item) >= {"id", "role", "text", "created_at"}
        assert item["role"] in ("user", "assistant", "tool")
    assert len({item["id"] for item in items}) == len(items)


def test_older_messages_are_read_page_by_page(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat(fresh())["thread_id"]
    for _ in range(3):
        owner.chat(fresh(), thread)
    whole = owner.get(f"/threads/{thread}/messages", limit=100)["items"]
    assert len(whole) == 8
    read: list[Json] = owner.get(f"/threads/{thread}/messages", limit=3)["items"]
    assert read == whole[-3:]
    while len(read) < 8:
        page = owner.get(f"/threads/{thread}/messages", limit=3, before=read[0]["id"])["items"]
        assert page
        read = page + read
    assert read == whole
    assert owner.get(f"/threads/{thread}/messages", before=whole[0]["id"])["items"] == []


def test_queries_out_of_range_are_refused(butler: ButlerServer, owner: Client) -> None:
    thread = owner.chat(fresh())["thread_id"]
    for path in (
        "/threads?limit=0",
        "/threads?limit=-1",
        "/threads?limit=many",
        "/threads?cursor=@@@",
        f"/threads/{thread}/messages?limit=0",
        f"/threads/{thread}/messages?limit=x",
    ):
        refused(owner.request("GET", path), 422, "invalid_request")


def test_unknown_threads_are_not_found(butler: ButlerServer, owner: Client) -> None:
    refused(owner.request("GET", UNKNOWN), 404, "not_found")
    refused(owner.request("GET", UNKNOWN + "/messages"), 404, "not_found")
    refused(owner.request("DELETE", UNKNOWN), 404, "not_found")


def test_a_deleted_thread_is_gone(butler: ButlerServer, owner: Client) -> None:
    outcome = owner.chat(fresh())
    thread = outcome["thread_id"]
    response = owner.request("DELETE", f"/threads/{thread}")
    assert (response.status_code, response.content) == (204, b"")
    refused(owner.request("GET", f"/threads/{thread}"), 404, "not_found")
    refused(owner.request("GET", f"/threads/{thread}/messages"), 404, "not_found")
    refused(owner.post("/chat", {"message": "hello", "thread_id": thread}), 404, "not_found")
    refused(owner.request("DELETE", f"/threads/{thread}"), 404, "not_found")
    assert thread not in [item["thread_id"] for item in owner.get("/threads", limit=100)["items"]]


def test_deleting_a_parked_thread_cancels_what_was_pending_and_queued(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    text, later = fresh(), fresh("later")
    parked = park(owner, text)
    thread = parked["thread_id"]
    [action] = parked["approvals"]
    owner.chat(later, thread)
    assert owner.request("DELETE", f"/threads/{thread}").status_code == 204
    after = owner.approval(action["action_id"])
    assert (after["status"], after["execution"]) == ("cancelled", "none")
    assert action["action_id"] not in [a["action_id"] for a in owner.get("/approvals", status="pending")["items"]]
    late = owner.post(f"/approvals/{action['action_id']}", {"decision": "approve"})
    assert late.status_code in (404, 409, 410), late.text
    refused(owner.resume(thread, approve(action)), 404, "not_found")
    assert butler.workshop.effects(text) == []
    assert model.requests(later) == []
    assert any(action["action_id"] in str(row) for row in owner.get("/audit", limit=1000)["items"])


def test_the_visible_transcript_never_shows_the_summary(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    thread = owner.chat(fresh())["thread_id"]
    owner.chat(fresh(), thread)
    before = owner.transcript(thread)
    model.reply(purpose="compaction", text="SUMMARY of it all", times=0)
    owner.chat("/compact", thread)
    after = owner.transcript(thread)
    assert after[: len(before)] == before
    assert "SUMMARY" not in str(after)
