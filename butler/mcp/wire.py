"""A server at an address: streamable HTTP with bounded answers and times (E3)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, PARSE_ERROR

from butler.mcp.limits import MOST_MESSAGE, Bucket, Flood
from butler.mcp.pipe import Streams
from butler.mcp.reasons import CLOSED
from butler.mcp.trouble import Trouble
from config.mcp_file import McpServerDefinition

_METHOD = re.compile(rb'"method"\s*:\s*"(notifications/)?')
CONNECT_SECONDS = 10.0
ASIDE_SECONDS = 5.0
"""For what no call waits for: notifications, and taking leave."""
LISTEN_PAUSE = 1.0
"""Seconds between two openings of a stream, whatever the server asks for."""


@asynccontextmanager
async def wire(definition: McpServerDefinition, told: Trouble) -> AsyncIterator[Streams]:
    """Give what the server says and hears; `told` learns why the connection ended."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "butler", **definition.headers}
    async with (
        httpx2.AsyncClient(
            headers=headers,
            transport=_Bounded(told),
            # Every call has its own time; a stream that tells of changes may be silent for hours.
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        ) as client,
        streamable_http_client(definition.url or "", http_client=client, max_sse_event_size=MOST_MESSAGE) as (
            said,
            hears,
        ),
    ):
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](64)

        async def listen() -> None:
            bucket = Bucket()
            try:
                async with to_session:
                    async for item in said:
                        bucket.take()
                        await to_session.send(item)
            except Flood as flood:
                told.note(str(flood))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                told.note(f"the connection ended ({type(error).__name__})")
            told.over()

        async def speak() -> None:
            try:
                async with from_session:
                    async for item in from_session:
                        await hears.send(item)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
                told.note(f"the connection ended ({type(error).__name__})")
                told.over()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            tasks.start_soon(speak)
            try:
                yield from_server, to_server
            finally:
                for stream in (to_session, from_server, to_server, from_session):
                    stream.close()
                tasks.cancel_scope.cancel()


class _Bounded(httpx2.AsyncBaseTransport):
    """Ends answers that are too large or too late. What goes wrong with one request is the answer to that request.

    An error raised here would end the session, and with it every other call that is under way.
    """

    def __init__(self, told: Trouble) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._told = told
        self._listened_at = float("-inf")

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        aside = request.method == "POST" and _is_aside(request.content)
        if aside or request.method == "DELETE":
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), ASIDE_SECONDS)
        if request.method == "GET":
            await self._calm()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            if aside:
                return httpx2.Response(202, request=request)  # Nobody waits for it; the next call finds out.
            self._told.broken = f"{request.url.host}: {str(error) or type(error).__name__}"
            return _instead(request, CONNECTION_CLOSED, f"{CLOSED}: {self._told.broken}")
        if request.method == "POST" and not aside and (fault := self._fault(response)):
            await response.aclose()
            self._told.broken = fault
            return _instead(request, PARSE_ERROR, fault)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = _Limited(cast(httpx2.AsyncByteStream, response.stream))
        return response

    async def _calm(self) -> None:
        """A server may end its stream and have it opened again, but not without end."""
        left = self._listened_at + LISTEN_PAUSE - anyio.current_time()
        self._listened_at = max(anyio.current_time(), self._listened_at + LISTEN_PAUSE)
        await anyio.sleep(max(0.0, left))

    def _fault(self, response: httpx2.Response) -> str:
        """What keeps an answer from being one; empty where it is for the session to read."""
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        self._told.status = status if status >= 400 else 0
        self._told.broken = "it redirects to another place, which is not followed: correct 'url'" if (
            300 <= status < 400) else ""  # fmt: skip
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            return "it packed its answer, which nobody asked for"
        if 200 <= status < 300 and not kind.startswith(("application/json", "text/event-stream")):
            return "it answers with something else than JSON: is 'url' the address of a streamable HTTP endpoint?"
        return ""

    async def aclose(self) -> None:
        await self._inner.aclose()


def _instead(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    error = {"code": code, "message": message}
    asked = json.loads(request.content)["id"]
    return httpx2.Response(200, json={"jsonrpc": "2.0", "id": asked, "error": error}, request=request)


def _is_aside(content: bytes) -> bool:
    """Whether a message is a notification or an answer, which the transport sends one by one."""
    found = _METHOD.search(content[:400])
    return found is None or found[1] == b"notifications/"


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for part in self._inner:
                size += len(part)
                if size > MOST_MESSAGE:
                    raise httpx2.StreamError(f"its answer has over {MOST_MESSAGE >> 20} MiB")
                yield part
        except httpx2.TransportError as error:
            # As this it is the end of the answer alone.
            raise httpx2.StreamError(f"its answer broke off ({type(error).__name__})") from error

    async def aclose(self) -> None:
        await self._inner.aclose()
