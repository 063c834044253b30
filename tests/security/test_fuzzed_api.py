"""The whole API under generated requests, good and bad: no fault of our own, and only what the document promises."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks as openapi

from tests.security.operations import Operation, document, operations
from tests.security.rules import kind_of
from tests.security.stage import Stage

SCHEMA = schemathesis.openapi.from_dict(document())
# Not: that everything a schema allows is taken, for some rules span several fields; nor that a token is asked for,
# which test_every_route looks at without meeting the limit on failures.
CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_headers_conformance,
    openapi.response_schema_conformance,
    openapi.negative_data_rejection,
]
FEW = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
MODES = {"good": GenerationMode.POSITIVE, "bad": GenerationMode.NEGATIVE}


SWITCHES = frozenset({"true", "false", "1", "0"})


def is_good_on_the_wire(operation: Operation, query: Any) -> bool:
    """Whether what was made bad does not travel: an empty value has no form in an address, headers are free."""
    sent = {name: value for name, value in (query or {}).items() if value not in (None, [], {})}
    known = {about["name"] for about in operation.about.get("parameters", ()) if about["in"] == "query"}
    return operation.method == "GET" and sent.keys() <= known and all(str(v).lower() in SWITCHES for v in sent.values())


def fuzz(stage: Stage, operation: Operation, who: str, mode: str, *, real: bool, examples: int) -> None:
    """Send generated requests; with `real`, about things of `who` that are there."""
    fixed = {name: "a-thing" for name in operation.params} if real else None
    strategy = SCHEMA[operation.path][operation.method].as_strategy(
        generation_mode=MODES[mode], path_parameters=fixed
    )  # fmt: skip
    client = stage.people[who]
    headers = {"Authorization": f"Bearer {client.token}"} if client.token else {}

    @settings(FEW, max_examples=examples)
    @given(case=strategy)
    def meets(case: Any) -> None:
        for name in operation.params if real else ():
            changes = operation.method != "GET" and name == operation.params[-1]
            case.path_parameters[name] = stage.thing(name, f"{who}'s", new=changes)
        response = case.call(stage.server.url, headers=headers, timeout=20)
        # A body too large to be read is refused as well, with a status that schemathesis does not count.
        fine = response.status_code == 413 or is_good_on_the_wire(operation, case.query)
        unseen = [openapi.negative_data_rejection] if fine else []
        case.validate_response(response, headers=headers, checks=CHECKS, excluded_checks=unseen)

    meets()


@pytest.mark.parametrize("who", ["admin", "member"])
@pytest.mark.parametrize("operation", operations(), ids=str)
def test_requests_out_of_thin_air_meet_what_the_document_says(stage: Stage, operation: Operation, who: str) -> None:
    fuzz(stage, operation, who, "good", real=False, examples=6)


@pytest.mark.parametrize("operation", [one for one in operations() if one.needs_token], ids=str)
def test_requests_without_a_token_meet_what_the_document_says(stage: Stage, operation: Operation) -> None:
    fuzz(stage, operation, "nobody", "good", real=False, examples=3)


@pytest.mark.parametrize("who", ["admin", "member"])
@pytest.mark.parametrize("mode", ["good", "bad"])
@pytest.mark.parametrize("operation", [one for one in operations() if one.params and kind_of(one)], ids=str)
def test_requests_about_real_things_meet_what_the_document_says(
    stage: Stage, operation: Operation, mode: str, who: str
) -> None:
    if mode == "bad" and not (operation.about.get("requestBody") or len(operation.about["parameters"]) > 1):
        return
    fuzz(stage, operation, who, mode, real=True, examples=12)
