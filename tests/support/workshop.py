"""Sample declared tools whose effects can be counted and whose timing a test controls."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.polling import wait_until

_SCRIPT = '''\
"""Sample tool: MODE TEXT. Appends one line with the action id and the text, in one write."""
import os, sys
mode, text = sys.argv[1], sys.argv[2]
def append(name):
    log = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, (os.environ["BUTLER_ACTION_ID"] + "\\t" + text + "\\n").encode())
    os.close(log)
if mode == "wait":
    append("begun.log")
    os.read(os.open("gate", os.O_RDONLY), 1)
append("effects.log")
if mode == "fail":
    print("the tool broke on purpose", file=sys.stderr)
    sys.exit(3)
print("wrote " + text)
'''

_TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 500}},
    "required": ["text"],
    "additionalProperties": False,
}
_TARGET = {"type": "object", "properties": {"target": {"type": "string"}}, "required": ["target"]}


class Workshop:
    """Writes tools.yml and policy.yml into a configuration directory, and reads what the tools did.

    The standard tools have one argument ``text``: append_line (approve), note_line (allow), burn_line
    (refuse), fail_line (allow, exits 3), slow_line (approve) and slow_note (allow), which wait for `let_go`,
    steady_line (approve) and steady_note (allow), which are idempotent, plain_line (no verdict of its own);
    and delete_thing ``{target}`` (approve).
    """

    def __init__(self, config: Path) -> None:
        self.config = config
        (config / "tool.py").write_text(_SCRIPT)
        os.mkfifo(config / "gate")
        self.write_tools(*standard_tools())

    def write_tools(self, *tools: Mapping[str, Any]) -> None:
        """Replace tools.yml."""
        self._write("tools.yml", {"tools": [dict(tool) for tool in tools]})

    def write_policy(self, *rules: Mapping[str, Any], default: str = "approve") -> None:
        """Replace policy.yml."""
        self._write("policy.yml", {"default": default, "rules": [dict(rule) for rule in rules]})

    def write_mcp(self, **servers: Mapping[str, Any]) -> None:
        """Replace mcp.json."""
        (self.config / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))

    def _write(self, name: str, value: Any) -> None:
        (self.config / name).write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))

    def effects(self, text: str | None = None) -> list[tuple[str, str]]:
        """The effects so far as (action id, text), only of that text if given."""
        return self._lines("effects.log", text)

    def begun(self, text: str | None = None) -> list[tuple[str, str]]:
        """The slow tools that have started, waiting or not."""
        return self._lines("begun.log", text)

    def _lines(self, name: str, text: str | None) -> list[tuple[str, str]]:
        path = self.config / name
        if not path.exists():
            return []
        rows = [line.split("\t", 1) for line in path.read_text().splitlines()]
        return [(action, written) for action, written in rows if text is None or written == text]

    def let_go(self, seconds: float = 15.0) -> None:
        """Wait until a slow tool waits at the gate, and open it for all that wait."""

        def opened() -> int | None:
            try:
                return os.open(self.config / "gate", os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return None

        gate = wait_until(opened, "a slow tool waits at the gate", seconds)
        os.write(gate, b".")
        os.close(gate)


def tool(name: str, verdict: str | None, mode: str = "append", **extra: Any) -> dict[str, Any]:
    """One declared sample tool with the argument ``text``."""
    made: dict[str, Any] = {
        "name": name,
        "description": f"Sample tool that writes one line ({mode})",
        "input_schema": _TEXT,
        "command": [sys.executable, "-S", "-E", "tool.py", mode, "{text}"],
        "cwd": ".",
        "env": ["PATH"],
        **extra,
    }
    if verdict is not None:
        made["verdict"] = verdict
    return made


def standard_tools() -> list[dict[str, Any]]:
    """The tools every test server has unless it writes others."""
    delete = tool("delete_thing", "approve") | {"input_schema": _TARGET}
    delete["command"] = [*delete["command"][:-1], "{target}"]
    return [
        tool("append_line", "approve"),
        tool("note_line", "allow"),
        tool("burn_line", "refuse"),
        tool("fail_line", "allow", "fail"),
        tool("slow_line", "approve", "wait"),
        tool("slow_note", "allow", "wait"),
        tool("steady_line", "approve", idempotent=True),
        tool("steady_note", "allow", idempotent=True),
        tool("plain_line", None),
        delete,
    ]
