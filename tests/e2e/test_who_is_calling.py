"""Who may call: tokens, the browser's cookie, roles, and that other people's things don't exist for a
member.
"""

from __future__ import annotations

import httpx
import pytest

from tests.support.client import Client, Json, refused
from tests.support.orders import approve, call, fresh, park
from tests.support.server import OWNER_TOKEN, ButlerServer

ROUTES = [
    ("POST", "/chat"),
    ("GET", "/threads"),
    ("GET", "/threads/some-thread"),
    ("GET", "/threads/some-thread/messages"),
    ("DELETE", "/threads/some-thread"),
    ("POST", "/threads/some-thread/resume"),
    ("GET", "/runs/some-run"),
    ("GET", "/runs/some-run/events"),
    ("POST", "/runs/some-run/cancel"),
    ("GET", "/approvals"),
    ("GET", "/approvals/some-action"),
    ("POST", "/approvals/some-action"),
    ("GET", "/grants"),
    ("DELETE", "/grants/some-grant"),
    ("GET", "/audit"),
]


@pytest.fixture(scope="module")
def agent(shared_butler: ButlerServer) -> Client:
    return shared_butler.user_add("anna", "agent")


@pytest.fixture
def owners_parked(butler: ButlerServer, owner: Client) -> Json:
    return park(owner, fresh("owners"))


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_token_is_unauthorized_on_every_route(butler: ButlerServer, method: str, path: str) -> None:
    refused(butler.client(None).request(method, path), 401, "unauthorized")


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer", "Basic b3duZXI6", "bearer-owner", "Bearer a b"])
def test_a_wrong_authorization_header_is_unauthorized(butler: ButlerServer, header: str) -> None:
    headers = {"Authorization": header}
    refused(butler.client(None).request("GET", "/threads", headers=headers), 401, "unauthorized")


def test_health_needs_no_token(butler: ButlerServer) -> None:
    assert butler.client(None).get("/healthz") == {"status": "ok"}


def test_the_login_page_trades_the_token_for_a_strict_cookie(butler: ButlerServer) -> None:
    with httpx.Client(base_url=butler.url, trust_env=False) as browser:
        login = browser.get("/", params={"token": OWNER_TOKEN})
        assert login.status_code in (302, 303, 307)
        assert httpx.URL(login.headers["location"]).path == "/"
        assert "token" not in login.headers["location"]
        cookie = login.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/threads").status_code == 200


def test_a_wrong_token_at_the_login_page_gives_no_cookie(butler: ButlerServer) -> None:
    with httpx.Client(base_url=butler.url, trust_env=False) as browser:
        browser.get("/", params={"token": "wrong"})
        refused(browser.get("/threads"), 401, "unauthorized")


def test_a_wrong_cookie_is_unauthorized(butler: ButlerServer) -> None:
    with httpx.Client(base_url=butler.url, trust_env=False) as browser:
        browser.get("/", params={"token": OWNER_TOKEN})
        names = list(browser.cookies)
        browser.cookies.clear()
        for name in names:
            browser.cookies.set(name, "forged")
        refused(browser.get("/threads"), 401, "unauthorized")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_an_agent_has_no_http_route(butler: ButlerServer, agent: Client, method: str, path: str) -> None:
    refused(agent.request(method, path), 403, "forbidden")


def test_an_agent_cannot_decide_a_real_action(
    butler: ButlerServer, agent: Client, owner: Client, owners_parked: Json
) -> None:
    action = owners_parked["approvals"][0]
    refused(agent.post(f"/approvals/{action['action_id']}", {"decision": "approve"}), 403, "forbidden")
    assert owner.approval(action["action_id"])["status"] == "pending"


def test_a_members_list_holds_only_their_own_threads(butler: ButlerServer, owner: Client, member: Client) -> None:
    owners = owner.chat(fresh())["thread_id"]
    own = member.chat(fresh())["thread_id"]
    seen = [item["thread_id"] for item in member.get("/threads", limit=100)["items"]]
    assert own in seen
    assert owners not in seen


def test_an_admin_sees_every_thread(butler: ButlerServer, owner: Client, member: Client) -> None:
    text = fresh()
    thread = member.chat(text)["thread_id"]
    assert thread in [item["thread_id"] for item in owner.get("/threads", limit=100)["items"]]
    assert owner.transcript(thread)[0] == ("user", text)


def test_someone_elses_things_do_not_exist_for_a_member(
    butler: ButlerServer, owner: Client, member: Client, owners_parked: Json
) -> None:
    thread, run = owners_parked["thread_id"], owners_parked["run_id"]
    action = owners_parked["approvals"][0]
    decision = {"decisions": [approve(action)]}
    for response in (
        member.request("GET", f"/threads/{thread}"),
        member.request("GET", f"/threads/{thread}/messages"),
        member.request("DELETE", f"/threads/{thread}"),
        member.post("/chat", {"message": "hello", "thread_id": thread}),
        member.post(f"/threads/{thread}/resume", decision),
        member.request("GET", f"/runs/{run}"),
        member.request("GET", f"/runs/{run}/events"),
        member.post(f"/runs/{run}/cancel", {}),
        member.request("GET", f"/approvals/{action['action_id']}"),
        member.post(f"/approvals/{action['action_id']}", {"decision": "approve"}),
    ):
        refused(response, 404, "not_found")
    assert owner.approval(action["action_id"])["status"] == "pending"
    assert owner.get(f"/threads/{thread}")["status"] == "parked"


def test_someone_elses_approvals_are_not_in_a_members_list(
    butler: ButlerServer, member: Client, owners_parked: Json
) -> None:
    listed = [item["action_id"] for item in member.get("/approvals", limit=100)["items"]]
    assert owners_parked["approvals"][0]["action_id"] not in listed


def test_a_member_cannot_decide_by_a_foreign_code_in_a_command(
    butler: ButlerServer, owner: Client, member: Client, owners_parked: Json
) -> None:
    action = owners_parked["approvals"][0]
    outcome = member.chat(f"/approve {action['code']}")
    assert outcome["status"] == "failed"
    assert owner.approval(action["action_id"])["status"] == "pending"


def test_a_member_may_not_decide_their_own_action_unless_policy_says_so(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    text = fresh()
    parked = park(member, text)
    action = parked["approvals"][0]
    before = len([row for row in owner.get("/audit", limit=1000)["items"] if action["action_id"] in str(row)])
    refused(member.resume(parked["thread_id"], approve(action)), 403, "not_an_approver")
    refused(member.post(f"/approvals/{action['action_id']}", {"decision": "approve"}), 403, "not_an_approver")
    rows = [row for row in owner.get("/audit", limit=1000)["items"] if action["action_id"] in str(row)]
    assert len(rows) >= before + 2, "refused decisions are audited"
    assert owner.approval(action["action_id"])["status"] == "pending"
    assert butler.workshop.effects(text) == []


def test_an_admin_decides_a_members_action_and_the_members_turn_goes_on(
    butler: ButlerServer, owner: Client, member: Client
) -> None:
    text = fresh()
    parked = park(member, text)
    assert owner.decided(parked["thread_id"], approve(parked["approvals"][0]))["status"] == "done"
    assert len(butler.workshop.effects(text)) == 1
    assert f"wrote {text}" in member.transcript(parked["thread_id"])[-1][1]
    decision = member.approval(parked["approvals"][0]["action_id"])["decision"]
    assert decision["decision"] == "approve"


def test_a_member_decides_where_policy_names_the_requester(butler: ButlerServer, member: Client) -> None:
    target = fresh("draft")
    outcome = member.chat(call("delete_thing", target=target))
    action = outcome["approvals"][0]
    assert action["rule"] == "drafts-are-the-requesters"
    assert member.decided(outcome["thread_id"], approve(action))["status"] == "done"
    assert len(butler.workshop.effects(target)) == 1


def test_an_admin_decides_any_action(butler: ButlerServer, owner: Client, member: Client) -> None:
    outcome = member.chat(call("delete_thing", target=fresh("draft")))
    assert owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))["status"] == "done"


def test_only_an_admin_reads_the_audit(butler: ButlerServer, owner: Client, member: Client) -> None:
    refused(member.request("GET", "/audit"), 403, "forbidden")
    assert isinstance(owner.get("/audit")["items"], list)


@pytest.mark.parametrize("media", ["text/csv", "application/x-ndjson"])
def test_the_audit_comes_in_other_formats(butler: ButlerServer, owner: Client, media: str) -> None:
    park(owner, fresh())
    response = owner.request("GET", "/audit", headers={"Accept": media})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(media)
    assert len(response.text.strip().splitlines()) >= 1


def test_the_audit_from_a_second_on_holds_every_row_of_that_second(butler: ButlerServer, owner: Client) -> None:
    action_id = park(owner, fresh())["approvals"][0]["action_id"]
    row = next(row for row in owner.get("/audit", limit=1000)["items"] if row["action_id"] == action_id)
    second = row["at"].partition(".")[0]
    for since in (f"{second}Z", f"{second}+00:00", row["at"]):
        assert row in owner.get("/audit", since=since, limit=1000)["items"], since
    assert owner.get("/audit", since="2999-01-01T00:00:00Z")["items"] == []
    refused(owner.request("GET", "/audit", params={"since": "yesterday"}), 422, "invalid_request")
