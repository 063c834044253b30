"""One server's session: held by one task, made again when it breaks, used by every call (E3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Literal

import anyio
import structlog
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    Implementation,
    ListRootsResult,
    ToolListChangedNotification,
)

from butler.canonical import canonical_json
from butler.mcp.catalog import Catalog, Offer
from butler.mcp.limits import (
    FIRST_PAUSE,
    FRESH_SECONDS,
    IDLE_SECONDS,
    LONGEST_PAUSE,
    PING_SECONDS,
    PREPARE_SECONDS,
    REFRESH_FAR_SECONDS,
    REFRESH_SECONDS,
    RELIST_PAUSE,
    STABLE_SECONDS,
)
from butler.mcp.listing import all_tools
from butler.mcp.pipe import Streams, pipe
from butler.mcp.reasons import NEWER, Refused, answered, has_ended, plain, said
from butler.mcp.results import failure, tool_result
from butler.mcp.trouble import Trouble
from butler.mcp.wire import wire
from butler.mcp.words import plain_words, shown_name
from butler.types import Invocation, Json, ToolResult
from config.mcp_file import McpServerDefinition

log = structlog.get_logger("butler.mcp")

State = Literal["starting", "connected", "down"]
MOST_HUNG = 8
"""Calls without an answer before a connection over HTTP, each of which holds a stream open, is made anew."""


class Link:
    """The way to one server. `keep` is the one task that opens, holds and closes sessions."""

    def __init__(
        self,
        definition: McpServerDefinition,
        environ: Mapping[str, str],
        house: str,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self.definition = definition
        self.state: State = "starting"
        self.why = ""
        """Why it is down, in Butler's words."""
        self.words = ""
        """What the server last said when it went down: for its keeper, never for a model."""
        self.catalog = Catalog()
        self.server = ""
        """How the server calls itself."""
        self._environ = environ
        self._house = house
        self._changed = changed
        self._dispatcher: JSONRPCDispatcher[Any] | None = None
        self._version = ""
        self._hung = 0
        self._doubted = False
        """A call got no answer, and nothing was heard since."""
        self._running = 0
        self._told = Trouble()
        self._failures = 0
        self._whole = anyio.CancelScope()
        self._settled = asyncio.Event()
        self._poked = asyncio.Event()
        self._wake = asyncio.Event()
        self._relist = False
        self._failed_at = float("-inf")
        self._heard_at = float("-inf")

    # ---- the task that holds the session

    async def keep(self) -> None:
        """Connect, and again whenever the connection ends; until `stop`."""
        pause = FIRST_PAUSE
        with self._whole:
            while True:
                began = anyio.current_time()
                await self._once()
                if not self._failures and anyio.current_time() - began > STABLE_SECONDS:
                    pause = FIRST_PAUSE
                await anyio.sleep(FIRST_PAUSE)
                with anyio.move_on_after(pause - FIRST_PAUSE):
                    await self._poked.wait()
                pause = min(pause * 2, LONGEST_PAUSE)
                self._begin_again()

    async def _once(self) -> None:
        """One connection from beginning to end."""
        self._told = told = Trouble()
        try:
            async with self._session(told) as session:
                with anyio.fail_after(self.definition.startup_timeout):
                    catalog = await self._open(session)
                await self._take(catalog)
                await self._hold(told)
        except Exception as error:
            self._lost(told, error)
        else:
            self._lost(told, None)
        log.warning("mcp_server_down", server=self.definition.name, why=self.why, said=self.words)

    def stop(self) -> None:
        """End the session and `keep`."""
        self._whole.cancel()

    async def look(self) -> None:
        """Connect once and close again, for `butler doctor`."""
        self._told = told = Trouble()
        try:
            async with self._session(told) as session:
                with anyio.fail_after(self.definition.startup_timeout):
                    catalog = await self._open(session)
                self.catalog, self.state = catalog, "connected"
        except Exception as error:
            self._lost(told, error)

    @asynccontextmanager
    async def _session(self, told: Trouble) -> AsyncIterator[ClientSession]:
        transport = (
            pipe(self.definition, self._environ, self._house, told)
            if self.definition.command is not None
            else wire(self.definition, told)
        )
        async with transport as streams, self._client(streams) as session:
            try:
                yield session
            finally:
                self._dispatcher = None

    def _client(self, streams: Streams) -> ClientSession:
        read, write = streams
        self._dispatcher = JSONRPCDispatcher(read, write)
        # Sampling and elicitation are not offered, so the SDK declines them.
        return ClientSession(
            dispatcher=self._dispatcher,
            list_roots_callback=_no_roots,
            message_handler=self._heard,
            client_info=Implementation(name="butler", version="1"),
        )

    async def _open(self, session: ClientSession) -> Catalog:
        try:
            result = await session.initialize()
        except MCPError as error:
            if error.error.code in (UNSUPPORTED_PROTOCOL_VERSION, METHOD_NOT_FOUND):
                raise Refused(NEWER) from error
            raise
        self._version = result.protocol_version
        self.server = shown_name(f"{result.server_info.name} {result.server_info.version}")
        return (
            await all_tools(self.definition, self._ask, self.catalog)
            if result.capabilities.tools is not None
            else Catalog()
        )

    async def _hold(self, told: Trouble) -> None:
        """Until the connection ends or shall end; what changes meanwhile is looked at."""
        ended = asyncio.ensure_future(told.ended.wait())
        ended.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                pause = REFRESH_SECONDS if self.definition.url is None else REFRESH_FAR_SECONDS
                with anyio.move_on_after(pause) as waited:
                    await self._wake.wait()
                self._wake.clear()
                if told.ended.is_set():
                    return
                if self._hung >= MOST_HUNG and not self._running:
                    told.note("too many calls got no answer")
                    return
                if self._relist or waited.cancelled_caught:
                    self._relist = False
                    with anyio.fail_after(self.definition.startup_timeout):
                        await self._take(await all_tools(self.definition, self._ask, self.catalog))
                    # A server that announces changes without end is asked once in a while.
                    with anyio.move_on_after(RELIST_PAUSE):
                        await told.ended.wait()
        finally:
            ended.cancel()

    async def _take(self, catalog: Catalog) -> None:
        """These are its tools from now on."""
        new = catalog != self.catalog
        first = self.state != "connected"
        self.catalog, self.state, self.why, self.words = catalog, "connected", "", ""
        self._failures = 0
        if new or first:
            log.info(
                "mcp_server_connected", server=self.definition.name, tools=len(catalog.offers),
                left_out=[f"{one.name}: {one.why}" for one in catalog.left_out][:20],
            )  # fmt: skip
        await self._changed()
        self._settled.set()

    def _lost(self, told: Trouble, error: Exception | None) -> None:
        self.why = told.why or (plain(error, told, self.definition) if error is not None else "the connection ended")
        self.words = plain_words(told.words or answered(error))
        self._failures += self.state != "connected"
        self.state = "down"
        self._failed_at = anyio.current_time()
        self._hung, self._doubted = 0, False
        self._settled.set()

    def _begin_again(self) -> None:
        self._poked.clear()
        self._settled.clear()
        self._wake.clear()
        self._relist = False
        self.state = "starting"

    async def _heard(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._relist = True
            self._wake.set()

    # ---- what others ask of it

    async def settled(self, seconds: float = PREPARE_SECONDS) -> None:
        """Wait until it is known whether the server is there; one that is down is tried once more, if not just now."""
        with anyio.move_on_after(seconds):
            while self.state != "connected" or self._told.ended.is_set() or self._dispatcher is None:
                if self.state == "down":
                    if self._failures and anyio.current_time() - self._failed_at < FRESH_SECONDS:
                        return
                    self._poked.set()
                self._settled.clear()
                await self._settled.wait()

    def offer(self, name: str) -> Offer | None:
        """The tool of that full name as it is now."""
        return next((offer for offer in self.catalog.offers if offer.full_name == name), None)

    async def call(self, offer: Offer, invocation: Invocation) -> ToolResult:
        """Call a tool once; whatever the server does, this ends within the server's time."""
        name, seconds = self.definition.name, self.definition.timeout
        await self.settled()
        if not await self._answers():
            await self.settled()
        if self.state != "connected":
            return failure(name, f"Not run: the server is not connected ({self.why or 'it is starting'})")
        now = self.offer(offer.full_name)
        if now is None or now.digest != offer.digest:
            changed = "no longer offers this tool" if now is None else "has just defined this tool anew"
            return failure(name, f"Not run: the server {changed}. Look at its tools before you call again")
        try:
            canonical_json(invocation.args).encode()
        except ValueError as error:
            return failure(name, f"Not run: the arguments can't be sent as JSON ({type(error).__name__})")
        self._running += 1
        until = anyio.current_time() + seconds - 0.01
        try:
            # The session's own limit begins after the message is on its way, this one at once.
            with anyio.fail_after(seconds + 1):
                raw = await self._ask("tools/call", {"name": offer.name, "arguments": invocation.args}, seconds)
        except MCPError as error:
            # Servers have another meaning for the same number.
            late = error.error.code == REQUEST_TIMEOUT and anyio.current_time() >= until
            return self._no_answer() if late else self._failed(error)
        except TimeoutError:
            return self._no_answer()
        except (RuntimeError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            return failure(name, f"The connection to the server ended ({type(error).__name__}); {_UNKNOWN}")
        finally:
            self._running -= 1
            if self._hung >= MOST_HUNG:
                self._wake.set()
        return await asyncio.to_thread(tool_result, name, raw, offer.fits)

    def _failed(self, error: MCPError) -> ToolResult:
        """An error in place of an answer; where it is not the tool's, what became of the call is not known."""
        name, code, status = self.definition.name, error.error.code, self._told.status
        if self._forgotten(error):
            return failure(name, "Not run: the server has ended the session; it is begun anew, so call again")
        if has_ended(error) or status >= 400:
            self._doubted = self._relist = True
            self._wake.set()
        if has_ended(error):
            return failure(name, f"The connection to the server ended before an answer; {_UNKNOWN}")
        if code == PARSE_ERROR:
            return failure(name, f"The server's answer can't be read; {_UNKNOWN}", said(error))
        if status >= 500:
            return failure(name, f"The server answers {status}; {_UNKNOWN}", said(error))
        return failure(name, "The call failed", said(error))

    async def _answers(self) -> bool:
        """Whether the server is still there; asked only after a while of silence, or a call without an answer."""
        program, told = self.definition.url is None, self._told
        # A program that does one thing after the other may be busy with another call.
        doubted = self._doubted and not self._running
        if not doubted and (program or anyio.current_time() - self._heard_at < IDLE_SECONDS):
            return True
        try:
            with anyio.fail_after(PING_SECONDS):
                # Some programs do not know of pings; whoever has tools can name them.
                await self._ask("tools/list" if program else "ping", {}, None)
            there = True
        except MCPError as error:
            bad = told.status >= 400 and error.error.code != METHOD_NOT_FOUND
            there = not (bad or has_ended(error))
        except TimeoutError:
            there = not program  # One at an address may be busy; the call has its own time.
        except (RuntimeError, OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            there = False
        if not there:
            told.note("it has ended the session" if told.status else told.broken or _NOT_THERE)
            told.over()
        return there

    def _forgotten(self, error: MCPError) -> bool:
        """Whether the server does not know the session any more; then it is ended here too."""
        gone = self._told.status == HTTPStatus.NOT_FOUND and error.error.code != METHOD_NOT_FOUND
        if gone:
            self._told.note("it has ended the session")
            self._told.over()
        return gone

    def _no_answer(self) -> ToolResult:
        if self.definition.url is not None:
            self._hung += 1
        else:
            self._doubted = True
        return failure(self.definition.name, f"No answer within {self.definition.timeout:g} s; {_UNKNOWN}")

    async def _ask(self, method: str, params: Json, seconds: float | None) -> Json:
        if self._dispatcher is None:
            raise RuntimeError("the connection has ended")
        options: Any = {"headers": {"mcp-protocol-version": self._version}}
        if seconds is not None:
            options["timeout"] = seconds
        answer = await self._dispatcher.send_raw_request(method, params, options)
        self._heard_at = anyio.current_time()
        self._doubted = False
        return answer


_UNKNOWN = "whether it was carried out is unknown, and it is not repeated"
_NOT_THERE = "it answered nothing any more"


async def _no_roots(context: ClientRequestContext) -> ListRootsResult:
    return ListRootsResult(roots=[])
