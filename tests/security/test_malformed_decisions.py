"""Decisions that are wrong in any way, at every face that decides: nothing is decided and nothing runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.security.malformed import NO_BOOLEAN, NO_LIST, wrong_bytes, wrong_whole
from tests.security.operations import document, operations
from tests.security.stage import Stage
from tests.support.client import Json
from tests.support.orders import fresh, park

MANY = settings(
    max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)  # fmt: skip
Wrap = Callable[[Json, Any], Any]
"""Puts a decision into the body of a face; the first argument is the approval."""

FACES: dict[str, Wrap] = {
    "POST /approvals/{action_id}": lambda _, decision: decision,
    "POST /approvals": lambda approval, decision: {"decisions": [{"action_id": approval["action_id"], **decision}]},
    "POST /threads/{thread_id}/resume": lambda approval, decision: {
        "decisions": [{"action_id": approval["action_id"], **decision}]
    },
}


@dataclass(frozen=True)
class Waiting:
    """One parked action that every malformed decision has to leave as it is."""

    stage: Stage
    approval: Json

    def post(self, face: str, **options: Any) -> httpx.Response:
        """Send a request to a face about this action."""
        method, path = face.split(" ")
        for name in ("action_id", "thread_id"):
            path = path.replace("{" + name + "}", self.approval[name])
        return self.stage.admin.request(method, path, **options)

    def say(self, face: str, body: Any) -> httpx.Response:
        """The same with a body that may hold what JSON has not, such as Infinity."""
        return self.post(face, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})

    def is_untouched(self) -> bool:
        """Whether it waits as it did, and has had no effect."""
        now = self.stage.admin.approval(self.approval["action_id"])
        return now == self.approval and self.stage.server.workshop.effects(self.approval["args"]["text"]) == []


@pytest.fixture(scope="module")
def waiting(stage: Stage) -> Iterator[Waiting]:
    parked = park(stage.admin, fresh("waiting"))
    waits = Waiting(stage, stage.admin.approval(parked["approvals"][0]["action_id"]))
    yield waits
    assert waits.is_untouched()


def check(waiting: Waiting, response: httpx.Response) -> None:
    """It was refused as a request that makes no sense, and nothing happened."""
    assert response.status_code in (409, 413, 422), response.text
    assert response.json()["code"] in ("invalid_request", "stale_decision", "too_large"), response.text
    assert waiting.is_untouched()


def test_every_operation_that_takes_decisions_is_tried_here() -> None:
    schemas = json.dumps(document()["components"]["schemas"])
    assert '"approve"' in schemas
    taking = [str(one) for one in operations() if takes_decisions(one.about.get("requestBody", {}))]
    assert sorted(taking) == sorted(FACES)


def takes_decisions(schema: Any) -> bool:
    """Whether a schema somewhere has the word ``approve`` among its choices."""
    text = json.dumps(schema)
    seen: set[str] = set()
    while names := {name for name in document()["components"]["schemas"] if f'schemas/{name}"' in text} - seen:
        seen |= names
        text += "".join(json.dumps(document()["components"]["schemas"][name]) for name in names)
    return '"approve"' in text


@pytest.mark.parametrize("face", FACES)
def test_wrong_fields_and_forms_decide_nothing(waiting: Waiting, face: str) -> None:
    @MANY
    @given(body=wrong_whole(lambda decision: FACES[face](waiting.approval, decision)))
    def tried(body: Any) -> None:
        check(waiting, waiting.say(face, body))

    tried()


@pytest.mark.parametrize("face", FACES)
def test_spoilt_bytes_decide_nothing(waiting: Waiting, face: str) -> None:
    right = FACES[face](waiting.approval, {"decision": "approve"})

    @MANY
    @given(sent=wrong_bytes(right))
    def tried(sent: tuple[bytes, str]) -> None:
        check(waiting, waiting.post(face, content=sent[0], headers={"Content-Type": sent[1]}))

    tried()


@pytest.mark.parametrize("face", FACES)
def test_a_key_given_twice_decides_nothing(waiting: Waiting, face: str) -> None:
    right = json.dumps(FACES[face](waiting.approval, {"decision": "approve"}))
    for other in ('"decision": "reject"', '"decision": "approve"', '"decision": null'):
        twice = right.replace('"decision": "approve"', f'{other}, "decision": "approve"')
        headers = {"Content-Type": "application/json"}
        check(waiting, waiting.post(face, content=twice.encode(), headers=headers))


def test_answers_that_are_not_true_or_false_decide_nothing(waiting: Waiting) -> None:
    face = "POST /threads/{thread_id}/resume"

    @MANY
    @given(value=NO_BOOLEAN)
    def tried(value: Any) -> None:
        check(waiting, waiting.say(face, {"answer": {"approved": value}}))
        check(waiting, waiting.say(face, {"answer": {"approved": True, "more": value}}))
        check(waiting, waiting.say(face, {"decisions": [{"type": "approve", "more": value}]}))
        check(waiting, waiting.say(face, {"answer": {"approved": True}, "wait": value}))

    tried()


def test_decisions_that_are_no_list_decide_nothing(waiting: Waiting) -> None:
    @MANY
    @given(value=NO_LIST)
    def tried(value: Any) -> None:
        for face in FACES:
            if face != "POST /approvals/{action_id}":
                check(waiting, waiting.say(face, {"decisions": value}))

    tried()


@pytest.mark.parametrize(
    "text",
    ["/approve", "/approve ", "/approve -", "/approve *", "/approve %", "/approve _____", "/approve {code}X",
     "/approve X{code}", "/approve {short}", "/approve '{code}'", "/approve \"{code}", "/approve {code},",
     "/approve code={code}", '/approve {{"code": "{code}"}}', "/approve={code}", "/approveall {code}", "/aprove {code}",
     "approve {code}", " /approve {code}", "//approve {code}", "/deny", "/APPROVE {code}", "/approve {spaced}",
     "/approve {action}"],
)  # fmt: skip
def test_a_mistyped_command_decides_nothing(waiting: Waiting, text: str) -> None:
    code = waiting.approval["code"]
    said = text.format(code=code, short=code[:-1], spaced=" ".join(code), action=waiting.approval["action_id"])
    outcome = waiting.stage.admin.chat(said)
    assert outcome["status"] in ("failed", "done"), outcome
    assert waiting.is_untouched()


def test_whatever_else_is_typed_behind_approve_decides_nothing(waiting: Waiting) -> None:
    code = waiting.approval["code"]

    @MANY
    @given(rest=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
    def tried(rest: str) -> None:
        if code in rest.upper():
            return
        waiting.stage.admin.chat(f"/approve {rest}")
        assert waiting.is_untouched()

    tried()
