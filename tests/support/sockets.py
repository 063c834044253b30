"""A real WebSocket client for tests: one connection of a person or an agent, frames in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.client import Client, Json

SECONDS = 30.0


class Socket:
    """An open connection; keeps what it has received."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.received: list[Json] = []

    def send(self, **frame: Any) -> None:
        """Send one frame."""
        self.connection.send(json.dumps(frame))

    def raw(self, text: str | bytes) -> None:
        """Send whatever it is."""
        self.connection.send(text)

    def next(self, seconds: float = SECONDS) -> Json:
        """The next frame."""
        try:
            frame: Json = json.loads(self.connection.recv(timeout=seconds))
        except TimeoutError:
            raise AssertionError(f"no frame within {seconds:g} s; so far {self.types()}") from None
        self.received.append(frame)
        return frame

    def until(self, fits: str | Callable[[Json], bool], seconds: float = SECONDS) -> Json:
        """The next frame of that type, or that fits; what comes before is kept in `received`."""
        while True:
            frame = self.next(seconds)
            if frame["type"] == fits if isinstance(fits, str) else fits(frame):
                return frame

    def turn(self, seconds: float = SECONDS) -> list[Json]:
        """All frames up to the end of a stream."""
        before = len(self.received)
        self.until("CHAT_STREAM_END", seconds)
        return self.received[before:]

    def closed(self) -> tuple[int, str]:
        """Read to the end; gives the close code and reason."""
        while True:
            try:
                self.next()
            except ConnectionClosed as error:
                assert error.rcvd is not None
                return error.rcvd.code, error.rcvd.reason

    def types(self) -> list[str]:
        """The types of what was received."""
        return [frame["type"] for frame in self.received]


@contextmanager
def open_socket(client: Client, *, by_header: bool = True, **options: Any) -> Iterator[Socket]:
    """Connect as that client's user, with the token in the handshake or in the first frame."""
    headers = dict(options.pop("headers", {}))
    if by_header and client.token is not None:
        headers.setdefault("Authorization", f"Bearer {client.token}")
    address = client.address().replace("http://", "ws://") + "/ws"
    with connect(address, additional_headers=headers, max_size=None, proxy=None, **options) as connection:
        socket = Socket(connection)
        if not by_header:
            socket.send(type="AUTH", token=client.token)
        yield socket


def text_of(frames: list[Json]) -> str:
    """The text that was streamed."""
    return "".join(frame["payload"] for frame in frames if frame["type"] == "CHAT_STREAM")
