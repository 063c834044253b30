"""The door of the HTTP face: sizes, origins, headers, and one server per directory (F2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from tests.support.client import Client, refused
from tests.support.orders import approve, call, fresh
from tests.support.server import OWNER_TOKEN, ButlerServer, MakeButler

LIMIT = 4 * 1024 * 1024


def test_a_body_over_the_limit_is_too_large_and_changes_nothing(butler: ButlerServer, owner: Client) -> None:
    before = owner.get("/threads", limit=200)["items"]
    body = b'{"message": "' + b"x" * LIMIT + b'"}'
    headers = {"Content-Type": "application/json"}
    refused(owner.request("POST", "/chat", content=body, headers=headers), 413, "too_large")
    assert owner.get("/threads", limit=200)["items"] == before


def test_a_body_that_hides_its_length_is_cut_off_at_the_limit(butler: ButlerServer, owner: Client) -> None:
    def endless() -> Iterator[bytes]:
        yield b'{"message": "'
        for _ in range(LIMIT // 65536 + 2):
            yield b"x" * 65536

    headers = {"Content-Type": "application/json"}
    refused(owner.request("POST", "/chat", content=endless(), headers=headers), 413, "too_large")


def test_another_sites_page_cannot_act_with_the_browsers_cookie(butler: ButlerServer) -> None:
    with httpx.Client(base_url=butler.url, trust_env=False) as browser:
        browser.get("/", params={"token": OWNER_TOKEN})
        foreign = {"Origin": "http://evil.example"}
        refused(browser.post("/chat", json={"message": "/help"}, headers=foreign), 403, "forbidden")
        own = browser.post("/chat", json={"message": "/help"}, headers={"Origin": butler.url})
        assert own.status_code == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/threads", "/no/such/route"])
def test_every_answer_carries_the_protecting_headers(butler: ButlerServer, owner: Client, path: str) -> None:
    headers = owner.request("GET", path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "server" not in headers


def refusal(server: ButlerServer) -> str:
    """What a server says that must not start."""
    process = server.launch()
    assert process.stdout is not None
    with process.stdout as output:
        output.read()
    assert server.died() == 2
    return server.stderr


def test_a_second_server_on_the_same_directory_does_not_start(make_butler: MakeButler) -> None:
    first = make_butler().start()
    second = make_butler(BUTLER_DATA_DIR=str(first.data))
    assert "another Butler serves" in refusal(second)
    assert first.client().get("/healthz") == {"status": "ok"}


def test_a_second_server_on_the_same_database_does_not_start(make_butler: MakeButler) -> None:
    first = make_butler().start()
    second = make_butler(BUTLER_DATABASE_URL=f"sqlite:///{first.data / 'butler.db'}")
    assert "another Butler serves" in refusal(second)


def test_a_turn_whose_checkpoints_are_lost_ends_and_runs_nothing(make_butler: MakeButler) -> None:
    server = make_butler().start()
    text = fresh()
    parked = server.client().chat(call("append_line", text))
    server.kill()
    with closing(sqlite3.connect(server.data / "checkpoints.db")) as file:
        file.execute("DELETE FROM checkpoints")
        file.execute("DELETE FROM writes")
        file.commit()
    owner = server.start().client()
    outcome = owner.decided(parked["thread_id"], approve(parked["approvals"][0]))
    assert outcome["status"] == "failed"
    assert "lost its place" in outcome["reply"]
    assert server.workshop.effects(text) == []
    assert owner.chat(fresh(), parked["thread_id"])["status"] == "done"
