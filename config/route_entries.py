"""The keys of intent_maid_routes.yml and the type of each; conditions are data (D2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from config.maid_commands import Fault
from config.maid_types import Adoption, FailureClass
from config.strict import Entry

MAX_FILES = 20_000
"""How many files of a project are looked at."""
MAID_CONDITIONS = ("healthy", "min_success_rate", "min_runs", "adoption", "local_only")
"""Conditions on the maid itself."""

Text = Annotated[str, Field(min_length=1)]
Chars = Annotated[int, Field(ge=0, le=10_000_000)]
Files = Annotated[int, Field(ge=0, le=MAX_FILES)]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Globs = Annotated[
    list[Text],
    Field(min_length=1),
    BeforeValidator(_listed),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            ]
        }
    ),
]


def _parameter(value: Any) -> Any:
    if not isinstance(value, str | bool | int | float) and not (
        isinstance(value, list) and value and all(isinstance(item, str) for item in value)
    ):
        raise ValueError("expected a glob, a list of globs, a number or a boolean")
    return value


Parameter = Annotated[
    Any,
    BeforeValidator(_parameter),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "boolean"]},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]


class ConditionsEntry(Entry):
    """When a route holds: all of these together; none at all holds always."""

    min_instruction_chars: Chars | None = None
    max_instruction_chars: Chars | None = None
    project: Globs | None = Field(None, description="Globs on the project's resolved path, ~ allowed; one has to match")
    files_match: Globs | None = Field(None, description="Globs on the project's files; one file has to match one")
    files_count_min: Files | None = None
    files_count_max: Files | None = None
    parameters: dict[str, Parameter] = Field({}, description="Parameters of the task: a glob each, or several")
    healthy: Literal[True] | None = Field(None, description="The maid could start now")
    min_success_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Share of the maid's finished tasks that succeeded; holds before min_runs of them"
    )
    min_runs: Annotated[int, Field(ge=1, le=10_000)] = Field(5, description="Tasks before min_success_rate counts")
    adoption: Annotated[list[Adoption], Field(min_length=1)] | None = Field(
        None, description="What `butler maids evaluate` found the maid to be"
    )
    local_only: Literal[True] | None = Field(None, description="The maid sends nothing to another machine")


class RetryPolicyEntry(Entry):
    """How often a task is tried."""

    max_attempts: Annotated[int, Field(ge=1, le=10)] = 3
    retry_on: list[FailureClass] | None = Field(None, description="Default: every class that can be retried")


class RouteEntry(Entry):
    """One route of the file."""

    intent: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")
    maid_id: Text | None = Field(description="null: not delegated")
    conditions_json: ConditionsEntry = Field(ConditionsEntry(), description="All must hold; none: always")
    retry_policy_json: RetryPolicyEntry | None = None


class RoutesDocument(Entry):
    """The whole file, for the published schema."""

    routes: list[RouteEntry] = Field([], description="In file order: the first whose conditions hold")


def contradictions(entry: RouteEntry) -> Iterator[Fault]:
    """What no single key can tell; the places are within the route."""
    conditions = entry.conditions_json
    for least, most in (("min_instruction_chars", "max_instruction_chars"), ("files_count_min", "files_count_max")):
        low, high = getattr(conditions, least), getattr(conditions, most)
        if low is not None and high is not None and low > high:
            yield ("conditions_json", least), f"is more than {most} ({high}), so the route can never win"
    for index, glob in enumerate(conditions.project or ()):
        if not glob.startswith(("/", "~/", "*", "[", "?")) and glob != "~":
            place = ("conditions_json", "project", index)
            yield place, f"{glob!r} can't match an absolute path; begin it with '/', '~/' or '*'"
    given = conditions.model_fields_set
    if "min_runs" in given and conditions.min_success_rate is None:
        yield ("conditions_json", "min_runs"), "has a meaning only with min_success_rate"
    if entry.maid_id is None:
        for key in MAID_CONDITIONS:
            if key in given and getattr(conditions, key) is not None:
                yield ("conditions_json", key), "is about a maid, but maid_id is null"
        if entry.retry_policy_json is not None:
            yield ("retry_policy_json",), "has a meaning only with a maid, but maid_id is null"
