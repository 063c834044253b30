"""The server's HTTP protocol, with an end to waiting for a request's head: a stranger can't hold connections (F2).

Uvicorn itself waits for ever, and takes a head of any length.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024


class HeadProtocol(HttpToolsProtocol):
    """A connection that is closed when the next request's head is not there in time, or is too long."""

    head_seconds: ClassVar[float] = 10.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._alarm: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_body = False
        self._is_head = True
        """Whether the piece that is read now is all of a head."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody came; a request has to follow."""
        super().connection_made(transport)
        self._look()

    def on_headers_complete(self) -> None:
        """A body follows, which the application reads or not."""
        super().on_headers_complete()
        self._in_body, self._is_head = True, False

    def on_message_complete(self) -> None:
        """What comes now is another request's head."""
        super().on_message_complete()
        self._in_body, self._is_head = False, False

    def data_received(self, data: bytes) -> None:
        """Take more of a request in."""
        self._is_head = not self._in_body
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if self._is_head else 0
        self._look()
        if self._head_bytes > MOST_HEAD_BYTES:
            self._give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._no_alarm()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Wait only while a head, or a body that nobody reads any more, is due: not for answers, nor on a WebSocket."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering or self.transport.get_protocol() is not self or self.transport.is_closing():
            self._no_alarm()
        elif self._alarm is None:
            self._alarm = self.loop.call_later(self.head_seconds, self._give_up)

    def _no_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _give_up(self) -> None:
        self._alarm = None
        # Nothing that is still to be sent is worth waiting for.
        self.transport.abort()
