"""Every operation of the document, for every role, on own things, other people's, and things that are not there."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from butler.errors import STATUS_OF_CODE
from tests.security.operations import Operation, document, operations
from tests.security.rules import OUTSIDE, QUERIES, ROWS, expected, kind_of, row_of
from tests.security.stage import UNKNOWN, WHOSE, Stage
from tests.support.client import refused

OPERATIONS = operations()
CLOSED = [one for one in OPERATIONS if one.needs_token]
WHO = ("nobody", "forger", "disabled", "ended", "agent", "member", "other", "admin", "second admin")
PASSING_HEADERS = frozenset({"date", "content-length"})


def send(stage: Stage, operation: Operation, who: str, thing: str | None, whose: str | None = None) -> httpx.Response:
    """One request of the operation about that thing, with a body that is in order.

    What stands before the thing in the path is of `whose` too.
    """
    path = operation.path
    for name in operation.params:
        before = whose is not None and name != operation.params[-1]
        path = path.replace("{" + name + "}", stage.thing(name, str(whose)) if before else str(thing))
    row = row_of(operation)
    options: dict[str, Any] = {"params": QUERIES.get(str(operation))}
    if row.body is not None:
        options["data" if row.form else "json"] = row.body(str(thing))
    return stage.people[who].request(operation.method, path, **options)


def result_of(operation: Operation, response: httpx.Response) -> tuple[int, str | None]:
    """The status and the code of a refusal; where the answer holds one result, those of the result."""
    body = response.json() if "json" in response.headers.get("content-type", "") else {}
    if row_of(operation).inside and response.status_code == 200:
        [item] = body["items"]
        code = None if item["ok"] else str(item["error"]["code"])
        return STATUS_OF_CODE[code] if code else 200, code
    if response.status_code < 400:
        return response.status_code, None
    if operation.path.startswith("/v1/"):
        assert set(body["error"]) == {"message", "type", "param", "code"}
        return response.status_code, str(body["error"]["code"])
    refused(response, response.status_code, body["code"])
    return response.status_code, body["code"]


def test_every_operation_has_a_row_and_no_row_is_left_over() -> None:
    found = {str(operation) for operation in OPERATIONS}
    assert sorted(found - set(ROWS)) == [], "operations without a row in tests/security/rules.py"
    assert sorted(set(ROWS) - found) == [], "rows of operations that are gone"


def test_the_served_document_is_the_one_that_was_tested_and_needs_a_token(stage: Stage) -> None:
    assert stage.admin.get("/openapi.json") == document()
    refused(stage.people["nobody"].request("GET", "/openapi.json"), 401, "unauthorized")
    refused(stage.people["agent"].request("GET", "/openapi.json"), 403, "forbidden")


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_the_document_says_who_needs_a_token(operation: Operation) -> None:
    assert operation.needs_token is not row_of(operation).open


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("operation", CLOSED, ids=str)
def test_the_answer_is_the_one_of_the_rules(stage: Stage, operation: Operation, who: str) -> None:
    kind = kind_of(operation)
    # Who is not let in at all is asked about one thing only: wrong tokens are slowed down after some hundreds.
    for whose in (WHOSE[:1] if who in OUTSIDE else WHOSE) if kind else (None,):
        status, code = expected(operation, who, whose)
        spent = operation.method != "GET" and code is None
        thing = stage.thing(kind, whose, new=spent) if kind and whose else None
        before = stage.state() if code else None
        response = send(stage, operation, who, thing, whose)
        assert response.status_code in operation.statuses, f"{whose}: {response.status_code} is not in the document"
        assert result_of(operation, response) == (status, code), f"{whose}: {response.text}"
        if code:
            assert stage.state() == before, f"{whose}: a refused request changed something"
        if spent and kind and whose != "unknown":
            stage.thing(kind, str(whose), new=True)


@pytest.mark.parametrize("operation", [one for one in CLOSED if kind_of(one)], ids=str)
def test_what_is_someone_elses_answers_like_what_is_not_there(stage: Stage, operation: Operation) -> None:
    kind = kind_of(operation)
    assert kind is not None
    if row_of(operation).admins_only or row_of(operation).shared:
        return
    answers = []
    for whose in WHOSE:
        thing = stage.thing(kind, whose)
        response = send(stage, operation, "other", thing, whose)
        headers = {name: value for name, value in response.headers.items() if name not in PASSING_HEADERS}
        answers.append((response.status_code, headers, response.text.replace(thing, "ID")))
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    "operation", [one for one in CLOSED if one.method == "GET" and not one.params], ids=str
)  # fmt: skip
def test_no_list_shows_a_member_anything_of_others(stage: Stage, operation: Operation) -> None:
    kinds = ("thread_id", "run_id", "action_id", "grant_id")
    foreign = [stage.thing(kind, whose) for kind in kinds for whose in ("member's", "admin's")]
    answer = stage.people["other"].request("GET", operation.path).text
    assert [thing for thing in foreign if thing in answer] == []
    for parameter in operation.about.get("parameters", ()):
        if parameter["name"] in kinds:
            texts = [
                stage.people["other"].request("GET", operation.path, params={parameter["name"]: thing}).text
                for thing in (stage.thing(parameter["name"], "admin's"), UNKNOWN)
            ]
            assert texts[0] == texts[1]


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if not one.needs_token], ids=str)
def test_an_open_route_shows_nothing_of_the_house(stage: Stage, operation: Operation) -> None:
    things = [stage.thing(kind, whose) for kind in ("thread_id", "action_id") for whose in ("member's", "admin's")]
    for who in ("nobody", "forger"):
        thing = stage.thing(operation.params[-1], "admin's") if operation.params else None
        response = send(stage, operation, who, thing)
        assert response.status_code in operation.statuses & {200, 401, 404, 410}
        assert not [one for one in things if one in response.text]
        assert "mia" not in response.text
