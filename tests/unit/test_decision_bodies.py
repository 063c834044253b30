"""Bodies of decisions, of every shape that JSON can have: an approval is never read out of anything else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from butler.approvals.decide import Decision
from butler.errors import ButlerError
from service.http.bodies import DecisionBody, GrantBody, ManyBody, ResumeBody
from service.naming import Named

WORDS = st.sampled_from(
    ["approve", "approved", "Approve", "yes", "true", "reject", "edit", "respond", "", "thread", "everyone", "*", "**"]
)
KEYS = st.sampled_from(
    [
        "decisions",
        "decision",
        "type",
        "answer",
        "approved",
        "approve",
        "action_id",
        "code",
        "args",
        "reason",
        "response",
        "grant",
        "scope",
        "confirm",
        "closed",
        "uses",
        "expires_in",
        "wait",
        "edited_action",
        "fingerprint",
        "message",
    ]
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
DECISION = st.fixed_dictionaries(
    {},
    optional={
        "decision": WORDS | JSON, "type": WORDS | JSON, "action_id": WORDS | JSON, "args": JSON, "reason": JSON,
        "response": JSON, "grant": JSON, "approved": JSON,
    },
)  # fmt: skip
BODIES = JSON | DECISION | st.fixed_dictionaries({"decisions": st.lists(DECISION | JSON, max_size=3)}) | st.builds(
    lambda answer: {"answer": answer}, JSON | st.fixed_dictionaries({"approved": JSON})
)  # fmt: skip


def read(model: type[BaseModel], body: Any) -> list[Decision]:
    """The decisions in a body; none where it is refused."""
    try:
        found = model.model_validate(body).read()  # type: ignore[attr-defined]
    except (ValidationError, ButlerError):
        return []
    if isinstance(found, Decision):
        return [found]
    return [one.decision if isinstance(one, Named) else one for one in found]


def says_approve(body: Any) -> bool:
    """Whether the body says so itself, in one of the three forms and literally."""
    if not isinstance(body, dict):
        return False
    answer = body.get("answer")
    if isinstance(answer, dict) and answer.get("approved") is True:
        return True
    decisions = body.get("decisions")
    named = decisions if isinstance(decisions, list) else [body]
    return any(isinstance(one, dict) and "approve" in (one.get("decision"), one.get("type")) for one in named)


@settings(max_examples=150)
@given(body=BODIES)
@pytest.mark.parametrize("model", [DecisionBody, ManyBody, ResumeBody], ids=lambda model: model.__name__)
def test_no_approval_comes_out_of_a_body_that_says_none(model: type[BaseModel], body: Any) -> None:
    for decision in read(model, body):
        assert decision.kind != "approve" or says_approve(body)
        assert decision.grant is None or decision.kind == "approve"
        assert (decision.args is not None) == (decision.kind == "edit")


@pytest.mark.parametrize(
    "grant",
    [
        {},
        {"scope": "all"},
        {"scope": "thread", "args": {"text": []}},
        {"scope": "thread", "args": {"text": ["**", "a"]}},
        {"scope": "thread", "args": {"text": None}},
        {"scope": "thread", "args": []},
        {"scope": "thread", "confirm": "yes"},
        {"scope": "thread", "confirm": 1},
        {"scope": "thread", "closed": "no"},
        {"scope": "thread", "uses": 0},
        {"scope": "thread", "uses": True},
        {"scope": "thread", "expires_in": 0},
        {"scope": "thread", "note": "x"},
        {"scope": "thread", "args": {"text": "x" * 2001}},
    ],
    ids=str,
)
def test_a_malformed_grant_is_refused(grant: Any) -> None:
    with pytest.raises(ValidationError):
        GrantBody.model_validate(grant)
