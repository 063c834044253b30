"""All tools by name: benign ones run inline, governed ones only as policy and people say (A2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from butler.canonical import canonical_json
from butler.tools.validation import compile_schema
from butler.types import Json, ToolSpec
from config.problems import ConfigError, Problem, nearest

Kind = Literal["benign", "governed"]


@dataclass(frozen=True)
class Toolset:
    """Tools from one place; `source` names it as ``FILE:LINE`` or by a word such as ``built-in``."""

    name: str
    kind: Kind
    specs: Sequence[ToolSpec]
    source: str


class Outside(Protocol):
    """Where tools come from that come and go: what is known of them besides the registry itself."""

    async def prepare(self, name: str) -> None:
        """Wait, for some seconds at most, until a tool of that name is there if it is going to be."""

    async def look(self) -> None:
        """Wait, for some seconds after the start at most, until the tools are there."""

    def absence(self, name: str) -> str | None:
        """Why there is no tool of that name, in a sentence; None when nothing is known of it."""


class _Table:
    """The tools as they are at one moment; never changed."""

    def __init__(self, specs: dict[str, ToolSpec]) -> None:
        self.specs = specs
        self.validators: dict[str, Callable[[Any], list[str]]] = {}

    @cached_property
    def schema_text(self) -> str:
        return canonical_json(self.model_schemas)

    @cached_property
    def model_schemas(self) -> list[Json]:
        return [
            {
                "type": "function",
                "function": {
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": _for_model(spec),
                },
            }
            for spec in self.specs.values()
            if spec.offered
        ]


class ToolRegistry:
    """The tools of all toolsets; names are unique over all of them.

    What `replace` brings changes while Butler runs. It is swapped whole, so each answer here is that of one moment;
    who needs several answers of the same moment takes a `snapshot`.

    Raises:
        ConfigError: ``duplicate_governed_tool`` or ``no_governed_tools``, naming both places (A2).
    """

    def __init__(self, toolsets: Iterable[Toolset]) -> None:
        specs: dict[str, ToolSpec] = {}
        self.outside: Outside | None = None
        duplicates = []
        for toolset in toolsets:
            if toolset.kind == "governed" and not toolset.specs:
                message = f"the toolset {toolset.name!r}, declared at {toolset.source}, has no tools"
                raise ConfigError([_problem(toolset.source, "tools", message)], "no_governed_tools")
            for spec in toolset.specs:
                if spec.governed != (toolset.kind == "governed"):
                    raise ValueError(f"the tool {spec.name!r} does not belong in a {toolset.kind} toolset")
                first = specs.setdefault(spec.name, spec)
                if first is not spec:
                    message = f"the tool {spec.name!r} at {spec.source} is already declared at {first.source}"
                    duplicates.append(_problem(spec.source, "name", message))
        if duplicates:
            raise ConfigError(duplicates, "duplicate_governed_tool")
        self.fixed: Mapping[str, ToolSpec] = dict(specs)
        """Those that are there as long as Butler runs."""
        self._table = _Table(specs)

    def replace(self, specs: Sequence[ToolSpec]) -> None:
        """Put these in the place of all that are not fixed; a fixed tool keeps its name."""
        self._table = _Table({**self.fixed, **{spec.name: spec for spec in specs if spec.name not in self.fixed}})

    def snapshot(self) -> ToolRegistry:
        """The tools as they are now, whatever changes later."""
        taken = ToolRegistry(())
        taken._table, taken.outside, taken.fixed = self._table, self.outside, self.fixed
        return taken

    def absence(self, name: str) -> str | None:
        """Why a tool is not there, where that is known."""
        return self.outside.absence(name) if self.outside is not None and name not in self._table.specs else None

    async def prepare(self, name: str) -> None:
        """Give a tool that comes from outside the time to be there."""
        if self.outside is not None and name not in self.fixed:
            await self.outside.prepare(name)

    async def look(self) -> None:
        """Give all that come from outside the time to be there, soon after the start."""
        if self.outside is not None:
            await self.outside.look()

    def get(self, name: str) -> ToolSpec | None:
        """Give the tool of that name."""
        return self._table.specs.get(name)

    def offered(self, name: str) -> ToolSpec | None:
        """Give the tool of that name if people and models may call it."""
        spec = self._table.specs.get(name)
        return spec if spec is not None and spec.offered else None

    def names(self) -> tuple[str, ...]:
        """Give all names in the order of the toolsets."""
        return tuple(self._table.specs)

    def offered_names(self) -> tuple[str, ...]:
        """Give the names of all that people and models may call."""
        return tuple(name for name, spec in self._table.specs.items() if spec.offered)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Give all tools in the order of the toolsets."""
        return tuple(self._table.specs.values())

    def suggest(self, name: str) -> str | None:
        """Give the tool that an unknown name was probably meant to be."""
        return nearest(name, self.offered_names())

    def validate(self, name: str, args: Any) -> list[str]:
        """Name in sentences what is wrong with the arguments of a call; empty when they are fine (A5)."""
        table = self._table
        spec = table.specs.get(name)
        if spec is None:
            guess = self.suggest(name)
            return [f"there is no tool {name!r}" + (f" (did you mean {guess!r}?)" if guess else "")]
        if name not in table.validators:
            table.validators[name] = compile_schema(spec.input_schema, spec.secret_args)
        return table.validators[name](args)

    def model_schemas(self) -> list[Json]:
        """Give the tools as the OpenAI API wants them; the same list as long as no tool changes."""
        return self._table.model_schemas

    @property
    def schema_text(self) -> str:
        """The same as one text, for counting what the tools cost in every request."""
        return self._table.schema_text


def _for_model(spec: ToolSpec) -> Json:
    """The schema without the arguments that are for people alone."""
    if not spec.typed_args:
        return spec.input_schema
    properties = {key: about for key, about in spec.input_schema["properties"].items() if key not in spec.typed_args}
    return {**spec.input_schema, "properties": properties}


def _problem(source: str, key: str, message: str) -> Problem:
    file, _, line = source.rpartition(":")
    return Problem(file, int(line), key, message) if line.isdigit() else Problem(source, 0, key, message)
