"""One connection: it reads, writes, keeps asking whether the token still holds, and ends with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from butler.clock import stamp
from butler.errors import ButlerError
from butler.ids import new_id
from butler.people import Principal
from butler.types import Json
from service.runs import TROUBLE
from service.socket.door import REFUSED, Guest, close_softly
from service.socket.frames import BUTLER_ID, Inbound, error_frame, read_frame
from service.socket.hub import Hub
from service.socket.outbox import Outbox
from service.socket.requests import Requests

log = structlog.get_logger("butler.socket")

CHECK_SECONDS = 2.0
SLOW = 1013
GONE = 1000
ORDINARY = (ButlerError, WebSocketDisconnect, OSError)
"""How a connection ends when it is refused or its other end goes away."""
MOST_REFUSED = 100
"""So many frames over the rate in a row end the connection."""


class Desk(Protocol):
    """What a connection's frames are handed to: one for people, one for agents."""

    async def begin(self) -> None:
        """The connection is open."""

    async def take(self, frame: Inbound) -> None:
        """Carry a frame out. Raises ButlerError."""

    async def end(self) -> None:
        """The connection has ended."""


class Session:
    """An open connection of one user."""

    def __init__(self, hub: Hub, websocket: WebSocket, guest: Guest) -> None:
        self.hub = hub
        self.person = guest.person
        self.outbox = Outbox()
        self.requests = Requests(hub.service, self._still_welcome, self.send, self.outbox)
        self._websocket = websocket
        self._token = guest.token
        self._ending: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._refused = 0

    def send(self, frame: Json) -> None:
        """Queue a frame from Butler; never blocks."""
        self.outbox.put(
            {
                "type": frame["type"],
                "sender_id": BUTLER_ID,
                "sender_name": "Butler",
                "sender_role": "BUTLER",
                "target_id": self.person.user_id,
                "timestamp": stamp(),
                **frame,
            }
        )
        if self.outbox.full.is_set():
            self.hang_up("too slow: frames were not read; connect again", SLOW)

    def hang_up(self, why: str, code: int = REFUSED) -> None:
        """End the connection."""
        if not self._ending.done():
            self._ending.set_result((code, why))
            # Whoever is sent away is looked up anew when it comes back.
            self.hub.doorkeeper.forget_all()

    async def run(self, desk: Desk, *works: Callable[[], Awaitable[None]]) -> None:
        """Serve the connection to its end; `works` go on beside it."""
        own: list[Callable[[], Awaitable[None]]] = [partial(self._read, desk), self._write, self._keep_checking]
        tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(work()) for work in (*own, *works)]
        try:
            waited: list[asyncio.Future[Any]] = [*tasks, self._ending]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            await self._flush()
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            await desk.end()
        for fault in results:
            if isinstance(fault, Exception) and not isinstance(fault, ORDINARY):
                log.error("socket_failed", user=self.person.name, exc_info=fault)
        code, why = self._ending.result() if self._ending.done() else (GONE, "")
        await close_softly(self._websocket, code, why)

    def refuse(self, error: Exception, frame: Inbound | None = None) -> None:
        """Answer a frame with an ``ERROR``; a fault of our own gets a number, and the log gets the trace."""
        if not isinstance(error, ButlerError):
            incident = new_id()
            log.error("frame_failed", user=self.person.name, incident=incident, exc_info=error)
            detail = f"Something went wrong inside Butler (incident {incident})."
            error = ButlerError("internal", detail, incident=incident)
        self.send(error_frame(error, frame))

    async def _read(self, desk: Desk) -> None:
        await desk.begin()
        while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
            frame = None
            try:
                self.hub.limit.take(self.person.user_id)
                await self._check()
                frame = _read_text(message.get("text"))
                await desk.take(frame)
                self._refused = 0
            except ButlerError as error:
                self._count(error)
                self.refuse(error, frame)
            except Exception as error:
                self.refuse(error, frame)

    def _count(self, error: ButlerError) -> None:
        self._refused += 1
        if error.code == "unauthorized":
            self.hang_up("unauthorized")
        elif self._refused >= MOST_REFUSED:
            self.hang_up("too many frames that were refused")

    async def _write(self) -> None:
        while True:
            await self._websocket.send_text(await self.outbox.next())

    async def _flush(self) -> None:
        """What was said before the end still goes out, to a reader who reads."""
        if self._ending.done() and not self.outbox.full.is_set():
            flushing = asyncio.create_task(self.outbox.drained())
            await asyncio.wait([flushing], timeout=1.0)
            flushing.cancel()

    async def _check(self) -> None:
        """Raises ButlerError ``unauthorized`` once the token has ended or its user is shut out or may do less."""
        person = await self.hub.doorkeeper.who(self._token)
        fell = self.person.is_admin and not person.is_admin
        if person.user_id != self.person.user_id or fell or (person.role == "agent") != (self.person.role == "agent"):
            raise ButlerError("unauthorized", "Your role has changed; connect again.")
        self.person = person

    async def _still_welcome(self) -> Principal:
        try:
            await self._check()
        except ButlerError as error:
            self.refuse(error)
            self.hang_up(error.code)
            raise
        return self.person

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._still_welcome()
            except TROUBLE as error:
                log.warning("token_not_checked", user=self.person.name, error=str(error))


def _read_text(text: str | None) -> Inbound:
    if text is None:
        raise ButlerError("invalid_request", "Frames are text with a JSON object; binary ones are not read.")
    return read_frame(text)
