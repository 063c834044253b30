"""A small HTTP/1.1 client on asyncio and httptools, so that the load generator stays far below the server
it loads.

One connection carries one request at a time and is kept; a pool gives them out. A streamed answer notes
when the first token arrived. A server that dies in the middle of an answer raises `ConnectionLost`.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httptools
import orjson

_PATIENCE = 120.0
_LONGEST_IDLE = 2.0


class ConnectionLost(Exception):
    """The server closed the connection, or was never there; nothing was acknowledged."""


@dataclass
class Response:
    """One answer: status, body, and for a stream the times of its first token (seconds since the request)."""

    status: int = 0
    body: bytes = b""
    seconds: float = 0.0
    first_token: float | None = None

    def json(self) -> Any:
        return orjson.loads(self.body)

    def events(self) -> list[tuple[str, Any]]:
        """The stream's events as (name, data); comments and the events' ids are left out."""
        found: list[tuple[str, Any]] = []
        for block in re.split(rb"\r?\n\r?\n", self.body):
            name, data = "message", b""
            for line in block.splitlines():
                key, _, value = line.partition(b":")
                if key == b"event":
                    name = value.strip().decode()
                elif key == b"data":
                    data += value.strip()
            if data and data != b"[DONE]":
                found.append((name, orjson.loads(data)))
        return found


@dataclass
class _Exchange:
    """A request under way, as the parser's callbacks fill it."""

    done: asyncio.Future[Response]
    started: float
    marker: re.Pattern[bytes] | None
    response: Response = field(default_factory=Response)
    chunks: list[bytes] = field(default_factory=list)


class _Connection(asyncio.Protocol):
    """One kept connection; httptools calls the ``on_*`` methods."""

    def __init__(self) -> None:
        self.alive = False
        self.idle_since = 0.0
        self._exchange: _Exchange | None = None
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.alive = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.alive = False
        exchange, self._exchange = self._exchange, None
        if exchange is not None and not exchange.done.done():
            exchange.done.set_exception(ConnectionLost(repr(exc)))

    def data_received(self, data: bytes) -> None:
        if self._parser is not None:
            self._parser.feed_data(data)

    def on_body(self, chunk: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        exchange.chunks.append(chunk)
        if exchange.marker is None or exchange.response.first_token is not None:
            return
        # Almost always found in the first or second chunk, so joining here stays cheap.
        if exchange.marker.search(b"".join(exchange.chunks)):
            exchange.response.first_token = time.perf_counter() - exchange.started

    def on_message_complete(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None or exchange.done.done():
            return
        response = exchange.response
        response.seconds = time.perf_counter() - exchange.started
        response.status = self._parser.get_status_code()
        response.body = b"".join(exchange.chunks)
        if not self._parser.should_keep_alive():
            self.close()
        exchange.done.set_result(response)

    def send(self, request: bytes, marker: re.Pattern[bytes] | None) -> asyncio.Future[Response]:
        assert self._transport is not None
        done: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._exchange = _Exchange(done, time.perf_counter(), marker)
        self._transport.write(request)
        return done

    def close(self) -> None:
        self.alive = False
        if self._transport is not None:
            self._transport.close()


class Client:
    """A pool of kept connections to one server."""

    def __init__(self, base_url: str, token: str | None = None) -> None:
        parts = urlsplit(base_url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._prefix = parts.path.rstrip("/")
        self._common = f"Host: {self._host}:{self._port}\r\n"
        if token is not None:
            self._common += f"Authorization: Bearer {token}\r\n"
        self._idle: list[_Connection] = []

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        marker: re.Pattern[bytes] | None = None,
    ) -> Response:
        """Send one request; with `marker` ask for an event stream and time the marker's first match."""
        payload = b"" if body is None else orjson.dumps(body)
        accept = "text/event-stream" if marker is not None else "application/json"
        head = (
            f"{method} {self._prefix}{path} HTTP/1.1\r\n{self._common}Accept: {accept}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        connection = await self._take()
        try:
            async with asyncio.timeout(_PATIENCE):
                response = await connection.send(head.encode() + payload, marker)
        except BaseException:
            connection.close()
            raise
        if connection.alive:
            connection.idle_since = time.perf_counter()
            self._idle.append(connection)
        return response

    async def get(self, path: str) -> Response:
        return await self.request("GET", path)

    async def post(self, path: str, body: Any) -> Response:
        return await self.request("POST", path, body)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _take(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            # A server closes what is idle (uvicorn: after 5 s); a request sent at that moment would be lost.
            if connection.alive and time.perf_counter() - connection.idle_since < _LONGEST_IDLE:
                return connection
            connection.close()
        try:
            _, connection = await asyncio.get_running_loop().create_connection(_Connection, self._host, self._port)
        except OSError as error:
            raise ConnectionLost(repr(error)) from error
        return connection
