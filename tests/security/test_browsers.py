"""What browsers may do: headers of every answer, pages of other sites, cookies that end with their token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.security.operations import Operation, operations
from tests.security.rules import kind_of
from tests.security.stage import Stage
from tests.security.test_every_route import result_of, send
from tests.support.client import refused
from tests.support.orders import fresh

OPERATIONS = operations()
CHANGING = [one for one in OPERATIONS if one.needs_token and one.method != "GET"]
SETTING_COOKIES = ("GET /", "POST /logout")
EVIL = ("http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1", "http://[", "")


@contextmanager
def browser(stage: Stage, token: str | None) -> Iterator[httpx.Client]:
    """A browser that has signed in with a token."""
    with httpx.Client(base_url=stage.server.url, trust_env=False, timeout=30) as made:
        if token is not None:
            assert made.get("/", params={"token": token}).status_code == 303
        yield made


def check_headers(operation: Operation, response: httpx.Response) -> None:
    """An answer that no other site can use, frame, sniff or keep."""
    headers = response.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    # Without any referrer browsers would send the forms of that page as if they were of another site.
    own_forms = operation.path.split("/")[1] == "memory" and "text/html" in headers.get("content-type", "")
    assert headers["referrer-policy"] == ("same-origin" if own_forms or "location" in headers else "no-referrer")
    assert not [name for name in headers if name.startswith("access-control-")]
    assert "server" not in headers and "x-powered-by" not in headers
    assert ("no-store" in headers.get("cache-control", "")) is not operation.path.startswith("/web/")
    assert ("set-cookie" in headers) <= (str(operation) in SETTING_COOKIES)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_every_answer_of_every_route_is_of_no_use_to_other_sites(stage: Stage, operation: Operation) -> None:
    kind = kind_of(operation) or next(iter(operation.params), None)
    for who, whose in (("nobody", "admin's"), ("admin", "admin's"), ("other", "admin's"), ("admin", "unknown")):
        thing = stage.thing(kind, whose, new=operation.method != "GET" and who == "admin") if kind else None
        check_headers(operation, send(stage, operation, who, thing, whose))
        if kind and who == "admin" and operation.method != "GET" and whose != "unknown":
            stage.thing(kind, whose, new=True)


@pytest.mark.parametrize("path", sorted({one.path for one in OPERATIONS}))
def test_no_route_answers_another_sites_preflight(stage: Stage, path: str) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    for who in ("nobody", "admin"):
        response = stage.people[who].request("OPTIONS", path.replace("{", "").replace("}", ""), headers=asked)
        assert response.status_code in (401, 404, 405)
        assert not [name for name in response.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("operation", CHANGING, ids=str)
def test_another_sites_page_changes_nothing_with_the_cookie(stage: Stage, operation: Operation) -> None:
    kind = kind_of(operation)
    thing = stage.thing(kind, "admin's") if kind else "none"
    path = operation.path
    for name in operation.params:
        path = path.replace("{" + name + "}", stage.thing(name, "admin's") if name != kind else thing)
    before = stage.state()
    with browser(stage, stage.admin.token) as page:
        for origin in EVIL:
            sent = {"Origin": origin, "Content-Type": "text/plain"}
            response = page.request(operation.method, path, content=b'{"message": "/help"}', headers=sent)
            assert result_of(operation, response) == (403, "forbidden")
    assert stage.state() == before


def test_the_cookie_is_for_this_house_alone_and_ends_with_the_sign_out(stage: Stage) -> None:
    with browser(stage, None) as page:
        page.cookies.set("butler_token", "planted-by-somebody")
        login = page.get("/", params={"token": stage.admin.token or ""})
        cookie = login.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
        assert "domain" not in cookie and "planted" not in cookie
        assert login.headers["location"] == "/"
    with browser(stage, stage.admin.token) as page:
        assert page.get("/threads").status_code == 200
        assert page.post("/logout", headers={"Origin": stage.server.url}).status_code == 204
        refused(page.get("/threads"), 401, "unauthorized")


def test_a_session_ends_with_its_token_its_user_and_its_role(stage: Stage) -> None:
    name = fresh("user")
    token = stage.admin.post("/users", {"name": name, "role": "member"}).json()["token"]
    spare = stage.admin.post(f"/users/{name}/tokens", {"label": "spare"}).json()
    with browser(stage, token) as first, browser(stage, spare["token"]) as second:
        assert second.get("/threads").status_code == 200
        assert stage.admin.request("DELETE", f"/users/{name}/tokens/{spare['token_id']}").status_code == 204
        refused(second.get("/threads"), 401, "unauthorized")
        assert first.get("/threads").status_code == 200
        assert stage.admin.request("PATCH", f"/users/{name}", json={"disabled": True}).status_code == 200
        refused(first.get("/threads"), 401, "unauthorized")
        stage.admin.request("PATCH", f"/users/{name}", json={"disabled": False, "role": "agent"})
        refused(first.get("/threads"), 403, "forbidden")


@pytest.mark.parametrize(
    "path", ["/", "/login", "/threads", "/threads/", "//evil.example/", "/decide/x", "/web/nothing"]
)
def test_a_forged_host_is_repeated_nowhere(stage: Stage, path: str) -> None:
    forged = {"Host": "evil.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-For": "1.2.3.4"}
    response = stage.admin.request("GET", path, headers=forged)
    assert "evil" not in response.headers.get("location", "")
    assert "evil" not in response.text.replace("//evil.example/", "")
