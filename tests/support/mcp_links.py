"""MCP servers beside a registry, without a house, for tests in this process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from butler.mcp.servers import McpServers
from butler.tools.registry import ToolRegistry, Toolset
from butler.types import Invocation, Json, ToolResult
from config.mcp_file import McpServerDefinition

RAW = Path(__file__).with_name("mcp_raw.py")


def raw(mode: str, name: str = "srv", log: Path | None = None, **changes: Any) -> McpServerDefinition:
    """A server of `mcp_raw.py`."""
    args = ("-S", "-E", str(RAW), mode, *([str(log)] if log else []))
    given: dict[str, Any] = {
        "name": name, "source": "mcp.json:2", "enabled": True, "command": sys.executable, "args": args,
        "cwd": Path(), "timeout": 5.0, "startup_timeout": 30.0,
    }  # fmt: skip
    return McpServerDefinition(**given | changes)


class Bench:
    """Running servers and the registry that has their tools."""

    def __init__(self, servers: McpServers, registry: ToolRegistry) -> None:
        self.servers = servers
        self.registry = registry
        self.changes = 0
        self.changed = asyncio.Event()

    async def redefined(self) -> None:
        """Counts the changes of the registry."""
        self.changes += 1
        self.changed.set()

    async def result(self, tool: str, **args: Any) -> ToolResult:
        """Call a tool that is there."""
        await self.registry.prepare(tool)
        spec = self.registry.get(tool)
        assert spec is not None, self.registry.names()
        return await spec.run(Invocation("action", tool, args, "thread", "run", "owner"))

    async def call(self, tool: str, **args: Any) -> Json:
        """What a call gave, read from its JSON."""
        told: Json = json.loads((await self.result(tool, **args)).text)
        return told


@asynccontextmanager
async def bench(
    *definitions: McpServerDefinition, data: Path, fixed: tuple[Toolset, ...] = (), settled: bool = True
) -> AsyncIterator[Bench]:
    """Run servers, wait until it is known how they stand unless not `settled`, and end them."""
    registry = ToolRegistry(fixed)
    servers = McpServers(definitions, os.environ, data)
    servers.bring_into(registry)
    made = Bench(servers, registry)
    running = asyncio.create_task(servers.run(made.redefined))
    try:
        await servers.look()
        if settled:
            async with asyncio.timeout(30):
                while any(one.state == "starting" for one in servers.standing()):  # noqa: ASYNC110 - as they come
                    await asyncio.sleep(0.01)
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
