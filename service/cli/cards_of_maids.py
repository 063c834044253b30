"""A maid's diff for people on a terminal: lines as lines, checks and attempts in words, nothing left out (A7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from butler.types import Json
from service.cli.plain import exact_line, exact_lines, visible

SESSION_COMPLETE = "session_complete"
BAR = "│ "
"""Before each line of a diff, so that what a terminal continues can't look like one."""
STYLES: Mapping[str, str] = {"+": "green", "-": "red", "@": "cyan"}
_FILE = frozenset({"path", "status"})
_CHECK = frozenset({"outcome", "kind", "name"})
_ATTEMPT = frozenset({"attempt", "status"})


def is_diff(tool: str, args: Json) -> bool:
    """Whether it is the question about a maid's work, whose diff is a text."""
    return tool == SESSION_COMPLETE and isinstance(args.get("diff"), str)


def diff_lines(text: str) -> list[str]:
    """The diff line by line; unseen characters as escapes, also what ends a line of other systems."""
    return [BAR + visible(line) for line in text.removesuffix("\n").split("\n")]


def style_of(line: str) -> str:
    """The colour of a line of a diff."""
    return STYLES.get(line.removeprefix(BAR)[:1], "") if line.startswith(BAR) else ""


def told_lines(args: Json) -> list[str]:
    """Everything of it but the diff."""
    found: list[str] = []
    for name, value in args.items():
        if name == "diff":
            continue
        label = visible(name) if name.isidentifier() else exact_line(name)
        if isinstance(value, list) and value:
            found += [f"{label}:", *(f"  {line}" for item in value for line in _item(item))]
        else:
            first, *rest = exact_lines(value)
            found += [f"{label} = {first}", *(" " * (len(label) + 3) + line for line in rest)]
    return found


def _item(item: Any) -> Iterator[str]:
    """A list's item: its main words first, then what else it has that is not empty."""
    keys: frozenset[str] = frozenset()
    if isinstance(item, dict):
        keys = next((each for each in (_FILE, _CHECK, _ATTEMPT) if each <= item.keys()), keys)
    if not keys:
        yield from exact_lines(item)
        return
    if keys is _FILE:
        yield f"{visible(str(item['status']))}: {exact_line(item['path'])}"
    elif keys is _CHECK:
        yield f"{visible(str(item['outcome']))}: {visible(str(item['kind']))} {exact_line(item['name'])}"
    else:
        yield f"{visible(str(item['attempt']))}: {visible(str(item['status']))}"
    for name, value in item.items():
        if name not in keys and value not in (None, "", [], {}):
            first, *rest = exact_lines(value)
            lead = f"    {exact_line(name)[1:-1]} "
            yield lead + first
            yield from (" " * len(lead) + line for line in rest)
