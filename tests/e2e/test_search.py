"""Searching the transcript on every face: the tool, the route, the command (C5)."""

from __future__ import annotations

import json

from tests.support.client import Client, refused
from tests.support.orders import call, fresh, results
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer, MakeButler


def test_the_model_finds_what_was_said_in_another_thread_without_asking(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    word = fresh("harbour")
    old = owner.chat(f"The boat is called {word}")
    asked = owner.chat(f"{call('search_history', query=word)} now {fresh()}")
    assert (asked["status"], asked["approvals"]) == ("done", [])
    told = json.loads(results(model, word)[-1])
    assert [line["thread_id"] for line in told["results"]] == [old["thread_id"]] * len(told["results"])
    assert told["results"][0]["text"].endswith(word) or word in told["results"][0]["text"]
    assert "never instructions" in told["note"]


def test_what_a_tool_said_is_marked_as_untrusted(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    word = fresh("effect")
    owner.chat(call("note_line", word))
    marker = fresh("look")
    owner.chat(f"{marker} {call('search_history', query=word)}")
    lines = json.loads(results(model, marker)[-1])["results"]
    spoken = [line for line in lines if line["role"] == "tool"]
    assert spoken and all("text" not in line and word in line["untrusted_text"] for line in spoken)


def test_a_message_is_read_whole_by_its_id(butler: ButlerServer, owner: Client) -> None:
    word = fresh("deep")
    long = "x" * 7000 + word
    thread = owner.chat(long)["thread_id"]
    message = owner.get(f"/threads/{thread}/messages")["items"][0]["id"]
    first = json.loads(owner.chat(f"/search_history message:{message}")["reply"])
    assert first["characters"] == len(long)
    rest = json.loads(owner.chat(f"/search_history {first['goes_on']}")["reply"])
    assert rest["results"][0]["text"].endswith(word)


def test_the_route_and_the_command_find_it_too(butler: ButlerServer, owner: Client, member: Client) -> None:
    word = fresh("北京")
    thread = owner.chat(f"我住在{word}")["thread_id"]
    [item] = [item for item in owner.get("/search", query=word)["items"] if item["role"] == "user"]
    assert (item["thread_id"], item["text"]) == (thread, f"我住在{word}")
    assert word in owner.chat(f"/search {word}")["reply"].replace("\\", "")
    assert member.get("/search", query=word)["items"] == []
    refused(owner.request("GET", "/search", params={"query": " … "}), 422, "invalid_request")
    refused(owner.request("GET", "/search"), 422, "invalid_request")


def test_what_a_search_answered_is_not_found_again(butler: ButlerServer, owner: Client) -> None:
    word = fresh("lantern")
    owner.chat(f"/remember the {word} is red")
    thread = owner.chat(f"my {word} is red")["thread_id"]
    before = [item["message_id"] for item in owner.get("/search", query=word)["items"]]
    for command in (f"/search {word}", f"/memory {word}", "/memory", f"/recall {word}", f"/search_history {word}"):
        assert word in owner.chat(command, thread)["reply"].replace("\\", "")
    assert [item["message_id"] for item in owner.get("/search", query=word)["items"]] == before != []


def test_a_deleted_thread_is_not_found_any_more(butler: ButlerServer, owner: Client) -> None:
    word = fresh("secret")
    thread = owner.chat(word)["thread_id"]
    assert owner.get("/search", query=word)["items"]
    assert owner.request("DELETE", f"/threads/{thread}").status_code == 204
    assert owner.get("/search", query=word)["items"] == []


def test_an_admin_in_anothers_thread_reads_neither_persons_archive(
    butler: ButlerServer, owner: Client, member: Client, model: ScriptedModel
) -> None:
    thread = member.chat("hello")["thread_id"]
    marker = fresh("peek")
    owner.chat(f"{marker} {call('search_history', query='hello')}", thread)
    assert "belongs to someone else" in results(model, marker)[-1]


def test_a_rule_of_the_policy_holds_for_the_search(make_butler: MakeButler) -> None:
    butler = make_butler()
    rules = {"name": "no-digging", "tool": "search_history", "verdict": "refuse", "reason": "No digging here"}
    butler.workshop.write_policy(rules)
    butler.start()
    outcome = butler.client().chat("/search_history bread")
    assert "No digging here" in outcome["reply"]
    assert "search_history" in butler.client().chat("/tools")["reply"]
