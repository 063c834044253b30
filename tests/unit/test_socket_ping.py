"""A peer that is gone without a word is found out: it answers no ping, and its connection is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.asyncio.client import connect
from websockets.frames import CloseCode

from service.socket.narrow import NarrowProtocol

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PING, CLOSE = 0x89, 0x88


async def listen(scope: Any, receive: Any, send: Any) -> None:
    """Accept, and hear what comes until the end."""
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] != "websocket.disconnect":
        await send({"type": "websocket.send", "text": message["text"]})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    config = uvicorn.Config(
        listen, ws=NarrowProtocol, lifespan="off", log_config=None, ws_ping_interval=0.1, ws_ping_timeout=0.3
    )
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    protocol: Any = config.http_protocol_class
    server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    yield int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()


async def test_a_peer_that_answers_no_ping_is_closed_with_1011(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE)
    await reader.readuntil(b"\r\n\r\n")
    kinds: list[int] = []
    async with asyncio.timeout(20):
        while not kinds or kinds[-1] != CLOSE:
            kind, length = await reader.readexactly(2)
            body = await reader.readexactly(length)
            kinds.append(kind)
    assert PING in kinds and int.from_bytes(body[:2], "big") == CloseCode.INTERNAL_ERROR
    writer.close()


async def test_a_peer_that_answers_stays(port: int) -> None:
    async with connect(f"ws://127.0.0.1:{port}/ws", proxy=None, ping_interval=None) as socket:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.wait_closed(), 1.0)  # three times as long as a ping may wait
        await socket.send("still here")
        assert await socket.recv() == "still here"
