"""POST /chat: threads, refusals, waiting or not, and the order of messages."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.client import Client, refused
from tests.support.orders import fresh, together
from tests.support.polling import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.server import MODEL_TOKEN, ButlerServer


def test_a_message_without_thread_starts_one_and_is_answered(butler: ButlerServer, owner: Client) -> None:
    text = fresh("hello")
    outcome = owner.chat(text)
    assert set(outcome) == {"thread_id", "run_id", "status", "reply", "approvals", "error", "usage"}
    assert outcome["status"] == "done"
    assert outcome["reply"].startswith(f"You said: {text}")
    assert outcome["approvals"] == []
    assert outcome["error"] is None
    assert set(outcome["usage"]) == {"input_tokens", "output_tokens", "model_calls"}
    assert outcome["usage"]["model_calls"] == 1
    assert owner.get(f"/runs/{outcome['run_id']}") == outcome


def test_usage_is_what_the_model_reported(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    marker = fresh()
    model.reply(marker=marker, text="counted", usage=[321, 45])
    usage = owner.chat(marker)["usage"]
    assert usage == {"input_tokens": 321, "output_tokens": 45, "model_calls": 1}


def test_the_model_is_asked_with_the_configured_name_and_token(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    marker = fresh()
    owner.chat(marker)
    [request] = model.requests(marker)
    assert request["body"]["model"] == "scripted"
    assert request["headers"]["authorization"] == f"Bearer {MODEL_TOKEN}"
    names = [tool["function"]["name"] for tool in request["body"]["tools"]]
    assert "append_line" in names and "note_line" in names


def test_the_next_message_of_a_thread_comes_with_the_talk_so_far(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    first, second = fresh("first"), fresh("second")
    outcome = owner.chat(first)
    again = owner.chat(second, outcome["thread_id"])
    assert again["thread_id"] == outcome["thread_id"]
    assert again["run_id"] != outcome["run_id"]
    talk = [m for m in model.requests(second)[-1]["body"]["messages"] if m["role"] != "system"]
    assert [m["role"] for m in talk] == ["user", "assistant", "user"]
    assert talk[0]["content"] == first
    assert talk[1]["content"] == outcome["reply"]


def test_an_unknown_thread_is_not_found_and_not_made(butler: ButlerServer, owner: Client) -> None:
    for thread in ("no-such-thread", "6f1c6f0e-8f36-4f3d-9a57-000000000000"):
        refused(owner.post("/chat", {"message": "hello", "thread_id": thread}), 404, "not_found")
        refused(owner.request("GET", f"/threads/{thread}"), 404, "not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"message": ""},
        {"message": " \n\t "},
        {"message": "\u3000\u00a0"},
        {"message": "x" * 200_001},
        {},
        {"message": None},
        {"message": 5},
        {"message": ["hello"]},
        {"message": "hello", "thread_id": 5},
        {"message": "hello", "wait": "false"},
        {"message": "hello", "wait": 0},
        {"message": "hello", "if_parked": "maybe"},
        {"message": "hello", "if_parked": True},
        {"message": "hello", "colour": "red"},
        {"message": "hello", "approved": True},
        [],
        "hello",
        None,
    ],
    ids=lambda body: str(body)[:40],
)
def test_a_malformed_body_is_refused(butler: ButlerServer, owner: Client, body: Any) -> None:
    refused(owner.post("/chat", body), 422, "invalid_request")


@pytest.mark.parametrize("raw", [b"", b"{", b'{"message": "hello"', b"message=hello", b"\xff\xfe", b"[" * 5000])
def test_what_is_not_json_is_refused(butler: ButlerServer, owner: Client, raw: bytes) -> None:
    response = owner.request("POST", "/chat", content=raw, headers={"Content-Type": "application/json"})
    refused(response, 422, "invalid_request")


def test_a_lone_surrogate_breaks_nothing(butler: ButlerServer, owner: Client) -> None:
    raw = b'{"message": "half a pair \\ud83d end"}'
    response = owner.request("POST", "/chat", content=raw, headers={"Content-Type": "application/json"})
    assert response.status_code in (200, 422), response.text
    assert owner.chat(fresh())["status"] == "done"


def test_the_longest_message_is_accepted(butler: ButlerServer, owner: Client) -> None:
    outcome = owner.chat("/help " + "x" * (200_000 - len("/help ")))
    assert outcome["thread_id"]


def test_text_comes_back_exactly_as_the_model_sent_it(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    marker = fresh()
    text = "Grüße 你好 日本語 🎩\n\n* a  list\n```python\nif x:\n    y = '<&>'\n```"
    model.reply(marker=marker, text=text)
    outcome = owner.chat(marker + " 你好 🎩")
    assert outcome["reply"] == text
    assert owner.transcript(outcome["thread_id"]) == [("user", marker + " 你好 🎩"), ("assistant", text)]


def test_without_waiting_the_answer_is_accepted_and_running(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    gate = fresh("gate")
    response = owner.post("/chat", {"message": f"[[hold {gate}]] [[say late]]", "wait": False})
    assert response.status_code == 202
    body = response.json()
    assert set(body) >= {"thread_id", "run_id", "status"}
    assert body["status"] == "running"
    assert owner.get(f"/runs/{body['run_id']}")["status"] == "running"
    assert owner.get(f"/threads/{body['thread_id']}")["status"] == "running"
    model.release(gate)
    assert owner.when_run(body["run_id"], "done")["reply"] == "late"


def test_messages_that_arrive_while_a_turn_runs_are_queued_and_answered_in_order(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    gate = fresh("gate")
    first = f"[[hold {gate}]] [[say answer 0]]"
    started = owner.chat(first, wait=False)
    thread = started["thread_id"]
    later = [f"[[say answer {n}]] {fresh()}" for n in (1, 2, 3)]
    queued = []
    for text in later:
        response = owner.post("/chat", {"message": text, "thread_id": thread})
        assert response.status_code == 202
        assert response.json()["status"] == "queued"
        queued.append(response.json()["run_id"])
    assert len({started["run_id"], *queued}) == 4
    assert owner.get(f"/runs/{queued[0]}")["status"] == "queued"
    model.release(gate)
    assert owner.when_run(queued[-1], "done")["reply"] == "answer 3"
    expected = []
    for n, text in enumerate([first, *later]):
        expected += [("user", text), ("assistant", f"answer {n}")]
    assert owner.transcript(thread) == expected


def test_a_waiting_turn_of_one_thread_holds_up_no_other(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    gate = fresh("gate")
    held = owner.chat(f"[[hold {gate}]]", wait=False)
    wait_until(lambda: model.requests(gate), "the held turn asks the model")
    assert owner.chat(fresh())["status"] == "done"
    assert owner.get(f"/runs/{held['run_id']}")["status"] == "running"
    model.release(gate)
    owner.when_run(held["run_id"], "done")


def test_a_client_that_stops_waiting_cancels_nothing(butler: ButlerServer, owner: Client, model: ScriptedModel) -> None:
    gate = fresh("gate")
    thread = owner.chat(fresh())["thread_id"]
    body = {"message": f"[[hold {gate}]] [[say after all]]", "thread_id": thread}
    with pytest.raises(httpx.ReadTimeout):
        owner.request("POST", "/chat", json=body, timeout=0.5)
    wait_until(lambda: model.requests(gate), "the turn asks the model")
    model.release(gate)
    owner.when_status(thread, "idle")
    assert owner.transcript(thread)[-1] == ("assistant", "after all")


def test_eight_messages_at_once_are_all_kept_and_answered_one_after_the_other(
    butler: ButlerServer, owner: Client, model: ScriptedModel
) -> None:
    thread = owner.chat(fresh())["thread_id"]
    texts = [f"[[say answer {n}]] {fresh()}" for n in range(8)]
    responses = together(lambda text: owner.post("/chat", {"message": text, "thread_id": thread}), texts)
    assert {response.status_code for response in responses} <= {200, 202}
    for response in responses:
        owner.when_run(response.json()["run_id"], "done")
    talk = owner.transcript(thread)[2:]
    assert sorted(talk[0::2]) == sorted(("user", text) for text in texts)
    for (role, text), reply in zip(talk[0::2], talk[1::2], strict=True):
        assert role == "user"
        assert reply == ("assistant", text.removeprefix("[[say ").split("]]")[0])
    asked = [entry["user"] for entry in model.requests("answer")]
    assert asked == [text for _, text in talk[0::2]], "the model met them in the order of the transcript"
