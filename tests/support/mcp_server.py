"""An MCP server of the official SDK for tests, over stdio or streamable HTTP; what it does can be counted.

``python -m tests.support.mcp_server LOG`` speaks stdio; with ``--http PORT`` it serves ``/mcp`` and prints the
address. Every call appends one line to LOG. The file ``LOG.version`` says how ``note`` describes itself; the tool
``renew`` writes another word into it and announces the change.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ImageContent, TextContent, ToolAnnotations


def main() -> None:
    """Serve until the input ends, or until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--http", type=int, default=None)
    options = parser.parse_args()
    server = made(options.log)
    if options.http is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=options.http)


def made(log: Path) -> MCPServer[Any]:
    """The server with its tools."""
    server: MCPServer[Any] = MCPServer("sample", log_level="ERROR")
    version = log.with_name(log.name + ".version")

    def say(line: str) -> None:
        with log.open("a") as file:
            file.write(line + "\n")

    def note(text: str) -> str:
        say(f"note {text}")
        return f"noted {text}"

    def describe() -> None:
        word = version.read_text() if version.exists() else "first"
        server.add_tool(note, description=f"Write a note ({word})")

    describe()

    @server.tool(description="Read nothing", annotations=ToolAnnotations(read_only_hint=True))
    def peek(text: str = "") -> str:
        say(f"peek {text}")
        return f"peeked {text}"

    @server.tool(description="Destroy something", annotations=ToolAnnotations(destructive_hint=True))
    def burn(text: str) -> str:
        say(f"burn {text}")
        return f"burned {text}"

    @server.tool(description="Wait for a file, then answer")
    def wait_for(path: str) -> str:
        say(f"begun {path}")
        while not os.path.exists(path):
            time.sleep(0.01)
        say(f"waited {path}")
        return "waited"

    @server.tool(description="Say much")
    def flood(size: int) -> str:
        say(f"flood {size}")
        return "x" * size

    @server.tool(description="Text and a picture")
    def picture() -> list[TextContent | ImageContent]:
        say("picture")
        return [TextContent(type="text", text="see"), ImageContent(type="image", data="QUJD", mime_type="image/png")]

    @server.tool(description="Fail")
    def fail() -> str:
        say("fail")
        raise ValueError("failed on purpose")

    @server.tool(description="End this server")
    def die() -> str:
        say("die")
        os._exit(7)

    @server.tool(description="What variables it has")
    def variables() -> str:
        return ",".join(sorted(os.environ))

    @server.tool(description="Describe note in another way")
    async def renew(word: str, context: Context) -> str:
        version.write_text(word)
        server.remove_tool("note")
        describe()
        await context.session.send_tool_list_changed()
        return "renewed"

    return server


if __name__ == "__main__":
    main()
