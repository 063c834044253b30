"""Signed links: the page shows the action, opening it decides nothing, and it decides once (B7)."""

from __future__ import annotations

import json
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from tests.conftest import STANDARD_RULES
from tests.support.client import Client, Json
from tests.support.orders import fresh, park, reject, together
from tests.support.polling import wait_until
from tests.support.receiver import Receiver, link_in
from tests.support.scripted_model import ScriptedModel
from tests.support.server import ButlerServer

PLANTED = "planted-hook-value-77"
TWO = {"name": "two-people", "tool": "plain_line", "verdict": "approve", "approvals_needed": 2}
BRIEF = {"name": "brief", "tool": "append_line", "args": {"text": "brief-*"}, "verdict": "approve", "expires_in": 3600}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(scope="module")
def shared_butler(
    shared_model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory, receiver: Receiver
) -> Iterator[ButlerServer]:
    """A server where the owner and another admin have a channel each."""
    home = tmp_path_factory.mktemp("butler")
    server = ButlerServer(home, shared_model.url, {"BUTLER_NOTIFY_URLS": receiver.url("owner"), "HOOK_SECRET": PLANTED})
    urls = json.dumps([receiver.url("ada")])
    (server.config / "notify.yml").write_text(f"people: [{{user: ada, urls: {urls}, events: [approvals]}}]")
    server.workshop.write_policy(BRIEF, TWO, *STANDARD_RULES)
    server.start()
    server.user_add("ada", "admin")
    yield server
    server.close()


@pytest.fixture
def browser(butler: ButlerServer) -> Iterator[httpx.Client]:
    """Somebody who has nothing but a link."""
    with httpx.Client(base_url=butler.url, trust_env=False, timeout=30) as made:
        yield made


def asked(
    client: Client, receiver: Receiver, text: str, who: str = "owner", tool: str = "append_line"
) -> tuple[Json, str]:
    """An approval that waits, and the link to it that somebody got."""
    approval: Json = park(client, text, tool=tool)["approvals"][0]
    return approval, link_in(receiver.message(who, text))


def events(owner: Client, action_id: str, event: str) -> list[Json]:
    rows: list[Json] = owner.get("/audit", limit=1000)["items"]
    return [row for row in rows if row["action_id"] == action_id and row["event"] == event]


def alter(butler: ButlerServer, statement: str, *values: str) -> None:
    """Change the database as no one should."""
    with closing(sqlite3.connect(butler.data / "butler.db", timeout=30)) as connection, connection:
        assert connection.execute(statement, values).rowcount >= 1


def test_the_page_shows_the_whole_action_and_who_decides(
    owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text = fresh("brief")
    approval, link = asked(owner, receiver, text)
    page = browser.get(link)
    assert page.status_code == 200
    for part in ("You decide as owner.", "append_line", text, "brief", approval["risk"], approval["fingerprint"],
                 'value="approve"', 'value="reject"', 'name="viewport"', approval["expires_at"][:10]):  # fmt: skip
        assert part in page.text, part
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text
    assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', page.text)
    for sheet in re.findall(r'href="([^"]+\.css)"', page.text):
        assert browser.get(str(page.url.join(sheet))).status_code == 200


def test_opening_a_link_decides_nothing_and_is_noted_once(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    approval, link = asked(owner, receiver, fresh())
    head = browser.head(link)
    assert (head.status_code, head.content) == (200, b"")
    assert [row["via"] for row in events(owner, approval["action_id"], "shown")].count("link") == 0
    for _ in range(3):
        assert browser.get(link, headers={"Purpose": "prefetch"}).status_code == 200
    wait_until(
        lambda: [row["via"] for row in events(owner, approval["action_id"], "shown")].count("link") == 1,
        "the showing is in the audit",
    )
    assert owner.approval(approval["action_id"])["status"] == "pending"
    assert butler.workshop.effects(approval["args"]["text"]) == []


def test_a_link_approves_once_and_says_afterwards_what_is_recorded(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text = fresh()
    approval, link = asked(owner, receiver, text)
    page = browser.post(link, data={"decision": "approve", "reason": "looks\r\nright"})
    assert page.status_code == 200
    assert "Approved" in page.text and "owner" in page.text
    owner.when_run(approval["run_id"], "done")
    assert len(butler.workshop.effects(text)) == 1
    decision = owner.approval(approval["action_id"])["decision"]
    assert (decision["decision"], decision["by"], decision["via"]) == ("approve", "owner", "link")
    assert decision["reason"] == "looks\nright"
    for again in (browser.get(link), browser.post(link, data={"decision": "reject"})):
        assert again.status_code == 410
        assert "owner approved it" in again.text
    assert len(butler.workshop.effects(text)) == 1


def test_a_link_rejects_with_the_reason_that_the_model_reads(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text, why = fresh(), fresh("why")
    approval, link = asked(owner, receiver, text)
    assert browser.post(link, data={"decision": "reject", "reason": why}).status_code == 200
    shown = owner.approval(approval["action_id"])
    assert (shown["status"], shown["decision"]["reason"]) == ("rejected", why)
    assert butler.workshop.effects(text) == []


def test_of_many_posts_at_once_one_wins(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text = fresh()
    approval, link = asked(owner, receiver, text)
    pages = together(lambda kind: browser.post(link, data={"decision": kind}), ["approve", "reject"] * 4)
    assert sorted(page.status_code for page in pages) == [200] + [410] * 7
    owner.when_run(approval["run_id"], "done")
    decisions = events(owner, approval["action_id"], "approved") + events(owner, approval["action_id"], "rejected")
    assert len(decisions) == 1


def test_what_was_decided_elsewhere_is_said_and_stands(
    owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    approval, link = asked(owner, receiver, fresh())
    owner.decided(approval["thread_id"], reject(approval, reason="not today"))
    for page in (browser.get(link), browser.post(link, data={"decision": "approve"})):
        assert page.status_code == 409
        assert "owner rejected it" in page.text and "not today" in page.text
    assert owner.approval(approval["action_id"])["status"] == "rejected"


@pytest.mark.parametrize(
    "form",
    [{}, {"decision": "yes"}, {"decision": ""}, {"decision": "respond"}, {"decision": ["approve", "reject"]},
     {"decision": "approve", "grant": "x"}, {"reason": "x"}, {"decision": "approve", "reason": "x" * 2001}],
)  # fmt: skip
def test_a_form_that_is_no_decision_decides_nothing_and_leaves_the_link_good(
    owner: Client, receiver: Receiver, browser: httpx.Client, form: dict[str, str]
) -> None:
    approval, link = asked(owner, receiver, fresh())
    assert browser.post(link, data=form).status_code == 422
    assert owner.approval(approval["action_id"])["status"] == "pending"
    assert browser.get(link).status_code == 200


def test_a_body_that_is_no_form_decides_nothing(owner: Client, receiver: Receiver, browser: httpx.Client) -> None:
    approval, link = asked(owner, receiver, fresh())
    for body in (b"", b"\xff\xfe", b'{"decision": "approve"}', b"decision=%ff%fe", b"decision=approve&" * 50):
        assert browser.post(link, content=body).status_code == 422
    assert owner.approval(approval["action_id"])["status"] == "pending"


def test_a_tampered_link_is_not_found(owner: Client, receiver: Receiver, browser: httpx.Client) -> None:
    approval, link = asked(owner, receiver, fresh())
    head, _, signature = link.rpartition(".")
    other = "A" if link[-2] != "A" else "B"
    for broken in (head, f"{head}.", f"{head}x.{signature}", link[:-2] + other + link[-1], "/decide/x",
                   "/decide/" + "x" * 500,                   link + "%00", link.replace(".", "..")):  # fmt: skip
        for page in (browser.get(broken), browser.post(broken, data={"decision": "approve"})):
            assert page.status_code == 404, broken
            assert approval["tool"] not in page.text
    assert owner.approval(approval["action_id"])["status"] == "pending"


def test_a_link_is_over_when_its_time_is(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    approval, link = asked(owner, receiver, fresh())
    alter(
        butler, "UPDATE links SET expires_at = '2020-01-01T00:00:00.000000Z' WHERE action_id = ?", approval["action_id"]
    )
    for page in (browser.get(link), browser.post(link, data={"decision": "approve"})):
        assert page.status_code == 410
        assert f"/approve {approval['code']}" in page.text
    assert owner.approval(approval["action_id"])["status"] == "pending"


def test_a_link_lasts_no_longer_than_its_approval(butler: ButlerServer, owner: Client, receiver: Receiver) -> None:
    approval, _ = asked(owner, receiver, fresh("brief"))
    with closing(sqlite3.connect(butler.data / "butler.db", timeout=30)) as connection:
        rows = connection.execute("SELECT expires_at FROM links WHERE action_id = ?", [approval["action_id"]])
        assert {row[0] for row in rows} == {approval["expires_at"]}


def test_an_expired_request_can_not_be_decided_by_its_link(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    approval, link = asked(owner, receiver, fresh("brief"))
    alter(
        butler,
        "UPDATE actions SET expires_at = '2020-01-01T00:00:00.000000Z' WHERE action_id = ?",
        approval["action_id"],
    )
    assert browser.post(link, data={"decision": "approve"}).status_code == 410
    wait_until(lambda: owner.approval(approval["action_id"])["status"] == "expired", "the request expires")
    page = browser.get(link)
    assert page.status_code == 410
    assert "expired" in page.text


@pytest.mark.parametrize("change", ["fingerprint = 'other'", "requested_at = strftime('%Y-%m-%dT%H:%M:%f000Z')"])
def test_an_action_that_changed_or_is_asked_anew_is_not_what_the_link_was_made_for(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client, change: str
) -> None:
    approval, link = asked(owner, receiver, fresh())
    alter(butler, f"UPDATE actions SET {change} WHERE action_id = ?", approval["action_id"])
    for page in (browser.get(link), browser.post(link, data={"decision": "approve"})):
        assert page.status_code == 409
        assert "changed" in page.text
    assert owner.approval(approval["action_id"])["status"] == "pending"


def test_every_person_has_a_link_of_its_own_and_decides_under_its_own_name(
    owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text = fresh()
    approval, mine = asked(owner, receiver, text)
    adas = link_in(receiver.message("ada", text))
    assert mine != adas
    assert "You decide as ada." in browser.get(adas).text
    browser.post(adas, data={"decision": "reject"})
    assert owner.approval(approval["action_id"])["decision"]["by"] == "ada"
    assert browser.get(mine).status_code == 409


def test_whoever_may_not_decide_any_more_is_told_nothing(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text = fresh()
    approval, link = asked(owner, receiver, text, "ada")
    try:
        alter(butler, "UPDATE users SET role = 'member' WHERE name = ?", "ada")
        demoted = browser.get(link), browser.post(link, data={"decision": "approve"})
        alter(
            butler, "UPDATE users SET role = 'admin', disabled_at = '2020-01-01T00:00:00.000000Z' WHERE name = ?", "ada"
        )
        disabled = browser.get(link), browser.post(link, data={"decision": "approve"})
    finally:
        alter(butler, "UPDATE users SET role = 'admin', disabled_at = NULL WHERE name = ?", "ada")
    for page in (*demoted, *disabled):
        assert page.status_code == 403
        assert text not in page.text
    assert owner.approval(approval["action_id"])["status"] == "pending"
    assert browser.get(link).status_code == 200


def test_two_people_approve_with_their_links(
    butler: ButlerServer, owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    text = fresh()
    approval, mine = asked(owner, receiver, text, tool="plain_line")
    message = receiver.message("ada", text)
    assert "2 people have to approve" in message["message"]
    first = browser.post(mine, data={"decision": "approve"})
    assert first.status_code == 200
    assert "Your approval is recorded" in first.text
    assert butler.workshop.effects(text) == []
    assert browser.get(mine).status_code == 410
    adas = link_in(message)
    assert "owner" in browser.get(adas).text
    assert "Approved" in browser.post(adas, data={"decision": "approve"}).text
    owner.when_run(approval["run_id"], "done")
    assert len(butler.workshop.effects(text)) == 1


def test_markup_in_arguments_is_shown_and_not_obeyed(owner: Client, receiver: Receiver, browser: httpx.Client) -> None:
    evil = f'{fresh()}</pre><script>alert(1)</script><img src=x onerror=alert(1)>" onfocus="x {{{{7*7}}}} \u202ebidi'
    owner.chat(f"/append_line {json.dumps({'text': evil})}")
    page = browser.get(link_in(receiver.message("owner", evil[:12]))).text
    for gone in ("<script", "<img", ' onfocus="', "x 49"):
        assert gone not in page
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert "\u202e" not in page and "\\u202e" in page


def test_the_key_is_the_owners_alone_and_without_it_old_links_are_void(
    butler: ButlerServer, owner: Client, receiver: Receiver
) -> None:
    approval, link = asked(owner, receiver, fresh())
    key = butler.data / "links.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    butler.stop()
    key.unlink()
    butler.start()
    with httpx.Client(base_url=butler.url, trust_env=False) as browser:
        assert browser.get(link).status_code == 404
    assert owner.approval(approval["action_id"])["status"] == "pending"


def test_who_guesses_at_links_is_slowed_down(butler: ButlerServer) -> None:
    with httpx.Client(base_url=butler.url, trust_env=False) as browser:
        statuses = {browser.get(f"/decide/{number}").status_code for number in range(400)}
    assert 429 in statuses
    assert statuses <= {404, 429}


def test_the_page_of_a_decided_call_masks_secrets_in_its_reason(
    owner: Client, receiver: Receiver, browser: httpx.Client
) -> None:
    action, link = asked(owner, receiver, fresh())
    owner.post(f"/approvals/{action['action_id']}", {"decision": "reject", "reason": f"It holds {PLANTED}"})
    page = browser.get(link)
    assert page.status_code == 409 and "It holds ***" in page.text
    assert PLANTED not in page.text
