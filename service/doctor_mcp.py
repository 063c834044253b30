"""MCP servers for those who keep the house: `butler doctor`, /readyz and /tools (E5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from butler.mcp.servers import McpServers, Standing
from butler.redact import Redactor
from butler.tools.registry import ToolRegistry
from butler.types import Json
from config.mcp_file import McpServerDefinition
from service.doctor import Finding

if TYPE_CHECKING:
    from service.wiring import Configuration

MOST_NAMED = 10


def mcp_servers(configuration: Configuration, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Starts each server of mcp.json, or calls at its address, names its tools, and ends it again."""
    if not configuration.mcp:
        return
    redactor = configuration.redactor(environ)
    for server in configuration.mcp:
        if server.enabled and (host := _open_way(server)):
            detail = f"sends its headers to {host} unencrypted: anybody on the way can read them; use https"
            yield Finding(f"mcp server {server.name}", "note", detail)
    for standing in asyncio.run(_looked_at(configuration, environ)):
        yield _finding(standing, redactor)


def _open_way(server: McpServerDefinition) -> str:
    """The host to which headers go that may hold keys, over plain HTTP and not within this machine."""
    parts = urlsplit(server.url or "")
    host = parts.hostname or ""
    near = host == "localhost" or host.startswith("127.") or host == "::1"
    return host if parts.scheme == "http" and server.headers and not near else ""


async def _looked_at(configuration: Configuration, environ: Mapping[str, str]) -> list[Standing]:
    # Marked as another house's: the processes of a server that runs must be left alone.
    servers = McpServers(configuration.mcp, environ, configuration.settings.data_dir / "doctor")
    servers.bring_into(ToolRegistry([]))
    return await servers.look_once()


def _finding(standing: Standing, redactor: Redactor) -> Finding:
    name = f"mcp server {standing.name}"
    if standing.state == "off":
        return Finding(name, "note", "is switched off in mcp.json")
    if standing.state != "connected":
        said = f"; it says: {standing.words}" if standing.words else ""
        return Finding(name, "bad", redactor.text(f"is not connected: {standing.why}{said}"))
    told = f"{standing.tools} tool(s)" + (f" of {standing.server.strip()}" if standing.server.strip() else "")
    if not standing.left_out:
        return Finding(name, "good", redactor.text(told))
    named = "; ".join(f"{one.name}: {one.why}" for one in standing.left_out[:MOST_NAMED])
    more = len(standing.left_out) - MOST_NAMED
    return Finding(name, "note", redactor.text(f"{told}; left out: {named}{f' and {more} more' if more > 0 else ''}"))


def ready_check(servers: McpServers | None, redactor: Redactor, *, admin: bool) -> dict[str, Json]:
    """The check of /readyz: always ok, since Butler serves without; what fails and why is for admins."""
    if servers is None:
        return {}
    standings = [one for one in servers.standing() if one.state != "off"]
    connected = sum(one.state == "connected" for one in standings)
    detail = f"{connected} of {len(standings)} server(s) connected"
    waiting = [f"{one.name} is {one.state}{f' ({one.why})' if one.why else ''}" for one in standings if
               one.state != "connected"]  # fmt: skip
    if waiting:
        detail += "; " + ("; ".join(waiting) if admin else "an admin sees which are not")
    return {"mcp": {"ok": True, "detail": redactor.text(detail)}}


def lines(servers: McpServers | None) -> list[str]:
    """For /tools: the servers whose tools are not there."""
    if servers is None:
        return []
    return [
        f"- The MCP server `{one.name}` is {one.state}{f' ({one.why})' if one.why else ''}; its tools do not work now"
        for one in servers.standing()
        if one.state in ("starting", "down")
    ]
