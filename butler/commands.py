"""Reading `/commands`: code reads them, never the model (http-api, *Chat*)."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from butler.exactjson import loads_exactly
from butler.tools.registry import ToolRegistry
from butler.types import Json

HOUSE_COMMANDS: dict[str, str] = {
    "help": "/help — what you can type",
    "tools": "/tools — the tools and how to call them",
    "approvals": "/approvals — what waits for a decision",
    "approve": "/approve CODE [CODE …] — run the action with that code, once",
    "deny": "/deny CODE [reason] — don't run it, and say why",
    "edit": "/edit CODE key=value … — run it with these arguments changed; {json} replaces them all",
    "respond": "/respond CODE text — don't run it, and give the text as its result",
    "compact": "/compact — fold the older part of this talk into its summary",
    "new": "/new — start a new thread",
    "search": "/search WORDS — find something in all that was said",
    "memory": "/memory [WORDS] — what is remembered of you",
    "undo": "/undo ID — take a forgotten memory back",
}


YIELDING = frozenset({"edit", "respond"})
"""House commands that give way to a tool of that name."""


class CommandError(Exception):
    """A command that can't be carried out; `code` as in butler.errors."""

    def __init__(self, message: str, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class HouseCommand:
    """A command about the house itself; `rest` is the text after its name."""

    name: str
    rest: str


def parse_house_command(text: str, tools: Collection[str] = ()) -> HouseCommand | None:
    """The house command in `text`; None for everything else, commands of `tools` included."""
    if not text.startswith("/"):
        return None
    name, *rest = text[1:].split(None, 1) or [""]
    if name not in HOUSE_COMMANDS or (name in YIELDING and name in tools):
        return None
    return HouseCommand(name, "".join(rest).strip())


def parse_tool_command(text: str, tools: ToolRegistry) -> tuple[str, str]:
    """Read ``/TOOL key=value …`` or ``/TOOL {json}``.

    Returns: the tool's name and its arguments as JSON text. Raises: CommandError with what to type instead.
    """
    parts = text[1:].strip().split(None, 1)
    name, rest = (parts[0] if parts else ""), (parts[1] if len(parts) > 1 else "")
    tool = tools.offered(name)
    if tool is None:
        if why := tools.absence(name):
            raise CommandError(f"There is no command /{name} now: {why}", "not_found")
        near = difflib.get_close_matches(name, [*HOUSE_COMMANDS, *tools.offered_names()], 1)
        hint = f" Did you mean /{near[0]}?" if near else ""
        raise CommandError(f"There is no command /{name}.{hint} /help lists them.", "not_found")
    if tool.plain_argument and not rest.startswith("{") and not _names_an_argument(rest, tool.input_schema):
        args = {tool.plain_argument: rest} if rest.strip() else {}
    else:
        args = read_arguments(name, rest, tool.input_schema)
    return name, json.dumps(args, ensure_ascii=False)


def read_arguments(name: str, text: str, schema: Json) -> Json:
    """Read ``key=value …`` or ``{json}`` after a command. Raises: CommandError with what to type instead."""
    if not text.startswith("{"):
        return _read_pairs(name, text, schema)
    try:
        args: Json = loads_exactly(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"The arguments after /{name} are not valid JSON ({error}).") from None
    return args


def _names_an_argument(rest: str, schema: Json) -> bool:
    """Whether plain words begin like ``key=value`` with a key of the tool's own."""
    key, equals, _ = rest.partition("=")
    return bool(equals) and key in schema.get("properties", {})


def _read_pairs(name: str, rest: str, schema: Json) -> Json:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise CommandError(f"Can't read the arguments of /{name}: {error}. Usage: {usage(name, schema)}") from None
    args: Json = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise CommandError(f"{word!r} is not of the form key=value. Usage: {usage(name, schema)}")
        if key in args:
            raise CommandError(f"{key!r} is given twice.")
        args[key] = _typed(value, schema.get("properties", {}).get(key, {}))
    return args


def _typed(value: str, schema: Any) -> Any:
    """Text stays text where the schema takes text; elsewhere it is read as JSON if it is JSON."""
    kinds = schema.get("type", "string") if isinstance(schema, dict) else "string"
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if "string" in kinds:
        return value
    try:
        return loads_exactly(value)
    except (ValueError, RecursionError):
        return value


def usage(name: str, schema: Json) -> str:
    """How a tool is typed: required arguments plain, optional ones in brackets."""
    required = schema.get("required", [])
    words = [key if key in required else f"[{key}]" for key in schema.get("properties", {})]
    return " ".join(
        [f"/{name}", *(word.replace("]", "=…]") if word.startswith("[") else f"{word}=…" for word in words)]
    )
