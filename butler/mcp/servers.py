"""All MCP servers of a house: their tools in the registry, as they come, change and go (E3)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from butler.mcp.catalog import Catalog, LeftOut, spec_of
from butler.mcp.limits import HOUSE, LOOK_SECONDS, PREPARE_SECONDS, STOP_SECONDS
from butler.tools.registry import ToolRegistry
from butler.tools.strays import kill_strays
from butler.types import Occasion, ToolSpec
from config.mcp_file import McpServerDefinition

if TYPE_CHECKING:
    from butler.mcp.link import Link


@dataclass(frozen=True)
class Standing:
    """How one server stands: `state` is connected, starting, down or off."""

    name: str
    state: str
    why: str = ""
    tools: int = 0
    left_out: tuple[LeftOut, ...] = ()
    server: str = ""
    """How it calls itself."""
    words: str = ""
    """What it last said when it went down; as `left_out`, not for a model."""


class McpServers:
    """The servers of mcp.json. `run` keeps them; until then, and without it, none of their tools is there.

    Args:
        environ: the variables in force; servers get what their entries name.
        data_dir: marks the processes of this house, so that a later start finds those of a killed one.
    """

    def __init__(
        self, definitions: Sequence[McpServerDefinition], environ: Mapping[str, str], data_dir: Path
    ) -> None:  # fmt: skip
        self._definitions = {one.name: one for one in definitions}
        self._environ = environ
        self._house = hashlib.sha256(str(data_dir.absolute()).encode()).hexdigest()[:32]
        self._links: dict[str, Link] = {}
        self._clashes: dict[str, tuple[LeftOut, ...]] = {}
        self._registry: ToolRegistry | None = None
        self._redefined: Callable[[], Awaitable[None]] | None = None
        self._began = asyncio.Event()
        self._look_until: float | None = None
        self._changing = asyncio.Lock()

    def bring_into(self, registry: ToolRegistry) -> None:
        """Let the tools appear there."""
        self._registry = registry
        registry.outside = self

    async def run(self, redefined: Callable[[], Awaitable[None]]) -> None:
        """Keep the servers until cancelled.

        Args:
            redefined: is called after every change of the tools, when the registry has them.
        """
        self._redefined = redefined
        self._look_until = time.monotonic() + LOOK_SECONDS
        wanted = [one for one in self._definitions.values() if one.enabled]
        if not wanted:
            self._began.set()
            return
        if any(one.command is not None for one in wanted):
            await asyncio.to_thread(kill_strays, self._house, HOUSE)
        self._links = {one.name: link for one, link in zip(wanted, await self._make(wanted), strict=True)}
        self._began.set()
        keepers = [
            asyncio.create_task(link.keep(), name=f"mcp {name}") for name, link in self._links.items()
        ]  # fmt: skip
        try:
            await asyncio.wait(keepers)
        finally:
            for link in self._links.values():
                link.stop()
            await asyncio.wait(keepers, timeout=STOP_SECONDS)
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)

    async def look_once(self) -> list[Standing]:
        """Connect to every server once, all at a time, and tell how each stands; for `butler doctor`."""
        wanted = [one for one in self._definitions.values() if one.enabled]
        links = await self._make(wanted)
        await asyncio.gather(*(link.look() for link in links))
        self._links = {link.definition.name: link for link in links}
        self._gather()
        return self.standing()

    async def _make(self, wanted: Sequence[McpServerDefinition]) -> list[Link]:
        # The library takes half a second to load: only where there are servers, and beside everything else.
        module = await asyncio.to_thread(import_module, "butler.mcp.link")
        for chatty in ("client", "mcp.client", "mcp.shared"):
            # The library writes a trace for every odd message; what matters is told by what becomes of the call.
            logging.getLogger(chatty).setLevel(logging.CRITICAL)
        return [module.Link(one, self._environ, self._house, self._changed) for one in wanted]

    async def _changed(self) -> None:
        async with self._changing:
            specs = self._gather()
            if self._registry is not None:
                self._registry.replace(specs)
            if self._redefined is not None:
                await self._redefined()

    def _gather(self) -> list[ToolSpec]:
        """All tools in the order of the file; the first to have a name keeps it."""
        fixed = self._registry.fixed if self._registry is not None else {}
        taken: dict[str, str] = {name: spec.source for name, spec in fixed.items()}
        specs: list[ToolSpec] = []
        for name, link in self._links.items():
            clashes = []
            for offer in link.catalog.offers:
                if offer.full_name in taken:
                    why = f"there is a tool {offer.full_name!r} already, from {taken[offer.full_name]}"
                    clashes.append(LeftOut(offer.name, why))
                    continue
                taken[offer.full_name] = link.definition.source
                specs.append(spec_of(link.definition, offer, partial(link.call, offer), partial(_obstacle, link)))
            self._clashes[name] = tuple(clashes)
        return specs

    # ---- what the registry asks (`butler.tools.registry.Outside`)

    async def prepare(self, name: str) -> None:
        """Wait for the server that brings a tool of this name."""
        server = self._server_of(name)
        if server is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(PREPARE_SECONDS):
                await self._began.wait()
        if link := self._links.get(server):
            await link.settled()

    async def look(self) -> None:
        """Wait for servers that come up with Butler, in its first seconds and no later."""
        if self._look_until is None:
            self._look_until = time.monotonic() + LOOK_SECONDS
        left = self._look_until - time.monotonic()
        if left <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await self._began.wait()
                for link in self._links.values():
                    if link.state == "starting":
                        await link.settled(left)

    def absence(self, name: str) -> str | None:
        """Why there is no tool of that name, if a server of mcp.json would bring it."""
        server = next((one for one in self._definitions if name.startswith(f"{one}__")), None)
        if server is None:
            return None
        if not self._definitions[server].enabled:
            return f"the MCP server {server!r} is switched off in mcp.json."
        link = self._links.get(server)
        if link is None or link.state != "connected":
            why = link.why if link is not None else ""
            return f"the MCP server {server!r} is not connected ({why or 'it is starting'})."
        return f"the MCP server {server!r} offers no such tool; `butler doctor` says what is left out."

    def standing(self) -> list[Standing]:
        """How each server stands, in the order of the file."""
        return [self._stands(one) for one in self._definitions.values()]

    def _stands(self, definition: McpServerDefinition) -> Standing:
        name, link = definition.name, self._links.get(definition.name)
        if not definition.enabled:
            return Standing(name, "off")
        if link is None:
            return Standing(name, "starting")
        up = link.state == "connected"
        clashes = self._clashes.get(name, ()) if up else ()
        catalog = link.catalog if up else Catalog()
        return Standing(
            name,
            link.state,
            link.why,
            len(catalog.offers) - len(clashes),
            (*catalog.left_out, *clashes),
            link.server,
            link.words,
        )

    def _server_of(self, name: str) -> str | None:
        enabled = (one for one, each in self._definitions.items() if each.enabled)
        return next((one for one in enabled if name.startswith(f"{one}__")), None)


def _obstacle(link: Link, occasion: Occasion) -> str | None:
    """Why a call can't be carried out now; whoever asks has waited for the server already."""
    if link.state != "down":
        return None
    return f"The MCP server {link.definition.name!r} is not connected: {link.why}. Nothing was run."
