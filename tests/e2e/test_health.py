"""Health: alive for whoever asks, ready with each check named."""

from __future__ import annotations

from tests.support.client import Client
from tests.support.server import ButlerServer


def test_alive(butler: ButlerServer) -> None:
    response = butler.client(None).request("GET", "/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


def test_ready_names_its_checks(butler: ButlerServer, owner: Client) -> None:
    response = owner.request("GET", "/readyz")
    assert response.status_code == 200
    assert "database" in response.text
    assert response.json()["checks"]["compaction"]["detail"].startswith("0 folds done")


def test_an_unknown_route_is_a_plain_problem(butler: ButlerServer, owner: Client) -> None:
    response = owner.request("GET", "/no/such/route")
    assert response.status_code == 404
    assert response.headers["content-type"].startswith("application/problem+json")
    assert response.json()["code"] == "not_found"


def test_a_wrong_method_is_told_all_the_right_ones(butler: ButlerServer, owner: Client) -> None:
    for path, methods in (("/decide/no-such-link", "GET, HEAD, POST"), ("/approvals", "GET, POST")):
        response = owner.request("PUT", path)
        assert (response.status_code, response.headers["allow"]) == (405, methods)


def test_a_wrong_method_changes_nothing_and_shows_no_stack(butler: ButlerServer, owner: Client) -> None:
    response = owner.request("PUT", "/chat", json={"message": "hello"})
    assert response.status_code in (404, 405)
    assert "Traceback" not in response.text
