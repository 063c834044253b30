"""Strict validation: every fault of a file at once, with line, key and the word that was probably meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from config.problems import Problem, did_you_mean
from config.yaml_source import Loc, Source, key_of

T = TypeVar("T", bound=BaseModel)


class Entry(BaseModel):
    """Base of everything written in a file: no unknown keys, no guessing of types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Checker:
    """Validates parts of one file and collects all faults in `problems`."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = list(source.problems)

    def fault(self, loc: Loc, message: str) -> None:
        """Note one fault at a place of the file."""
        self.problems.append(Problem(self.source.file, self.source.line(loc), key_of(loc), message))

    def place(self, loc: Loc) -> str:
        """Give ``FILE:LINE`` of a place."""
        return f"{self.source.file}:{self.source.line(loc)}"

    def model(self, kind: type[T], value: Any, loc: Loc = ()) -> T | None:
        """Validate `value`, which stands at `loc`; None when it has faults."""
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self.fault(*_explain(kind, detail, loc))
            return None

    def entries(self, key: str, top: type[BaseModel]) -> Iterator[tuple[Loc, dict[str, Any]]]:
        """Check the file's outermost mapping and give the items of its list `key` that are mappings."""
        value = self.source.value
        if value is None:
            return
        if not isinstance(value, dict):
            self.fault((), f"expected a mapping with {key!r}, got {_kind(value)}")
            return
        for name in value:
            if name not in top.model_fields:
                self.fault((name,), f"unknown key{did_you_mean(name, top.model_fields)}")
        items = value.get(key, [])
        if not isinstance(items, list):
            self.fault((key,), f"expected a list, got {_kind(items)}")
            return
        for index, item in enumerate(items):
            if isinstance(item, dict):
                yield (key, index), item
            else:
                self.fault((key, index), f"expected a mapping, got {_kind(item)}")


def _explain(kind: type[BaseModel], detail: ErrorDetails, loc: Loc) -> tuple[Loc, str]:
    inner = detail["loc"][:-1] if detail["loc"][-1:] == ("[key]",) else detail["loc"]
    place = (*loc, *inner)
    value = detail["input"]
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return place, f"unknown key{did_you_mean(str(inner[-1]), _fields(kind, inner[:-1]))}"
        case "missing":
            return place, "is missing"
        case "literal_error":
            options = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            guess = did_you_mean(value, options) if isinstance(value, str) else ""
            return place, f"expected one of {', '.join(options)}, got {_shown(value)}{guess}"
        case "string_type":
            return place, f"expected text, got {_shown(value)}{_quote_it(value)}"
        case "model_type":
            return place, f"expected a mapping, got {_shown(value)}"
        case "value_error":
            return place, str(context["error"])
        case "string_pattern_mismatch":
            return place, f"{value!r} does not match {context['pattern']}"
        case _:
            message = detail["msg"].removeprefix("Input should be ")
            message = message.replace("a valid dictionary", "a mapping").replace("a valid ", "a ")
            message = message.replace("a integer", "a whole number")
            return place, f"expected {message}, got {_shown(value)}"


def _fields(kind: type[BaseModel], loc: Loc) -> list[str]:
    """Give the keys that are known at a place inside a model."""
    current: Any = kind
    for part in loc:
        options = current.model_fields if isinstance(current, type) and issubclass(current, BaseModel) else {}
        annotation = options[part].annotation if isinstance(part, str) and part in options else current
        current = next(_models(annotation), None)
    return _keys(current) if current is not None else []


def _keys(kind: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _quote_it(value: Any) -> str:
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {dict: "a mapping", list: "a list", bool: "a boolean", str: "text"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    if isinstance(value, dict | list) or value is None:
        return _kind(value)
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
