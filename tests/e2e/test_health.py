"""Health: alive for whoever asks, ready with each check named."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from tests.support.client import Client, Json
from tests.support.server import ButlerServer, MakeButler
from tests.support.sockets import open_socket


def test_alive(butler: ButlerServer) -> None:
    response = butler.client(None).request("GET", "/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok"}


def test_ready_names_its_checks(butler: ButlerServer, owner: Client) -> None:
    response = owner.request("GET", "/readyz")
    assert response.status_code == 200
    assert "database" in response.text
    assert response.json()["checks"]["compaction"]["detail"].startswith("0 folds done")


def test_every_part_is_named_and_says_how_it_stands(butler: ButlerServer, owner: Client) -> None:
    with open_socket(owner) as admin:
        admin.send(type="CHAT", payload="/help")
        admin.turn()
        checks = owner.get("/readyz")["checks"]
    assert checks.keys() >= {"database", "checkpoints", "data_dir", "model", "compaction", "agents", "socket", "traces"}
    assert checks["agents"]["detail"].endswith(" connected")
    assert int(checks["socket"]["detail"].split()[0]) >= 1
    assert checks["traces"]["detail"] == "off"
    assert all(check["ok"] for check in checks.values())


def test_each_part_that_is_broken_is_named_and_what_to_do(make_butler: MakeButler) -> None:
    server = make_butler(BUTLER_BASE_URL="http://127.0.0.1:9/v1", BUTLER_MODEL="m").start()
    owner, data = server.client(), server.data
    unready = owner.request("GET", "/readyz")
    assert (unready.status_code, unready.json()["status"]) == (503, "not_ready")
    assert failing(unready.json()) == {"model"}
    assert "BUTLER_BASE_URL" in unready.json()["checks"]["model"]["detail"]
    data.rename(data.with_name("moved"))
    unready = owner.request("GET", "/readyz")
    assert (unready.status_code, failing(unready.json())) == (503, {"model", "data_dir"})
    assert "BUTLER_DATA_DIR" in unready.json()["checks"]["data_dir"]["detail"]
    data.with_name("moved").rename(data)
    assert failing(owner.request("GET", "/readyz").json()) == {"model"}
    for check, file, table in (
        ("database", "butler.db", "audit_head"),
        ("checkpoints", "checkpoints.db", "checkpoints"),
    ):
        with closing(sqlite3.connect(data / file)) as broken:
            broken.execute(f"ALTER TABLE {table} RENAME TO elsewhere")
            unready = owner.request("GET", "/readyz").json()
            broken.execute(f"ALTER TABLE elsewhere RENAME TO {table}")
        assert failing(unready) == {"model", check}
        assert "no such table" in unready["checks"][check]["detail"] and "doctor" in unready["checks"][check]["detail"]
    found = server.cli("doctor")
    assert found.returncode == 5
    assert "but is not ready: model: " in found.stdout


def failing(answer: Json) -> set[str]:
    return {name for name, check in answer["checks"].items() if not check["ok"]}


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
