"""The command line's side of HTTP: pages, problems in words, and servers that are no Butler."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from butler.errors import ButlerError
from service.cli.exits import exit_status
from service.cli.place import Place
from service.cli.remote import Remote

PLACE = Place("http://127.0.0.1:9", SecretStr("t"), "BUTLER_URL", "BUTLER_TOKEN")


def server(answer: Callable[[httpx.Request], httpx.Response]) -> Remote:
    """A server that answers by that function."""
    return Remote(PLACE, httpx.Client(transport=httpx.MockTransport(answer)))


def problem(status: int, code: str, detail: str, **extras: Any) -> httpx.Response:
    """A problem response."""
    body = {"type": "about:blank", "title": "x", "status": status, "detail": detail, "code": code, **extras}
    return httpx.Response(status, headers={"content-type": "application/problem+json"}, content=json.dumps(body))


def test_every_page_of_a_list_is_read() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.params.get("cursor", ""))
        number = len(asked)
        return httpx.Response(200, json={"items": [{"n": number}], "next_cursor": f"c{number}" if number < 3 else None})

    assert [item["n"] for item in server(answer).pages("/approvals")] == [1, 2, 3]
    assert asked == ["", "c1", "c2"]


@pytest.mark.parametrize(
    ("status", "code", "exit_with"),
    [
        (401, "unauthorized", 4),
        (403, "not_an_approver", 4),
        (403, "unheard_of", 4),
        (404, "not_found", 5),
        (409, "already_decided", 5),
        (409, "parked", 3),
        (410, "expired", 5),
        (422, "invalid_request", 2),
        (500, "internal", 5),
    ],
)
def test_a_problem_becomes_its_detail_and_an_exit_status(status: int, code: str, exit_with: int) -> None:
    with pytest.raises(ButlerError) as caught:
        server(lambda _: problem(status, code, "What is wrong.", more=1)).get("/x")
    assert caught.value.detail.startswith("What is wrong.")
    assert caught.value.extras["problem"] == {"more": 1}
    assert exit_status(caught.value) == exit_with


def test_a_refused_token_is_said_with_its_origin() -> None:
    with pytest.raises(ButlerError) as caught:
        server(lambda _: problem(401, "unauthorized", "Who?")).get("/x")
    assert "BUTLER_TOKEN" in caught.value.detail


def test_a_servers_words_can_not_repaint_the_terminal() -> None:
    with pytest.raises(ButlerError) as caught:
        server(lambda _: problem(404, "not_found", "no \x1b[2J\u202e")).get("/x")
    assert caught.value.detail == "no \\u001b[2J\\u202e"


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, html="<h1>hello</h1>"),
        httpx.Response(404, html="<h1>none</h1>"),
        httpx.Response(302, headers={"location": "https://elsewhere.example/"}),
        httpx.Response(200, headers={"content-type": "application/json"}, content=b"{"),
        httpx.Response(200, json=[1]),
        httpx.Response(500, json={"error": "x"}),
    ],
)
def test_what_is_no_butler_is_told_from_one(response: httpx.Response) -> None:
    with pytest.raises(ButlerError) as caught:
        server(lambda _: response).get("/x")
    assert "no Butler" in caught.value.detail
    assert exit_status(caught.value) == 5


def test_an_answer_lost_on_the_way_is_not_taken_for_a_refusal() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadError("connection reset", request=request)

    with pytest.raises(ButlerError) as caught:
        server(answer).post("/approvals/x", {})
    assert caught.value.code == "answer_lost"
    with pytest.raises(ButlerError) as caught:
        server(answer).get("/approvals/x")
    assert caught.value.code == "unreachable"


def test_too_many_requests_are_held_off_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("service.cli.remote.time.sleep", waits.append)
    left = [problem(429, "rate_limited", "slowly"), httpx.Response(200, json={"ok": True})]
    assert server(lambda _: left.pop(0)).get("/x") == {"ok": True}
    assert len(waits) == 1
    with pytest.raises(ButlerError) as caught:
        server(lambda _: problem(429, "rate_limited", "slowly")).get("/x")
    assert caught.value.code == "rate_limited"
    assert sum(waits) < 60


def test_the_result_of_a_call_is_read_from_the_events_of_its_run() -> None:
    events = [
        {"action_id": "other", "phase": "done", "result": "no"},
        {"action_id": "a", "phase": "started"},
        {"action_id": "a", "phase": "done", "result": "wrote it"},
    ]
    text = "".join(f"id: 1\nevent: tool\ndata: {json.dumps(event)}\n\n" for event in events)
    assert server(lambda _: httpx.Response(200, text=text)).result_of("r", "a") == "wrote it"
    assert server(lambda _: httpx.Response(200, text=": keep-alive\n\n")).result_of("r", "a") is None
    assert server(lambda _: problem(404, "not_found", "not yours")).result_of("r", "a") is None
