"""The keys of mcp.json: the form that MCP clients share, and what Butler adds to it (E3)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from config.strict import Entry
from config.tools_file import HeaderName, Text, VariableName
from config.verdicts import WrittenVerdict

Kind = Literal["stdio", "http", "streamable-http", "streamableHttp", "sse"]
ToolName = Annotated[str, Field(min_length=1, max_length=128)]
SERVER_NAME = r"^[A-Za-z0-9](?:[A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$"


class McpToolEntry(Entry):
    """One tool of a server, by the name that the server gives it."""

    verdict: WrittenVerdict | None = Field(None, description="For this tool; default: that of the server")
    enabled: bool = Field(True, description="false: the tool is not offered")


class McpServerEntry(Entry):
    """One server: a program that is started, or an address."""

    command: Text | None = Field(None, description="The program of a stdio server; ${NAME} inserts a variable")
    args: list[str] = Field([], description="Its arguments, no shell; ${NAME} inserts a variable")
    env: dict[VariableName, str] = Field(
        {}, description="All that it gets besides PATH, HOME and LANG; ${NAME} inserts a variable"
    )
    cwd: Text | None = Field(None, description="Working directory, relative to this file's folder")
    url: Text | None = Field(None, description="The address of a streamable HTTP server; ${NAME} inserts a variable")
    headers: dict[HeaderName, str] = Field({}, description="Sent with every request; ${NAME} inserts a variable")
    type: Kind | None = Field(None, description="Follows from command or url; sse, the old transport, is refused")
    transport: Kind | None = Field(None, description="Another word for type")
    enabled: bool | None = Field(None, description="false: the server is left alone")
    disabled: bool | None = Field(None, description="true: the server is left alone")
    timeout: float = Field(60, gt=0, le=86_400, description="Seconds for one call")
    startup_timeout: float = Field(30, gt=0, le=3_600, description="Seconds to start and to name the tools")
    verdict: WrittenVerdict | None = Field(None, description="For all its tools; default: approve")
    tools: dict[ToolName, McpToolEntry] = Field({}, description="What holds for single tools")


class McpDocument(Entry):
    """The whole file, for the published schema."""

    editor_schema: str | None = Field(None, alias="$schema", description="For editors")
    servers: dict[Annotated[str, Field(pattern=SERVER_NAME)], McpServerEntry] = Field({}, alias="mcpServers")
