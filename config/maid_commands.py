"""Argument lists in maid_registry.yml: placeholders, scripts beside the file, equality with an allowed one (D2, D8)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from config.problems import did_you_mean, nearest
from config.templates import parse_template

PLACEHOLDERS = ("instruction", "project_root", "prompt_file", "intent", "model")
GOOSE_COMMAND = ("goose", "acp", "--with-builtin", "developer")
SCRIPTS = frozenset({".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".php"})
_PLAIN = re.compile(r"[\w./:@%+=-]+\Z")

Arguments = Annotated[list[Annotated[str, Field(pattern=r"^[^\x00]*$")]], Field(min_length=1)]
Fault = tuple[tuple[str | int, ...], str]


def shown(command: Sequence[str]) -> str:
    """An argument list as it is written in YAML."""
    return f"[{', '.join(item if _PLAIN.match(item) else json.dumps(item, ensure_ascii=False) for item in command)}]"


def template_faults(template: Sequence[str], model: str | None) -> Iterator[Fault]:
    """What is wrong with a maid's command; the places are within the list."""
    for index, item in enumerate(template):
        try:
            names = parse_template(item, variables=False).arguments
        except ValueError as error:
            yield (index,), str(error)
            continue
        if index == 0 and (names or not item):
            yield (index,), "the program must be named; it can't be empty or a placeholder"
        for name in names:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
                yield (index,), f"unknown placeholder {{{name}}}; known are {known}{did_you_mean(name, PLACEHOLDERS)}"
            elif name == "model" and model is None:
                yield (index,), "{model} is used, but the model of this maid is null"


def beside(command: Sequence[str], folder: Path, *, template: bool = False) -> tuple[str, ...]:
    """The command with absolute paths for programs and scripts that stand in the registry's folder.

    A maid and its checks run in the project's tree; what lies beside the registry is out of the maid's reach.

    Args:
        template: whether braces have a meaning in the command.
    """
    found = (_found(item, folder, is_program=not index) for index, item in enumerate(command))
    if not template:
        return tuple(path or item for path, item in zip(found, command, strict=True))
    escaped = (path and path.replace("{", "{{").replace("}", "}}") for path in found)
    return tuple(path or item for path, item in zip(escaped, command, strict=True))


def _found(item: str, folder: Path, *, is_program: bool) -> str | None:
    is_meant = "/" in item if is_program else Path(item).suffix in SCRIPTS and not item.startswith("-")
    if not is_meant or "\0" in item or Path(item).is_absolute() or not (folder / item).is_file():
        return None
    return str(folder / item)


def allowed_fault(command: Sequence[str], allowed: Sequence[Sequence[str]]) -> str | None:
    """Why a command may not be run as a check: it has to equal an allowed one, item by item."""
    if tuple(command) in {tuple(entry) for entry in allowed}:
        return None
    if not allowed:
        return f"{shown(command)} is not in allowed_commands, which is empty"
    near = nearest(shown(command), [shown(entry) for entry in allowed])
    return f"{shown(command)} is not in allowed_commands" + (f" (did you mean {near}?)" if near else "")
