"""tools.yml: the tools a user declares, as commands without a shell or as HTTP calls (E4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from config.input_schema import schema_faults
from config.problems import ConfigError
from config.strict import Checker, Entry
from config.templates import Template
from config.tools_checks import check_placeholders, check_target, parse
from config.verdicts import Verdict, WrittenVerdict, meant
from config.yaml_source import Loc, read_yaml

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
Text = Annotated[str, Field(min_length=1)]
SECRET_HEADER = re.compile(r"auth|cookie|token|secret|key|password|credential|signature", re.IGNORECASE)


class HttpEntry(Entry):
    """The ``http`` of one tool."""

    method: Method = "POST"
    url: Text = Field(description="{name} inserts an argument, percent-encoded; ${NAME} a variable")
    body: Any = Field(None, alias="json", description="An item that is exactly '{name}' keeps its JSON type")
    headers: dict[HeaderName, str] = Field({}, description="${NAME} inserts a variable")


class ToolEntry(Entry):
    """One tool of the file."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="Unique over all toolsets")
    description: Text = Field(description="What the tool does; the model reads it")
    input_schema: dict[str, Any] = Field(description="JSON Schema 2020-12 of the arguments, type: object")
    command: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="Argument list, no shell; {name} inserts one argument's text into that item"
    )
    http: HttpEntry | None = Field(None, description="An HTTP call instead of a command")
    cwd: Text | None = Field(None, description="Working directory, relative to this file's folder")
    env: list[VariableName] | None = Field(None, description="Names of variables passed through")
    timeout: float = Field(30, gt=0, le=86_400, description="Seconds, then all its processes are killed")
    verdict: WrittenVerdict | None = Field(None, description="Default: that of the policy, else approve")
    idempotent: bool = Field(False, description="Repeated after a crash with the same BUTLER_ACTION_ID")

    @field_validator("input_schema")
    @classmethod
    def _valid_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        faults = schema_faults(schema)
        if faults:
            raise ValueError("; ".join(faults))
        return schema


class ToolsDocument(Entry):
    """The whole file, for the published schema."""

    tools: list[ToolEntry] = Field([])


@dataclass(frozen=True)
class HttpDefinition:
    """A checked HTTP call; `json` holds templates where the file had text."""

    method: str
    url: Template
    json: Any
    headers: Mapping[str, Template]


@dataclass(frozen=True)
class ToolDefinition:
    """A checked tool; `verdict` None leaves it to the policy; `declaration` is the entry as written."""

    name: str
    description: str
    input_schema: dict[str, Any]
    command: tuple[Template, ...] | None
    http: HttpDefinition | None
    cwd: Path
    env: tuple[str, ...]
    timeout: float
    verdict: Verdict | None
    idempotent: bool
    source: str
    declaration: Mapping[str, Any]

    @property
    def secret_variables(self) -> frozenset[str]:
        """The variables in headers that carry secrets, such as ``Authorization``."""
        headers = self.http.headers if self.http else {}
        return frozenset(
            variable for name, value in headers.items() if SECRET_HEADER.search(name) for variable in value.variables
        )


def load_tools_file(path: Path, environ: Mapping[str, str], *, cwd: Path | None = None) -> tuple[ToolDefinition, ...]:
    """Read tools.yml; an absent file declares nothing.

    Args:
        environ: the variables in force; a ``${NAME}`` that is not among them is a fault.

    Raises:
        ConfigError: every fault; with code ``duplicate_governed_tool`` or ``no_governed_tools`` (A2) where
            that is one of them.
    """
    source = read_yaml(path, cwd)
    checker = Checker(source)
    code = "invalid_config"
    seen: dict[str, Loc] = {}
    tools = []
    for loc, raw in checker.entries("tools", ToolsDocument):
        entry = checker.model(ToolEntry, raw, loc)
        name = raw.get("name")
        if isinstance(name, str) and name in seen:
            first = checker.place((*seen[name], "name"))
            checker.fault((*loc, "name"), f"the tool {name!r} is already declared at {first}")
            code = "duplicate_governed_tool"
        elif isinstance(name, str):
            seen[name] = loc
        check_target(checker, loc, raw, path.absolute().parent)
        check_placeholders(checker, loc, raw, environ)
        if entry is not None and not checker.problems:
            tools.append(_definition(entry, raw, checker.place((*loc, "name")), path.absolute().parent))
    if isinstance(source.value, dict) and source.value.get("tools") == []:
        checker.fault(("tools",), "is an empty list; declare a tool or remove the key")
        code = "no_governed_tools"
    if checker.problems:
        raise ConfigError(sorted(checker.problems, key=lambda problem: problem.line), code)
    return tuple(tools)


def _definition(entry: ToolEntry, raw: Mapping[str, Any], source: str, folder: Path) -> ToolDefinition:
    http = entry.http
    return ToolDefinition(
        name=entry.name,
        description=entry.description,
        input_schema=entry.input_schema,
        command=tuple(parse(item, variables=False) for item in entry.command) if entry.command else None,
        http=HttpDefinition(
            method=http.method,
            url=parse(http.url),
            json=_json_templates(http.body) if "body" in http.model_fields_set else None,
            headers={name: parse(value) for name, value in http.headers.items()},
        )
        if http
        else None,
        cwd=folder / Path(entry.cwd or ".").expanduser(),
        env=tuple(entry.env or ()),
        timeout=entry.timeout,
        verdict=meant(entry.verdict) if entry.verdict else None,
        idempotent=entry.idempotent,
        source=source,
        declaration=dict(raw),
    )


def _json_templates(value: Any) -> Any:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, list):
        return [_json_templates(item) for item in value]
    if isinstance(value, dict):
        return {key: _json_templates(item) for key, item in value.items()}
    return value
