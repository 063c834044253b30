"""All tools that a server names, page by page, with an end (E3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from butler.mcp.catalog import Catalog, catalog_of
from butler.mcp.limits import MOST_PAGES, MOST_TOOLS
from butler.mcp.reasons import Refused
from butler.types import Json
from config.mcp_file import McpServerDefinition

Ask = Callable[[str, Json, float | None], Awaitable[Json]]


async def all_tools(definition: McpServerDefinition, ask: Ask, known: Catalog | None = None) -> Catalog:
    """Ask for the tools until there are no more, or too many. Raises Refused where the answer has none."""
    raws: list[Any] = []
    cursor: str | None = None
    seen: set[str] = set()
    more = ""
    for _ in range(MOST_PAGES):
        page = await ask("tools/list", {"cursor": cursor} if cursor else {}, None)
        tools = page.get("tools")
        if not isinstance(tools, list):
            raise Refused("it answers tools/list with something else than tools")
        raws += tools
        cursor = page.get("nextCursor")
        if not cursor:
            break
        if not isinstance(cursor, str) or cursor in seen or len(raws) > MOST_TOOLS:
            more = "its list of tools goes on without end or is too long"
            break
        seen.add(cursor)
    else:
        more = f"its list has more than {MOST_PAGES} pages"
    return await asyncio.to_thread(catalog_of, definition, raws, more, known)
