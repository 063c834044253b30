"""A request that is not understood is told what is wrong with it in its own words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, FastAPI, Query
from fastapi.testclient import TestClient

from service.http import problems
from service.http.approvals import ApprovalsQuery
from service.http.bodies import ChatBody, DecisionBody, ExactJsonRoute, ResumeBody


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """The bodies of the API behind routes that do nothing."""
    router = APIRouter(route_class=ExactJsonRoute)

    @router.post("/chat")
    async def chat(body: ChatBody) -> str:
        return body.message

    @router.post("/resume")
    async def resume(body: ResumeBody) -> int:
        return len(body.read())

    @router.post("/one")
    async def one(body: DecisionBody) -> str:
        return body.read().kind

    @router.get("/list")
    async def listed(query: Annotated[ApprovalsQuery, Query()]) -> int:
        return query.limit

    app = FastAPI()
    problems.install(app)
    app.include_router(router)
    with TestClient(app) as made:
        yield made


def fault(response: Any) -> str:
    """The detail of a refusal."""
    assert response.status_code == 422, response.text
    problem = response.json()
    assert problem["code"] == "invalid_request"
    for word in ("Body", "LangChain", "function-", "list[", "dict", "Value error", "Input should", "valid "):
        assert word not in response.text
    return str(problem["detail"]).removeprefix("The request was not understood. ")


NAMED = {"code": "ABCDE"}
WORDS = "expected approve, edit, reject or respond"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"decisions": [{**NAMED, "decision": "yes"}]}, f"decisions[0].decision: {WORDS}"),
        ({"decisions": [{**NAMED}]}, "decisions[0].decision: is missing"),
        ({"decisions": [{"type": "approve"}, {"type": "yes"}]}, f"decisions[1].type: {WORDS}"),
        ({"decisions": [{"type": "approve", "code": "A"}]}, "decisions[0].code: is not known here"),
        ({"decisions": [{"decision": "approve"}]},
         "decisions[0]: name the action by `action_id` or by `code`, one of them"),
        ({"decisions": [{"type": "approve"}, {**NAMED, "decision": "approve"}]},
         "body: give all `decisions` with `decision` or all with `type`"),
        ({"decisions": ["approve"]}, "decisions[0]: expected an object"),
        ({"decisions": {}}, "decisions: expected a list"),
        ({"decisions": []}, "decisions: must have at least 1 item"),
        ({"decisions": [{**NAMED, "decision": "approve", "grant": {"scope": "thread", "uses": "many"}}]},
         "decisions[0].grant.uses: expected a whole number"),
        ({"decisions": [{"type": "edit", "edited_action": {"args": "x"}}]},
         "decisions[0].edited_action.args: expected an object"),
        ({"answer": {"approved": "yes"}}, "answer.approved: expected true or false"),
        ({}, "body: give `decisions` or `answer`, one of them"),
        ([], "body: expected an object"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_resume_is_told_which_field_of_its_own_form_is_wrong(
    client: TestClient, body: Any, detail: str
) -> None:
    assert fault(client.post("/resume", json=body)) == detail


@pytest.mark.parametrize(
    "decision", [{**NAMED, "decision": "approve"}, {"type": "approve"}, {"type": "respond", "message": "x"}], ids=str
)
def test_both_forms_of_a_decision_are_read(client: TestClient, decision: Any) -> None:
    assert client.post("/resume", json={"decisions": [decision, decision]}).json() == 2


def test_a_wrong_word_at_an_approvals_own_address_is_told_the_right_ones(client: TestClient) -> None:
    assert fault(client.post("/one", json={"decision": "yes"})) == f"decision: {WORDS}"


def test_an_empty_message_is_called_empty(client: TestClient) -> None:
    assert fault(client.post("/chat", json={"message": " "})) == "message: is empty"


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain"])
def test_json_sent_as_something_else_is_told_which_header_to_set(client: TestClient, kind: str | None) -> None:
    response = client.post("/chat", content=b'{"message": "hi"}', headers={"Content-Type": kind} if kind else {})
    assert fault(response) == "The body was not sent as JSON: set the header `Content-Type: application/json`."


@pytest.mark.parametrize(
    ("raw", "detail"),
    [
        (b'{"message": "hi",}', "The body is not JSON: Expecting property name enclosed in double quotes at line 1, "
         "column 18 (character 17)."),
        (b'{\n"message": hi}', "The body is not JSON: Expecting value at line 2, column 12 (character 13)."),
        (b'{"message": NaN}', "The body is not JSON: NaN is no JSON value."),
        (b'{"message": "\xff"}', "The body is not UTF-8: byte 13 is none."),
        (b'{"message": "\\ud800"}', "The body holds half of a surrogate pair, which is no text."),
        (b'{"message": ' + b"1" * 5000 + b"}", "The body holds a number with too many digits."),
        (b"", "body: is missing"),
    ],
    ids=lambda raw: str(raw)[:40],
)  # fmt: skip
def test_what_is_not_json_is_told_where(client: TestClient, raw: bytes, detail: str) -> None:
    assert fault(client.post("/chat", content=raw, headers={"Content-Type": "application/json"})) == detail


def test_a_wrong_query_is_told_what_is_expected(client: TestClient) -> None:
    words = "status: expected pending, approved, rejected, expired or cancelled"
    assert fault(client.get("/list", params={"status": "x"})) == words
    assert fault(client.get("/list", params={"limit": "x"})) == "limit: expected a whole number"
