"""Cursors that no list gave and files that are not there are refused like any other slip, never a fault of ours."""

from __future__ import annotations

import base64

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from butler.errors import ButlerError
from service.approvals import decode_cursor, encode_cursor
from service.http import problems
from service.http.pages import page_routes


def written(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    [
        written(b"[" * 3000), written(b"[" * 200), written(b'["\\ud800","x"]'), written(b'["\\u0000","x"]'),
        written(b'["a"]'), written(b'["a",1]'), written(b'{"a":1}'), written(b"\xff\xfe"), written(b"1" * 200),
        "@@@", "é", "\ud800", "x" * 5000, "a",
    ],
    ids=range(14),
)  # fmt: skip
def test_a_cursor_that_no_list_gave_is_refused(cursor: str) -> None:
    with pytest.raises(ButlerError) as refused:
        decode_cursor(cursor)
    assert refused.value.code == "invalid_request"


def test_a_cursor_that_a_list_gave_is_read() -> None:
    assert decode_cursor(encode_cursor("2031-01-01T00:00:00.000000Z", "an-id")) == (
        "2031-01-01T00:00:00.000000Z",
        "an-id",
    )


@pytest.mark.parametrize("name", ["a" * 5000 + ".css", "%00.js", "..%2f..%2fserver.py", "login.html"])
def test_a_file_that_the_page_has_not_is_not_found(name: str) -> None:
    app = FastAPI()
    problems.install(app)
    app.include_router(page_routes())
    with TestClient(app) as client:
        response = client.get(f"/web/{name}")
    assert response.status_code == 404
    assert response.json()["code"] == "not_found"
