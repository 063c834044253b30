"""What a caller expects is read strictly, and only ever adds to the maid's own checks (D1, D8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from butler.errors import ButlerError
from butler.maids.verify.profile import merged, parse_profile, profile_schema
from config.input_schema import schema_faults
from config.maid_types import (
    CommandCheck,
    ExactOutput,
    FileCheck,
    HttpCheck,
    MaidRegistryFile,
    VerificationProfile,
)

REGISTRY = MaidRegistryFile(allowed_commands=(("make", "test"),), allowed_hosts=("ci.internal",))
WHOLE = {
    "file_checks": [{"path": "out.txt", "exists": True, "contains": "formatted"}],
    "test_commands": [["make", "test"]],
    "http_checks": [{"url": "http://127.0.0.1:8000/", "expect_status": 200, "expect_body": "hello"}],
    "exact_output": [{"path": "out.txt", "expect": "formatted\n"}],
}


def test_a_whole_profile_is_read_as_it_is_written() -> None:
    assert parse_profile(WHOLE, REGISTRY, Path()) == VerificationProfile(
        (FileCheck("out.txt", True, "formatted"),),
        (CommandCheck(("make", "test")),),
        (HttpCheck("http://127.0.0.1:8000/", 200, "hello"),),
        (ExactOutput("formatted\n", path="out.txt"),),
    )
    assert parse_profile({}, REGISTRY, Path()).is_empty


@pytest.mark.parametrize(
    "value",
    [
        {"file_check": []}, {"file_checks": [{"path": "a", "contain": "b"}]}, {"file_checks": [{"path": "../a"}]},
        {"test_commands": ["make test"]}, {"test_commands": [["rm", "-rf", "."]]}, {"allowed_commands": [["rm"]]},
        {"http_checks": [{"url": "http://example.com/"}]}, {"file_checks": [{"path": "a", "exists": "yes"}]},
        {"exact_output": [{"expect": "a"}]}, {"exact_output": [{"expect": "a", "path": "b", "url": "http://[::1]/"}]},
        {"start": ["make", "test"]}, {"http_checks": [{"url": "http://127.0.0.1/", "timeout": 0}]},
    ],
)  # fmt: skip
def test_unknown_keys_wrong_types_and_what_is_not_allowed_are_refused_at_once(value: dict[str, Any]) -> None:
    with pytest.raises(ButlerError) as caught:
        parse_profile(value, REGISTRY, Path())
    assert caught.value.code == "invalid_request"


def test_the_schema_for_the_tool_is_valid_whole_and_strict() -> None:
    schema = profile_schema()
    assert schema_faults(schema) == [] and "$ref" not in str(schema)
    validator = Draft202012Validator(schema)
    assert validator.is_valid(WHOLE) and not validator.is_valid({"file_check": []})
    assert not validator.is_valid({"file_checks": [{"path": "a", "contain": "b"}]})


def test_the_caller_adds_checks_and_takes_none_away() -> None:
    maid = VerificationProfile((FileCheck("a"),), (CommandCheck(("make", "test"), 60.0),), start=("serve",))
    expect = VerificationProfile((FileCheck("a"), FileCheck("b")), (CommandCheck(("make", "test"), 1.0),), start=("x",))
    both = merged(maid, expect)
    assert both.file_checks == (FileCheck("a"), FileCheck("b"))
    assert both.test_commands == (CommandCheck(("make", "test"), 60.0), CommandCheck(("make", "test"), 1.0))
    assert both.start == ("serve",)
    assert merged(maid, None) is maid
    assert merged(VerificationProfile(), expect).start == ("x",)
