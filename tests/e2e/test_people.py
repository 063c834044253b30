"""Users and tokens at a running server: over HTTP at once, from the shell within a second."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.client import Client, refused
from tests.support.orders import approve, fresh, park
from tests.support.polling import wait_until
from tests.support.server import ButlerServer, MakeButler


def made(response: Any, status: int = 201) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["cache-control"] == "no-store"
    body: dict[str, Any] = response.json()
    return body


def new_user(butler: ButlerServer, owner: Client, role: str = "member") -> tuple[str, Client]:
    name = fresh("user")
    return name, butler.client(made(owner.post("/users", {"name": name, "role": role}))["token"])


def patch(client: Client, name: str, **change: Any) -> Any:
    return client.request("PATCH", f"/users/{name}", json=change)


def test_everybody_can_ask_who_they_are(butler: ButlerServer, owner: Client, member: Client) -> None:
    assert {owner.get("/me")["role"], member.get("/me")["role"]} == {"admin", "member"}
    assert sorted(member.get("/me")) == ["name", "role", "user_id"]


def test_an_admin_makes_users_whose_token_is_told_once(butler: ButlerServer, owner: Client) -> None:
    name, client = new_user(butler, owner)
    assert client.get("/me")["name"] == name
    listed = next(user for user in owner.get("/users")["items"] if user["name"] == name)
    assert sorted(listed) == ["created_at", "disabled", "name", "role", "user_id"]
    assert client.token is not None and client.token not in str(owner.get("/users"))
    refused(owner.post("/users", {"name": name}), 422, "invalid_request")


@pytest.mark.parametrize(
    "body",
    [{}, {"name": ""}, {"name": "a b"}, {"name": "admin"}, {"name": "x", "role": "boss"}, {"name": "x", "is": 1}, []],
)
def test_a_malformed_user_is_refused(butler: ButlerServer, owner: Client, body: Any) -> None:
    refused(owner.post("/users", body), 422, "invalid_request")


def test_a_disabled_user_is_out_at_once_and_its_thread_stays_for_others(butler: ButlerServer, owner: Client) -> None:
    name, client = new_user(butler, owner)
    outcome = park(client, fresh())
    assert patch(owner, name, disabled=True).json()["disabled"] is True
    refused(client.request("GET", "/me"), 401, "unauthorized")
    decided = owner.decided(outcome["thread_id"], approve(outcome["approvals"][0]))
    assert decided["status"] == "done"
    assert patch(owner, name, disabled=False).status_code == 200
    assert client.get("/me")["name"] == name


def test_another_role_holds_from_the_next_request_on(butler: ButlerServer, owner: Client) -> None:
    name, client = new_user(butler, owner)
    refused(client.request("GET", "/users"), 403, "forbidden")
    assert patch(owner, name, role="admin").json()["role"] == "admin"
    assert client.get("/users")["items"]
    patch(owner, name, role="agent")
    refused(client.request("GET", "/me"), 403, "forbidden")


def test_the_last_admin_stays_one_over_http_too(butler: ButlerServer, owner: Client) -> None:
    for change in ({"role": "member"}, {"disabled": True}):
        refused(patch(owner, "owner", **change), 422, "invalid_request")
    refused(patch(owner, "nobody", role="member"), 404, "not_found")
    refused(owner.request("PATCH", "/users/owner", json={"name": "x"}), 422, "invalid_request")


def test_a_user_has_several_tokens_and_ends_one_at_once(butler: ButlerServer, owner: Client) -> None:
    name, client = new_user(butler, owner)
    kept = made(client.post(f"/users/{name}/tokens", {"label": "phone", "expires_in": 3600}))
    phone = butler.client(kept["token"])
    assert phone.get("/me")["name"] == name
    listed = client.get(f"/users/{name}/tokens")["items"]
    assert [token["label"] for token in listed] == ["", "phone"]
    assert sorted(listed[1]) == ["created_at", "expires_at", "label", "token_id"]
    assert phone.request("DELETE", f"/users/{name}/tokens/{listed[0]['token_id']}").status_code == 204
    refused(client.request("GET", "/me"), 401, "unauthorized")
    assert phone.get("/me")["name"] == name


def test_a_member_manages_only_its_own_tokens(butler: ButlerServer, owner: Client) -> None:
    name, _ = new_user(butler, owner)
    _, other = new_user(butler, owner)
    [token] = owner.get(f"/users/{name}/tokens")["items"]
    path = f"/users/{name}/tokens"
    for method, address, body in (
        ("GET", path, None), ("POST", path, {}), ("DELETE", f"{path}/{token['token_id']}", None),
    ):  # fmt: skip
        refused(other.request(method, address, **({"json": body} if body is not None else {})), 404, "not_found")
    assert owner.request("DELETE", f"{path}/{token['token_id']}").status_code == 204


def test_a_token_that_the_shell_ends_is_refused_within_a_second(butler: ButlerServer, owner: Client) -> None:
    client = butler.user_add(fresh("user"), "member")
    name = client.get("/me")["name"]
    assert butler.cli("user", "token", "revoke", name, "--all").returncode == 0
    wait_until(lambda: client.request("GET", "/me").status_code == 401, "the token is refused")


def test_the_audit_names_who_changed_what_and_never_a_token(butler: ButlerServer, owner: Client) -> None:
    name, client = new_user(butler, owner)
    kept = made(client.post(f"/users/{name}/tokens", {"label": "phone"}))
    client.request("DELETE", f"/users/{name}/tokens/{kept['token_id']}")
    patch(owner, name, role="admin", disabled=True)
    rows = [row for row in owner.get("/audit", limit=1000)["items"] if row["data"].get("user") == name]
    assert [(row["event"], row["actor"], row["via"]) for row in rows] == [
        ("user_added", "owner", "http"), ("token_created", name, "http"), ("token_revoked", name, "http"),
        ("role_changed", "owner", "http"), ("user_disabled", "owner", "http"),
    ]  # fmt: skip
    assert kept["token"] not in str(rows) and str(client.token) not in str(rows)


def cookie(response: Any) -> str:
    value: str = response.headers["set-cookie"]
    return value


def test_signing_out_clears_the_cookie(butler: ButlerServer, owner: Client) -> None:
    assert "Secure" not in cookie(butler.client(None).request("GET", f"/?token={owner.token}"))
    browser = {"Cookie": f"butler_token={owner.token}"}
    anonymous = butler.client(None)
    out = anonymous.request("POST", "/logout", headers=browser)
    assert out.status_code == 204
    assert 'butler_token=""' in cookie(out) and "Max-Age=0" in cookie(out) and "HttpOnly" in cookie(out)
    page = anonymous.request("POST", "/logout", headers=browser | {"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    foreign = browser | {"Origin": "https://evil.example"}
    refused(anonymous.request("POST", "/logout", headers=foreign), 403, "forbidden")
    refused(anonymous.request("POST", "/logout"), 401, "unauthorized")
    assert owner.get("/me")["name"] == "owner"  # the token itself is still good


def test_behind_https_the_cookie_goes_no_other_way(make_butler: MakeButler) -> None:
    server = make_butler(with_model=False, BUTLER_PUBLIC_URL="https://butler.example").start()
    owner = server.client()
    signed_in = server.client(None).request("GET", f"/?token={owner.token}")
    assert signed_in.status_code == 303
    assert "Secure" in cookie(signed_in) and "SameSite=strict" in cookie(signed_in)
