"""No schema and no arguments hold Butler up: neither those of a server nor those that a person types (A5, E3)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]

from butler.mcp.catalog import Catalog, catalog_of
from butler.mcp.patterns import bad_patterns
from butler.tools.validation import compile_schema
from config.input_schema import schema_faults
from config.mcp_file import McpServerDefinition

SLOW = "^(a+)+$"
SERVER = McpServerDefinition("srv", "mcp.json:2", True, command="x", cwd=Path("/"))


def told(schema: dict[str, Any], value: Any) -> tuple[list[str], float]:
    began = time.monotonic()
    return compile_schema({"type": "object", **schema})(value), time.monotonic() - began


def test_a_name_that_is_searched_for_slow_patterns_is_given_up_in_time() -> None:
    problems, seconds = told({"patternProperties": {SLOW: {}}, "additionalProperties": False}, {"a" * 60 + "!": 1})
    assert problems and seconds < 10


def test_names_that_the_patterns_allow_are_fine_and_others_are_named() -> None:
    schema = {"properties": {"n": {}}, "patternProperties": {"^x-": {}}, "additionalProperties": False}
    assert told(schema, {"n": 1, "x-a": 1})[0] == []
    assert told(schema, {"y": 1})[0] == ["Additional properties are not allowed ('y' was unexpected)"]
    assert told({"additionalProperties": {"type": "string"}}, {"y": 1})[0] == ["y: 1 is not of type 'string'"]
    assert told({"additionalProperties": True}, {"y": 1})[0] == []


def test_many_names_and_many_patterns_end_in_time() -> None:
    patterns: dict[str, Any] = {f"^(a+)+{number}$": {} for number in range(40)}
    problems, seconds = told(
        {"patternProperties": patterns, "additionalProperties": False}, {"a" * 30 + str(n) + "!": 1 for n in range(40)}
    )
    assert problems and seconds < 10


def test_a_schema_whose_names_can_not_be_checked_in_time_is_a_fault() -> None:
    schema = {"type": "object", "patternProperties": {SLOW: {}}, "unevaluatedProperties": False}
    assert "use 'additionalProperties'" in schema_faults(schema)[0]


@pytest.mark.parametrize(
    ("items", "unique"),
    [([1, 1.0], False), ([1, True], True), ([{"a": 1}, {"a": 1.0}], False), ([[], {}], True), (["1", 1], True)],
)
def test_items_are_unique_as_json_is(items: list[Any], unique: bool) -> None:
    problems, _ = told({"properties": {"x": {"uniqueItems": True}}}, {"x": items})
    assert problems == [] if unique else "non-unique" in problems[0]


def test_many_items_are_checked_for_being_unique_in_time() -> None:
    problems, seconds = told({"properties": {"x": {"uniqueItems": True}}}, {"x": [{"n": n} for n in range(40_000)]})
    assert problems == [] and seconds < 10


@pytest.mark.parametrize(
    "pattern",
    ["((x{1000}){1000}){2}", "(((x{100}){100}){100})", "x{100000}", "(?x)(x{90}) #c\n{1000}", "(x{1000}) {1000}"],
)
def test_a_pattern_that_would_take_all_memory_is_not_looked_at(pattern: str) -> None:
    assert "repeats too much" in bad_patterns({"properties": {"x": {"pattern": pattern}}})[0]


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        r"^([0-9A-F]{2}:){5}[0-9A-F]{2}$",
        r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$",
        r"^(([a-z0-9]{1,63})\.){1,127}[a-z]{2,63}$",
        r"^0x[a-fA-F0-9]{64}$",
        r"^.{1,5000}$",
    ],
)
def test_patterns_as_servers_have_them_are_fine(pattern: str) -> None:
    assert bad_patterns({"properties": {"x": {"pattern": pattern}}}) == []
    regex.compile(pattern)


def wide(name: str) -> dict[str, Any]:
    properties = {f"p{n}": {"type": "string", "description": "x" * 200} for n in range(80)}
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def test_schemas_that_are_too_much_together_are_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("butler.mcp.catalog.MOST_SCHEMAS", 50_000)
    found = catalog_of(SERVER, [wide(f"t{n}") for n in range(6)])
    assert [one.name for one in found.offers] == ["t0", "t1"]
    assert "more than 50000 characters all together" in found.left_out[0].why


def test_a_list_that_names_the_same_again_is_the_same_and_is_not_looked_through_again() -> None:
    raws = [{**wide(f"t{n}"), "outputSchema": {"type": "object"}} for n in range(5)]
    first = catalog_of(SERVER, raws)
    again = catalog_of(SERVER, raws, known=first)
    assert again == first == catalog_of(SERVER, raws)
    assert all(one is other for one, other in zip(first.offers, again.offers, strict=True))
    changed = catalog_of(SERVER, [{**raws[0], "description": "new"}, *raws[1:]], known=first)
    assert changed.offers[0].digest != first.offers[0].digest and changed.offers[1] is first.offers[1]


@pytest.mark.parametrize("raw", [1, {}, {"name": "bad name", "inputSchema": {"type": "object"}}])
def test_of_a_list_without_end_only_the_beginning_is_looked_at(raw: Any) -> None:
    began = time.monotonic()
    found = catalog_of(SERVER, [raw] * 500_000, known=Catalog())
    assert len(found.left_out) < 1_100 and "only the first 1000" in found.left_out[-1].why
    assert time.monotonic() - began < 10
