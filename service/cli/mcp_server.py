"""`butler mcp`: Butler as an MCP server on standard input and output, for agents that start one as a program (E1)."""

from __future__ import annotations


def mcp() -> None:
    """Serve MCP on standard input and output, for an agent that starts it; speaks to the running Butler.

    Which Butler and as whom: BUTLER_URL and BUTLER_TOKEN, else the data directory of this folder.
    """
    # Imported here: no other command needs the SDK.
    import asyncio

    from service.mcp.stdio import serve

    asyncio.run(serve())
