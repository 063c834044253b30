"""The registry knows each tool once and says in sentences what is wrong with a call."""

from __future__ import annotations

import time
from typing import Any

import pytest

from butler.tools.registry import ToolRegistry, Toolset
from butler.types import Invocation, ToolResult, ToolSpec
from config.problems import ConfigError

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "maxLength": 5},
        "count": {"type": "integer"},
        "slug": {"type": "string", "pattern": "^(a+)+$"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "pin": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "required": ["text"],
    "additionalProperties": False,
}


async def nothing(invocation: Invocation) -> ToolResult:
    return ToolResult(invocation.tool)


def tool(
    name: str, schema: dict[str, Any] | None = None, *, governed: bool = True, source: str = "t.yml:1"
) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=f"About {name}",
        input_schema=schema or {"type": "object"},
        run=nothing,
        governed=governed,
        source=source,
        digest="d",
        secret_args=frozenset({"pin"}),
    )


def registry(schema: dict[str, Any] | None = None) -> ToolRegistry:
    return ToolRegistry([Toolset("declared", "governed", [tool("write", schema or SCHEMA)], "t.yml:1")])


def test_tools_are_found_by_name_in_the_order_of_the_toolsets() -> None:
    benign = Toolset("memory", "benign", [tool("recall", governed=False)], "built-in")
    tools = ToolRegistry([benign, Toolset("declared", "governed", [tool("write")], "t.yml:1")])
    assert tools.names() == ("recall", "write")
    assert [spec.name for spec in tools.specs()] == ["recall", "write"]
    found = tools.get("write")
    assert found is not None
    assert found.description == "About write"
    assert tools.get("wrte") is None
    assert tools.suggest("wrte") == "write"
    assert tools.suggest("zzz") is None
    assert ToolRegistry([]).names() == ()


def test_the_model_gets_the_tools_in_openai_form_and_always_the_same_list() -> None:
    tools = registry()
    function = {"name": "write", "description": "About write", "parameters": SCHEMA}
    assert tools.model_schemas() == [{"type": "function", "function": function}]
    assert tools.model_schemas() is tools.model_schemas()


def test_a_duplicate_name_over_two_toolsets_names_both_places() -> None:
    one = Toolset("built-in", "benign", [tool("write", governed=False, source="built-in")], "built-in")
    two = Toolset("declared", "governed", [tool("write", source="config/tools.yml:7")], "config/tools.yml:2")
    with pytest.raises(ConfigError) as caught:
        ToolRegistry([one, two])
    assert caught.value.code == "duplicate_governed_tool"
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == ("config/tools.yml", 7)
    assert "config/tools.yml:7" in problem.message
    assert "already declared at built-in" in problem.message


def test_a_declared_governed_toolset_without_tools_is_an_error_and_a_benign_one_is_not() -> None:
    ToolRegistry([Toolset("memory", "benign", [], "built-in")])
    with pytest.raises(ConfigError) as caught:
        ToolRegistry([Toolset("declared", "governed", [], "tools.yml:1")])
    assert caught.value.code == "no_governed_tools"
    assert str(caught.value).startswith("tools.yml:1: tools: the toolset 'declared'")


def test_a_tool_in_a_toolset_of_the_other_kind_is_a_mistake_in_the_program() -> None:
    with pytest.raises(ValueError, match="does not belong in a benign toolset"):
        ToolRegistry([Toolset("memory", "benign", [tool("write")], "built-in")])


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        ({"text": "abc"}, []),
        ({"text": "abc", "count": 1, "tags": ["a"], "slug": "aaa", "pin": "1"}, []),
        ({}, ["'text' is a required property"]),
        ({"text": "abcdef"}, ["text: 'abcdef' is too long"]),
        ({"text": "a", "count": True}, ["count: True is not of type 'integer'"]),
        ({"text": "a", "tags": ["b", 1]}, ["tags[1]: 1 is not of type 'string'"]),
        ({"text": "a", "slug": "b"}, ["slug: 'b' does not match '^(a+)+$'"]),
        ({"text": "a", "pin": "geheim"}, ["pin: does not fit the schema (pattern)"]),
        ([], ["the arguments must be a JSON object"]),
        (None, ["the arguments must be a JSON object"]),
        ({"text": float("nan")}, ["the arguments are not JSON: ValueError"]),
        ({"text": "\ud800"}, ["the arguments are not JSON: UnicodeEncodeError"]),
        ({"text": "a" * (1 << 20)}, ["the arguments are larger than 1 MiB"]),
    ],
)
def test_what_is_wrong_with_arguments_is_said_in_sentences(args: Any, problems: list[str]) -> None:
    assert registry().validate("write", args) == problems


def test_a_mistyped_argument_comes_with_the_right_name() -> None:
    (problem,) = registry().validate("write", {"text": "a", "cuont": 1})
    assert problem.endswith("('cuont' was unexpected) (did you mean 'count'?)")


def test_an_unknown_tool_is_named_with_the_nearest() -> None:
    assert registry().validate("wirte", {}) == ["there is no tool 'wirte' (did you mean 'write'?)"]


def test_many_faults_give_a_short_list() -> None:
    problems = registry().validate("write", {"text": "a", "tags": [1] * 1000})
    assert len(problems) == 10


def test_a_careless_pattern_can_not_hang_the_butler() -> None:
    started = time.perf_counter()
    careless = {"type": "object", "properties": {"slug": {"type": "string", "pattern": "^(a|aa)+$"}}}
    (problem,) = registry(careless).validate("write", {"slug": "a" * 60 + "b"})
    assert time.perf_counter() - started < 20
    assert "could not be matched with '^(a|aa)+$' in time" in problem
    names = {"type": "object", "patternProperties": {"^(x+x+)+y$": {"type": "string"}}}
    assert registry(names).validate("write", {"x": 1}) == []
    assert registry(names).validate("write", {"xxy": 1}) == ["xxy: 1 is not of type 'string'"]


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [64, 300, 50_000])
def test_arguments_nested_beyond_measure_are_refused(levels: int) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/l"}},
        "$defs": {"l": {"items": {"$ref": "#/$defs/l"}}},
    }
    tools = registry(schema)
    assert tools.validate("write", {"a": nested(levels)}) == ["the arguments are nested more than 64 levels deep"]
    assert tools.validate("write", {"a": nested(10)}) == []
    assert registry({"type": "object"}).validate("write", {"a": nested(63)}) == []


SECRET: Any = {"user": "mia", "pin": "hunter2pass"}


@pytest.mark.parametrize(
    "keywords",
    [
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"oneOf": [{"required": ["pin"]}, {"required": ["user"]}]},
        {"not": {"required": ["pin"]}},
        {"if": {"required": ["pin"]}, "then": {"minProperties": 3}},
        {"minProperties": 3},
        {"maxProperties": 1},
        {"const": {"user": "max", "pin": "x"}},
        {"enum": [{"user": "max"}]},
        {"properties": {"pin": {"pattern": "^[0-9]+$"}}},
        {"properties": {"pin": {"anyOf": [{"type": "integer"}, {"type": "array"}]}}},
        {"patternProperties": {"^p": {"maxLength": 1}}},
        {"additionalProperties": {"maxLength": 1}},
        {"dependentSchemas": {"user": {"maxProperties": 1}}},
        {"dependentRequired": {"pin": ["other"]}},
        {"unevaluatedProperties": False},
        {"propertyNames": {"maxLength": 3}},
        {"allOf": [{"minProperties": 5}]},
    ],
    ids=lambda keywords: next(iter(keywords)),
)
def test_no_sentence_repeats_the_value_of_a_secret_argument(keywords: dict[str, Any]) -> None:
    problems = registry({"type": "object", **keywords}).validate("write", SECRET)
    assert problems
    assert "hunter2pass" not in "; ".join(problems)


def test_values_that_are_not_secret_are_repeated_in_what_is_wrong() -> None:
    (problem,) = registry({"type": "object", "minProperties": 3}).validate("write", {"user": "mia"})
    assert problem == "{'user': 'mia'} does not have enough properties"


def test_a_schema_that_refers_outside_is_never_fetched() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
    (problem,) = registry(schema).validate("write", {"a": 1})
    assert problem == "the tool's schema refers to 'http://127.0.0.1:9/schema', which can't be found"
