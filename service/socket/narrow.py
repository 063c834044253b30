"""The server's WebSocket protocol, narrow until it is known who is there: a stranger can't make it hold megabytes (F2).

Small frames only, and one at a time: what a client sends right behind its ``AUTH`` waits unread until that one counts.
"""

from __future__ import annotations

from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

STRANGERS_FRAME_BYTES = 64 * 1024
STRANGERS_BYTES = 2 * STRANGERS_FRAME_BYTES
"""What is read of a stranger in all, pings and fragments with it."""
WIDEN = "butler.widen"
"""The name of the ASGI extension by which the door says that the caller is known."""
DATA_FRAMES = frozenset({0, 1, 2})


class NarrowProtocol(WebSocketsSansIOProtocol):
    """A connection that takes frames up to `STRANGERS_FRAME_BYTES`, and the server's own limit once it is widened."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn.max_message_size = STRANGERS_FRAME_BYTES
        self._wide = False
        self._unread = b""
        self._waits = False
        self._read_bytes = 0

    def handle_connect(self, event: Request) -> None:
        """Let the application widen it; it runs only after this."""
        super().handle_connect(event)
        if (scope := getattr(self, "scope", None)) is not None:
            cast(Scope, scope)["extensions"][WIDEN] = {"widen": self.widen}

    def widen(self) -> None:
        """The caller is known: read what waits, and larger frames."""
        self._wide, self._waits = True, False
        self.conn.max_message_size = self.config.ws_max_size
        rest, self._unread = self._unread, b""
        if rest:
            super().data_received(rest)

    def data_received(self, data: bytes) -> None:
        """Before the caller is known, one data frame is passed on; what comes behind it waits."""
        if self._wide or not self.handshake_initiated:
            super().data_received(data)
            return
        self._unread += data
        if self._read_bytes > STRANGERS_BYTES or len(self._unread) > self.config.ws_max_size + STRANGERS_BYTES:
            self.transport.abort()
            return
        if self.close_sent:
            data, self._unread = self._unread, b""
            super().data_received(data)
            return
        while self._unread and not self._waits:
            size, ends_message = _first_frame(self._unread)
            if size > STRANGERS_FRAME_BYTES + 14:
                size = len(self._unread)  # refused by its head alone
            elif size > len(self._unread):
                return
            part, self._unread = self._unread[:size], self._unread[size:]
            self._waits = ends_message
            self._read_bytes += size
            super().data_received(part)


def _first_frame(data: bytes) -> tuple[int, bool]:
    """The bytes of the frame that `data` begins with, head included, and whether it ends a message (RFC 6455, 5.2).

    One byte more than there is where not even its length is known.
    """
    ends_message = bool(data[0] & 0x80) and data[0] & 0x0F in DATA_FRAMES
    if len(data) < 2:
        return len(data) + 1, ends_message
    head, length = 2, data[1] & 0x7F
    if length >= 126:
        head += 2 if length == 126 else 8
        if len(data) < head:
            return len(data) + 1, ends_message
        length = int.from_bytes(data[2:head], "big")
    return head + (4 if data[1] & 0x80 else 0) + length, ends_message


def widen(scope: Scope) -> None:
    """The caller behind this connection is known. Other servers' protocols have no such limit."""
    extension = scope.get("extensions", {}).get(WIDEN)
    if extension is not None:
        extension["widen"]()
