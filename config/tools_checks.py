"""What a single key of tools.yml can't tell: target, folder, placeholders and variables of one entry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from config.input_schema import property_names
from config.problems import did_you_mean, not_looked_up
from config.strict import Checker
from config.templates import Template, parse_template
from config.yaml_source import Loc

_ORIGIN = re.compile(r"https?://[^/?#\\@\s]+([/?#]|\Z)")
_OWN_HEADERS = frozenset({"idempotency-key", "content-length", "transfer-encoding", "host"})


def parse(text: str, *, variables: bool = True) -> Template:
    """Read a template of the file; only HTTP calls know ``${NAME}``, a command gets variables by ``env``."""
    return parse_template(text, variables=variables)


def check_target(checker: Checker, loc: Loc, raw: Mapping[str, Any], folder: Path) -> None:
    """A tool is either a command in an existing folder or an HTTP call."""
    command, http = raw.get("command"), raw.get("http")
    if (command is None) == (http is None):
        given = "neither" if command is None else "both"
        checker.fault(loc, f"expected exactly one of 'command' and 'http', got {given}")
    if command is None:
        for key in ("cwd", "env"):
            if raw.get(key) is not None:
                checker.fault((*loc, key), "has a meaning only with 'command'")
    cwd = raw.get("cwd")
    if isinstance(cwd, str) and cwd:
        try:
            if not (folder / Path(cwd).expanduser()).is_dir():
                checker.fault((*loc, "cwd"), f"{cwd!r} is no folder below that of this file")
        except (RuntimeError, OSError) as error:
            checker.fault((*loc, "cwd"), not_looked_up(error))
    if isinstance(command, list) and command and isinstance(command[0], str) and "{" in command[0]:
        checker.fault((*loc, "command", 0), "the program can't be an argument")
    if isinstance(command, list):
        for index, item in enumerate(command):
            if isinstance(item, str) and "\0" in item:
                checker.fault((*loc, "command", index), "the NUL character can't be passed to a program")


def check_placeholders(checker: Checker, loc: Loc, raw: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Every ``{name}`` is an argument of the schema, every ``${NAME}`` a variable that is set."""
    known = property_names(raw.get("input_schema"))
    for place, text, variables in _texts(loc, raw):
        try:
            template = parse(text, variables=variables)
        except ValueError as error:
            checker.fault(place, str(error))
            continue
        for name in template.arguments:
            if name not in known:
                guess = did_you_mean(name, known)
                checker.fault(place, f"{{{name}}} is no property of input_schema{guess}")
        for name in template.variables:
            if not environ.get(name):
                checker.fault(place, f"the environment variable {name!r} is not set")
        if place == (*loc, "http", "url"):
            _check_origin(checker, place, template, environ)
        if place[-2:-1] == ("headers",):
            _check_header(checker, place)


def _check_origin(checker: Checker, place: Loc, template: Template, environ: Mapping[str, str]) -> None:
    # An argument must never choose whom the server talks to.
    text = template.fill(lambda name: "\\", lambda name: environ.get(name) or "http://unset/")
    if not _ORIGIN.match(text):
        checker.fault(place, "expected http:// or https:// and a host that holds no argument")


def _check_header(checker: Checker, place: Loc) -> None:
    if str(place[-1]).lower() in _OWN_HEADERS:
        checker.fault(place, "is set by the butler itself")


def _texts(loc: Loc, raw: Mapping[str, Any]) -> Iterator[tuple[Loc, str, bool]]:
    """Give every text that is a template: its place, and whether variables have a meaning there."""
    command = raw.get("command")
    for index, item in enumerate(command if isinstance(command, list) else []):
        if isinstance(item, str):
            yield (*loc, "command", index), item, False
    http = raw.get("http")
    if not isinstance(http, dict):
        return
    for key in ("url", "headers", "json"):
        yield from _strings(http.get(key), (*loc, "http", key))


def _strings(value: Any, loc: Loc) -> Iterator[tuple[Loc, str, bool]]:
    if isinstance(value, str):
        yield loc, value, True
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _strings(item, (*loc, key))
