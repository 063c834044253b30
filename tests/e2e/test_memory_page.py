"""The page /memory in a browser's words: forms, cookie, origin; no script anywhere (C6)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.support.client import Client
from tests.support.orders import fresh
from tests.support.server import ButlerServer


@pytest.fixture
def browser(butler: ButlerServer, owner: Client) -> Iterator[httpx.Client]:
    """Signed in by the link; sends forms as a browser does."""
    with httpx.Client(base_url=butler.url, trust_env=False, follow_redirects=True) as client:
        client.get("/", params={"token": owner.token or ""})
        yield client


def send(browser: httpx.Client, form: str, **fields: str) -> httpx.Response:
    return browser.post(f"/memory/{form}", data=fields, headers={"Origin": str(browser.base_url).rstrip("/")})


def test_a_memory_is_added_changed_forgotten_and_taken_back(browser: httpx.Client, owner: Client) -> None:
    word = fresh("<b>page</b> & more")
    shown = send(browser, "add", text=word, importance="7")
    assert shown.status_code == 200
    assert "&lt;b&gt;page&lt;/b&gt; &amp; more" in shown.text and "<b>" not in shown.text
    [item] = owner.get("/memories", query=word)["items"]
    assert (item["importance"], item["via"]) == (7, "web")
    send(browser, "edit", memory_id=item["memory_id"], text=f"{word} changed", importance="3")
    assert owner.get(f"/memories/{item['memory_id']}")["text"] == f"{word} changed"
    send(browser, "forget", memory_id=item["memory_id"])
    assert owner.get(f"/memories/{item['memory_id']}")["forgotten_at"]
    assert f"Take back {item['memory_id']}" in browser.get("/memory").text
    send(browser, "undo", memory_id=item["memory_id"])
    assert not owner.get(f"/memories/{item['memory_id']}")["forgotten_at"]


def test_the_page_has_no_script_and_a_viewport_and_its_forms_are_not_foreign(browser: httpx.Client) -> None:
    page = browser.get("/memory")
    assert page.headers["content-type"].startswith("text/html")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "same-origin"
    assert "width=device-width" in page.text
    assert not re.search(r"<script|javascript:|\son\w+=|style=", page.text)
    assert browser.get("/web/memory.css").status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", ""])
def test_a_form_of_another_site_changes_nothing(browser: httpx.Client, owner: Client, origin: str) -> None:
    word = fresh("planted")
    headers = {"Origin": origin} if origin else {}
    answer = browser.post("/memory/add", data={"text": word, "importance": "5"}, headers=headers)
    assert answer.status_code == 403
    assert owner.get("/memories", query=word)["items"] == []


def test_a_bad_form_says_what_is_wrong_and_keeps_what_was_typed(browser: httpx.Client) -> None:
    answer = send(browser, "add", text="x" * 2001, importance="5")
    assert answer.status_code == 422
    assert "at most 2,000 characters" in answer.text and "x" * 2001 in answer.text
    assert "number from 1 to 10" in send(browser, "add", text="y", importance="11").text
    for odd in ("0010000", "0101", "", "0"):
        assert send(browser, "add", text="y", importance=odd).status_code == 422
    assert "Tick the box" in send(browser, "erase", confirm="no").text
    assert send(browser, "nonsense", text="x").status_code == 404
    assert send(browser, "forget", memory_id="NOSUCH22").status_code == 404


def test_the_page_of_one_person_shows_nothing_of_another(
    browser: httpx.Client, butler: ButlerServer, member: Client
) -> None:
    word = fresh("theirs")
    member.post("/memories", {"text": word})
    assert word not in browser.get("/memory").text
    assert httpx.get(f"{butler.url}/memory").status_code == 401


def test_a_browser_that_is_not_signed_in_is_told_how(butler: ButlerServer) -> None:
    accept = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for headers in (accept, {**accept, "Cookie": "butler_token=wrong"}):
        page = httpx.get(f"{butler.url}/memory", headers=headers)
        assert page.status_code == 401
        assert page.headers["content-type"].startswith("text/html")
        assert "Paste your token" in page.text and "owner.token" in page.text
        assert page.headers["www-authenticate"] == "Bearer"
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    for path, headers in (("/memory", {"Accept": "application/json"}), ("/threads", accept)):
        answer = httpx.get(f"{butler.url}{path}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")


def test_erasing_needs_the_tick_and_removes_everything(butler: ButlerServer, member: Client) -> None:
    member.post("/memories", {"text": fresh("gone soon")})
    with httpx.Client(base_url=butler.url, trust_env=False, follow_redirects=True) as browser:
        browser.get("/", params={"token": member.token or ""})
        assert "Everything is erased" in send(browser, "erase", confirm="yes").text
    assert member.get("/memories", all=True)["items"] == []
