"""What can be said of the tools of MCP servers without asking the servers: their names' beginnings and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from butler.types import Verdict
from config.mcp_file import McpServerDefinition
from config.policy_file import RuleDefinition

_WILD = "*?["


def known_with_brought(
    names: Iterable[str], rules: Iterable[RuleDefinition], servers: Sequence[McpServerDefinition]
) -> tuple[str, ...]:
    """Names of tools, and what rules call tools that a server may bring: no fault can be found in those."""
    prefixes = [f"{server.name}__" for server in servers]
    return (*names, *(rule.tool for rule in rules if any(_may_be(rule.tool, prefix) for prefix in prefixes)))


def _may_be(pattern: str, prefix: str) -> bool:
    """Whether a rule for `pattern` can be about a tool whose name begins with `prefix`."""
    plain = min((place for char in _WILD if (place := pattern.find(char)) >= 0), default=None)
    return pattern.startswith(prefix) or (plain is not None and prefix.startswith(pattern[:plain]))


def verdict_in_file(tool: str, servers: Sequence[McpServerDefinition]) -> Verdict | None:
    """The own verdict that mcp.json gives a tool of this name; None for a tool of no server."""
    for server in servers:
        if tool.startswith(f"{server.name}__"):
            rule = server.tools.get(tool.removeprefix(f"{server.name}__"))
            return (rule.verdict if rule is not None else None) or server.verdict or "approve"
    return None
