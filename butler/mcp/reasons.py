"""Why a server can't be used: in Butler's words for everybody, in the server's for its keeper (E5)."""

from __future__ import annotations

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from butler.mcp.trouble import Trouble
from config.mcp_file import McpServerDefinition

NEWER = "it speaks only a version of MCP that Butler does not know yet"


CLOSED = "Connection closed"
"""How the SDK's error for a connection that has ended begins; its number is one that servers use for anything."""


class Refused(Exception):
    """A server that Butler can't use, said in Butler's words."""


def said(error: MCPError) -> str:
    """The server's own words about an error."""
    return f"{error.error.message[:1000]} (code {error.error.code})"


def has_ended(error: MCPError) -> bool:
    """Whether this is no answer of the server, but the end of the connection or of its stream."""
    return error.error.code == CONNECTION_CLOSED and error.error.message.startswith((CLOSED, "SSE stream "))


def plain(error: BaseException, told: Trouble, definition: McpServerDefinition) -> str:
    """Why it did not work, and what to do."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if told.status in (401, 403):
        return f"it answers {told.status}: correct what 'headers' send"
    if told.status:
        return f"it answers {told.status}: is 'url' the address of a streamable HTTP endpoint?"
    if isinstance(error, TimeoutError):
        seconds = definition.startup_timeout
        return f"it did not name its tools within {seconds:g} s; does it speak MCP? A slow one needs 'startup_timeout'"
    if isinstance(error, MCPError):
        return told.broken or f"it answers with the error {error.error.code}"
    if isinstance(error, (OSError, Refused)):
        return str(error)[:500]
    return f"it does not speak MCP as Butler knows it ({type(error).__name__})"


def answered(error: BaseException | None) -> str:
    """What the server said instead of what was asked."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return said(error) if isinstance(error, MCPError) else ""
