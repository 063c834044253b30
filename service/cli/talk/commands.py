"""What can be typed after a slash: the house's commands, this shell's own, tools, and the codes that wait."""

from __future__ import annotations

import time
from collections.abc import Iterable

from butler.commands import HOUSE_COMMANDS
from butler.errors import ButlerError
from butler.types import Json
from service.cli.plain import visible
from service.cli.remote import Remote

OWN = {
    "quit": "leave",
    "threads": "list the threads that changed last",
    "open": "open a thread: NUMBER, ID or last",
}
OF_CODES = frozenset({"/approve", "/deny", "/edit", "/respond"})
FRESH_SECONDS = 5.0


class CommandWords:
    """Asks the server for what it needs, seldom, and takes silence for nothing."""

    def __init__(self, server: Remote) -> None:
        self._server = server
        self._kept: dict[str, tuple[float, list[Json]]] = {}

    def after(self, text: str) -> Iterable[tuple[str, str]]:
        """The words that may stand in place of the last one, each with what it means."""
        command, space, _ = text.partition(" ")
        if not space:
            yield from ((f"/{name}", meaning) for name, meaning in OWN.items())
            for name, line in HOUSE_COMMANDS.items():
                yield f"/{name}", line.partition(" — ")[2]
            for tool in self._items("/tools", 60.0):
                yield f"/{visible(str(tool['name']))}", visible(str(tool.get("description", "")))
        elif command in OF_CODES:
            for one in self._items("/approvals", FRESH_SECONDS, status="pending"):
                if one.get("code"):
                    yield str(one["code"]), visible(str(one["title"]))
        elif command == "/open":
            yield "last", "the thread that changed last"
        else:
            for tool in self._items("/tools", 60.0):
                if f"/{tool['name']}" == command:
                    for name, schema in (tool.get("input_schema") or {}).get("properties", {}).items():
                        if name.isidentifier() and f" {name}=" not in text:
                            said = schema.get("description", "") if isinstance(schema, dict) else ""
                            yield f"{name}=", visible(str(said))

    def _items(self, path: str, fresh: float, **params: str) -> list[Json]:
        now = time.monotonic()
        until, items = self._kept.get(path, (0.0, []))
        if now > until:
            try:
                items = list(self._server.get(path, **params)["items"])
            except (ButlerError, KeyError):
                items = []
            self._kept[path] = (now + fresh, items)
        return items
