"""Planted secrets are masked in whatever form they show up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from butler.redact import MASK, Redactor, mask_args, secret_args_of
from butler.types import Invocation, ToolResult, ToolSpec
from config.settings import load_settings


def test_secrets_are_masked_in_text_and_in_nested_json() -> None:
    redactor = Redactor(["s3cr3t-value", "s3cr3t-value-longer"])
    assert redactor.text("a s3cr3t-value-longer b s3cr3t-value.") == "a *** b ***."
    value = {"s3cr3t-value": ["x", {"k": "ys3cr3t-valuez"}], "n": 1, "b": None}
    assert redactor.json(value) == {"***": ["x", {"k": "y***z"}], "n": 1, "b": None}
    assert value["n"] == 1
    assert "s3cr3t-value" in value


def test_short_values_are_left_alone() -> None:
    assert Redactor(["12345", "", "  a  "]).text("12345 a") == "12345 a"


def test_a_secret_is_masked_inside_json_text_and_urls() -> None:
    secret = 'pa"ss\\wörd &1'
    redactor = Redactor([secret])
    for shown in (
        json.dumps({"a": secret}),
        json.dumps(secret, ensure_ascii=False),
        "q=pa%22ss%5Cw%C3%B6rd%20%261",
        json.dumps({"answer": json.dumps({"a": secret})}),
        json.dumps(json.dumps(secret, ensure_ascii=False), ensure_ascii=False),
    ):
        assert MASK in redactor.text(shown)
        assert "rd" not in redactor.text(shown)


def test_secrets_come_from_the_environment_and_the_settings(tmp_path: Path) -> None:
    environ = {
        "HOOK_TOKEN": "tok-123456",
        "DB_PASSWORD": "pass-123456",
        "MY_API_KEY": "key-123456",
        "AWS_SECRET_ACCESS": "aws-123456",
        "X_CREDENTIALS": "cred-123456",
        "HOME": "/home-123456",
        "BUTLER_CONTEXT_COMPACTION_TRIGGER_TOKENS": "123456",
        "BUTLER_OWNER_TOKEN": "owner-123456",
        "HOOK": "hook-123456",
    }
    (tmp_path / ".env").write_text("BUTLER_CONTEXT_COMPACTION_API_TOKEN=compact-123456\n")
    settings = load_settings(environ, tmp_path)
    redactor = Redactor.from_environment(settings, environ, extra_names=["HOOK"])
    hidden = [*environ.values(), "compact-123456"]
    assert [value for value in hidden if redactor.text(value) != MASK] == ["/home-123456", "123456"]


@pytest.mark.parametrize("secrets", [[], ["s3cr3t-value"]])
def test_a_value_nested_beyond_measure_is_cut_off_and_breaks_nothing(secrets: list[str]) -> None:
    value: Any = "s3cr3t-value"
    for level in range(50_000):
        value = [value] if level % 2 else {"k": value}
    shown = json.dumps(Redactor(secrets).json([{"args": value, "kept": 1}]))
    assert "(nested too deeply to be shown)" in shown
    assert '"kept": 1' in shown


async def nothing(invocation: Invocation) -> ToolResult:
    return ToolResult(invocation.tool)


def test_arguments_that_the_schema_marks_as_secret_are_masked() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pin": {"type": "string", "writeOnly": True},
            "word": {"type": "string", "format": "password"},
            "text": {"type": "string", "writeOnly": False},
            "any": True,
        },
    }
    secret = secret_args_of(schema)
    assert secret == {"pin", "word"}
    spec = ToolSpec("t", "d", schema, nothing, True, "t.yml:1", "d", secret_args=secret)
    args = {"pin": 1, "text": "b"}
    assert mask_args(spec, args) == {"pin": "***", "text": "b"}
    assert args == {"pin": 1, "text": "b"}


@given(st.text(min_size=6), st.text(), st.text())
def test_no_secret_of_any_characters_survives(secret: str, before: str, after: str) -> None:
    value = secret.strip()
    redacted = Redactor([secret]).text(before + value + after)
    assert len(value) < 6 or value not in redacted or value in MASK * 9 or value in before + MASK + after
