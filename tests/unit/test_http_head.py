"""Connections that send no request, half of one, or an endless one, are ended; everybody else is served (F2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from service.socket.head import MOST_HEAD_BYTES, HeadProtocol

LARGE = 4 * MOST_HEAD_BYTES
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LARGE
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class HurriedProtocol(HeadProtocol):
    """Waits a moment only."""

    head_seconds = 0.2


async def answer_late(scope: Any, receive: Any, send: Any) -> None:
    """Answer after longer than a head may take, or at once without a look at the body."""
    if scope["method"] == "GET":
        await asyncio.sleep(0.4)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A server whose answers take longer than a head may."""
    config = uvicorn.Config(answer_late, lifespan="off", log_config=None, timeout_keep_alive=1)
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: HurriedProtocol(config, state, {}), "127.0.0.1", 0)
    yield int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()


async def end_of(port: int, *sent: bytes) -> bytes:
    """What comes back until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    heard = b""
    try:
        for part in sent:
            writer.write(part)
            await writer.drain()
            if part in (GET, POST):
                heard += await reader.readuntil(b"ok")
        async with asyncio.timeout(10):
            heard += await reader.read()
    except ConnectionError:
        heard += b"(reset)"
    writer.close()
    return heard


@pytest.mark.parametrize("sent", [(), (b"G",), (b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",)])
async def test_a_head_that_never_ends_ends_the_connection(port: int, sent: tuple[bytes, ...]) -> None:
    assert await end_of(port, *sent) in (b"", b"(reset)")


async def test_a_slow_answer_is_waited_for_and_a_second_head_that_never_ends_is_not(port: int) -> None:
    heard = await end_of(port, GET, GET, b"GET / HT")
    assert heard.count(b"200 OK") == 2


@pytest.mark.parametrize("line", [b"X-More: x\r\n", b"x"])
async def test_a_head_that_is_too_long_ends_the_connection_at_once(
    port: int, line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HurriedProtocol, "head_seconds", 60.0)
    lines = line * (2 * MOST_HEAD_BYTES // len(line))
    assert await end_of(port, b"GET / HTTP/1.1\r\nX-Long: ", lines) in (b"", b"(reset)")


async def test_the_body_of_a_request_that_was_answered_early_is_no_head(port: int) -> None:
    for body in (b"x" * LARGE, b"x" * (LARGE - 1)):
        assert (await end_of(port, POST, body[:9], body[9:], b"GET /")).count(b"200 OK") == 1
    assert (await end_of(port, POST, b"x" * LARGE, GET, b"GET /")).count(b"200 OK") == 2
    assert (await end_of(port, POST + b"x" * LARGE + GET)).count(b"200 OK") == 2
