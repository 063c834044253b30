"""mcp.json: the MCP servers whose tools become Butler's, in the form that MCP clients share (E3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from config.json_source import read_json
from config.mcp_entries import SERVER_NAME, McpDocument, McpServerEntry
from config.problems import ConfigError, did_you_mean, not_looked_up
from config.strict import Checker
from config.tools_file import SECRET_HEADER
from config.verdicts import Verdict, meant
from config.yaml_source import Loc

_VARIABLE = re.compile(r"\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|[^{}]*\}?)")
_OWN_HEADERS = frozenset({"accept", "accept-encoding", "content-type", "content-length", "host", "last-event-id"})
_NOT_BEHAVIOUR = frozenset({"enabled", "disabled", "timeout", "startup_timeout", "verdict", "tools"})
_SSE = "the old SSE transport is not supported; give the address of the server's streamable HTTP endpoint instead"


@dataclass(frozen=True)
class McpToolRule:
    """What mcp.json says of one tool; `verdict` None leaves it to the server's."""

    verdict: Verdict | None = None
    enabled: bool = True


@dataclass(frozen=True)
class McpServerDefinition:
    """A checked server: `command` for one that is started, else `url`; every ``${NAME}`` is filled in.

    `timeout` and `startup_timeout` are in seconds. `declaration` is what of the entry says where the tools come from,
    as written. `secrets` are values that must not be shown, `secret_variables` the variables that hold some.
    """

    name: str
    source: str
    enabled: bool
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path()
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 60
    startup_timeout: float = 30
    verdict: Verdict | None = None
    tools: Mapping[str, McpToolRule] = field(default_factory=dict)
    declaration: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    secret_variables: frozenset[str] = frozenset()

    @property
    def origin(self) -> dict[str, Any]:
        """Where its tools come from: as written, and the program and the address as they are with all variables.

        Variables and headers count as written, since a renewed key makes no other server.
        """
        where = {"command": self.command, "args": list(self.args), "cwd": str(self.cwd), "url": self.url}
        return {"written": dict(self.declaration), **where}


def load_mcp_file(
    path: Path, environ: Mapping[str, str], *, cwd: Path | None = None
) -> tuple[McpServerDefinition, ...]:
    """Read mcp.json; an absent file names no servers.

    Args:
        environ: the variables in force; a ``${NAME}`` that is not among them and has no default is a fault.

    Raises:
        ConfigError: every fault.
    """
    checker = Checker(read_json(path, cwd))
    found = [
        definition
        for name, raw in _servers(checker)
        if (definition := _definition(checker, name, raw, path.absolute().parent, environ)) is not None
    ]
    if checker.problems:
        raise ConfigError(sorted(checker.problems, key=lambda problem: problem.line))
    return tuple(found)


def _servers(checker: Checker) -> Iterator[tuple[str, dict[str, Any]]]:
    value = checker.source.value
    if value is None:
        return
    known = [field.alias or name for name, field in McpDocument.model_fields.items()]
    if not isinstance(value, dict):
        checker.fault((), "expected an object with 'mcpServers'")
        return
    for key in value:
        if key not in known:
            checker.fault((key,), f"unknown key{did_you_mean(key, known)}")
    servers = value.get("mcpServers", {})
    if not isinstance(servers, dict):
        checker.fault(("mcpServers",), "expected an object with one entry for each server")
        return
    for name, raw in servers.items():
        place = ("mcpServers", name)
        if not re.fullmatch(SERVER_NAME, name):
            checker.fault(place, "a server's name has at most 32 letters, digits, '-' and '_', no '_' or '-' at an end")
        elif "__" in name:
            checker.fault(place, "'__' stands between a server's name and its tool's, so it can't be in the name")
        elif not isinstance(raw, dict):
            checker.fault(place, "expected an object with 'command' or 'url'")
        else:
            yield name, raw


def _definition(
    checker: Checker, name: str, raw: dict[str, Any], folder: Path, environ: Mapping[str, str]
) -> McpServerDefinition | None:
    loc: Loc = ("mcpServers", name)
    for other in ("alwaysAllow", "autoApprove"):
        if other in raw:
            checker.fault((*loc, other), 'belongs to another client; write "tools": {"NAME": {"verdict": "allow"}}')
            raw = {key: value for key, value in raw.items() if key != other}
    entry = checker.model(McpServerEntry, raw, loc)
    if entry is None:
        return None
    before = len(checker.problems)
    _check_kind(checker, loc, entry)
    filler = _Filler(checker, environ)
    filled = {
        "command": filler.one((*loc, "command"), entry.command),
        "args": [filler.one((*loc, "args", index), item) for index, item in enumerate(entry.args)],
        "env": {key: filler.one((*loc, "env", key), text, key) for key, text in entry.env.items()},
        "cwd": filler.one((*loc, "cwd"), entry.cwd),
        "url": filler.one((*loc, "url"), entry.url),
        "headers": {key: filler.one((*loc, "headers", key), text, key) for key, text in entry.headers.items()},
    }
    where = folder
    try:
        where = folder / Path(filled["cwd"] or ".").expanduser()
        where.exists()
    except (RuntimeError, OSError, ValueError) as error:
        checker.fault((*loc, "cwd"), not_looked_up(error))
    if len(checker.problems) == before:
        # A variable that is not set is one fault, not also what its absence makes of the value.
        _check_values(checker, loc, filled, where)
    if len(checker.problems) > before:
        return None
    off = entry.enabled is False or entry.disabled is True
    return McpServerDefinition(
        name=name, source=checker.place(loc), enabled=not off, command=filled["command"], args=tuple(filled["args"]),
        env=filled["env"], cwd=where, url=filled["url"], headers=filled["headers"], timeout=entry.timeout,
        startup_timeout=entry.startup_timeout, verdict=meant(entry.verdict) if entry.verdict else None,
        tools={
            tool: McpToolRule(meant(one.verdict) if one.verdict else None, one.enabled)
            for tool, one in entry.tools.items()
        },
        declaration={key: value for key, value in raw.items() if key not in _NOT_BEHAVIOUR},
        secrets=frozenset(filler.secrets), secret_variables=frozenset(filler.secret_variables),
    )  # fmt: skip


def _check_kind(checker: Checker, loc: Loc, entry: McpServerEntry) -> None:
    """A server is either a program or an address, and says nothing else of itself."""
    if (entry.command is None) == (entry.url is None):
        given = "neither" if entry.command is None else "both"
        checker.fault(loc, f"expected exactly one of 'command' and 'url', got {given}")
        return
    own, others = ("stdio", ("headers",)) if entry.command is not None else ("http", ("args", "env", "cwd"))
    for key in others:
        if key in entry.model_fields_set:
            checker.fault((*loc, key), f"has a meaning only with {'url' if own == 'stdio' else 'command'!r}")
    for key, said in (("type", entry.type), ("transport", entry.transport)):
        if said == "sse":
            checker.fault((*loc, key), _SSE)
        elif said is not None and (said == "stdio") != (own == "stdio"):
            checker.fault((*loc, key), f"says {said!r}, but the entry has {'a command' if own == 'stdio' else 'a url'}")
    if entry.enabled is not None and entry.disabled is not None and entry.enabled == entry.disabled:
        checker.fault((*loc, "disabled"), "contradicts 'enabled'")


def _check_values(checker: Checker, loc: Loc, filled: Mapping[str, Any], where: Path) -> None:
    if filled["cwd"] and not where.is_dir():
        checker.fault((*loc, "cwd"), f"{filled['cwd']!r} is no folder")
    for key, text in (("command", filled["command"]), *((f"args[{n}]", arg) for n, arg in enumerate(filled["args"]))):
        if text is not None and "\0" in text:
            checker.fault((*loc, key), "the NUL character can't be passed to a program")
    for key, text in filled["env"].items():
        if "\0" in text:
            checker.fault((*loc, "env", key), "the NUL character can't be passed to a program")
    for key, text in filled["headers"].items():
        if key.lower() in _OWN_HEADERS or key.lower().startswith("mcp-"):
            checker.fault((*loc, "headers", key), "is set by the butler itself")
        elif not text.isprintable() or not text.isascii():
            checker.fault((*loc, "headers", key), "a header holds printable ASCII on one line")
    if filled["url"] is not None and (fault := _url_fault(filled["url"])):
        checker.fault((*loc, "url"), fault)


def _url_fault(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        known = False
    if not known or not url.isascii() or any(char.isspace() for char in url):
        return "expected http:// or https:// and a host"
    if "@" in parts.netloc:
        return "holds a user name or password; send them in 'headers'"
    return "has a fragment, which is never sent" if parts.fragment else None


class _Filler:
    """Puts variables in, and notes what must not be shown."""

    def __init__(self, checker: Checker, environ: Mapping[str, str]) -> None:
        self._checker = checker
        self._environ = environ
        self.secrets: set[str] = set()
        self.secret_variables: set[str] = set()

    def one(self, loc: Loc, text: str | None, key: str = "") -> Any:
        """The text with its variables; `key` is the name under which it is passed on."""
        if text is None:
            return None
        hidden = bool(SECRET_HEADER.search(key))

        def value(found: re.Match[str]) -> str:
            name, default = found[1], found[2]
            if name is None:
                self._checker.fault(loc, f"{found[0]!r} names no environment variable")
                return ""
            if hidden or SECRET_HEADER.search(name):
                self.secret_variables.add(name)
            if not self._environ.get(name) and default is None:
                self._checker.fault(loc, f"the environment variable {name!r} is not set")
            return self._environ.get(name) or default or ""

        filled = _VARIABLE.sub(value, text)
        if hidden:
            # Written out or from a variable; with the part after "Bearer" for itself.
            self.secrets.update((filled, filled.rpartition(" ")[2]))
        return filled
