"""Who is at the socket: same origin, then a token in the handshake or in the first frame (http-api, F2)."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect

from butler.errors import ButlerError
from butler.people import Principal
from service.events import to_json
from service.http.problems import problem
from service.http.security import address_of, presented_token, refuse_other_origin
from service.socket.frames import AuthFrame, error_frame, read_frame
from service.socket.hub import Hub
from service.socket.narrow import widen

AUTH_SECONDS = 5.0
MOST_STRANGERS = 100
"""Connections that have not said yet who they are."""
MOST_FROM_ONE = 25
"""Of these, so many from one address."""
REFUSED = 1008
LATER = 1013


@dataclass(frozen=True)
class Guest:
    """Who was let in, with which token, and the first frame if it said so."""

    person: Principal
    token: str
    frame: AuthFrame | None = None


class SocketDoor:
    """Lets connections in, one after the other or many at once."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._strangers: Counter[str] = Counter()

    async def let_in(self, websocket: WebSocket) -> Guest | None:
        """Accept the connection of whoever has a good token; everyone else gets an answer that says why not."""
        try:
            guest = await self._by_headers(websocket)
        except ButlerError as error:
            headers = {"WWW-Authenticate": "Bearer"} if error.code == "unauthorized" else None
            refusal = problem(error.status, error.code, error.detail, headers, **error.extras)
            await websocket.send_denial_response(refusal)
            return None
        if guest is not None:
            widen(websocket.scope)
            await websocket.accept()
            return guest
        address = address_of(websocket.scope)
        self._strangers[address] += 1
        try:
            await websocket.accept()
            guest = await self._by_first_frame(websocket)
            if guest is not None:
                widen(websocket.scope)
            return guest
        except ButlerError as error:
            await turn_away(websocket, error)
            return None
        finally:
            self._strangers[address] -= 1
            if not self._strangers[address]:
                del self._strangers[address]

    async def _by_headers(self, websocket: WebSocket) -> Guest | None:
        """The caller by header or cookie; None when the first frame has to tell. Raises ButlerError."""
        refuse_other_origin(websocket.headers)
        token, by_cookie = presented_token(websocket.headers)
        if by_cookie and not token:
            many, own = self._strangers.total(), self._strangers[address_of(websocket.scope)]
            if many >= MOST_STRANGERS or own >= MOST_FROM_ONE:
                raise ButlerError("rate_limited", "Too many connections that did not say who they are; try again.")
            return None
        return Guest(await self._who(websocket, token), token)

    async def _by_first_frame(self, websocket: WebSocket) -> Guest | None:
        try:
            async with asyncio.timeout(AUTH_SECONDS):
                message = await websocket.receive()
        except TimeoutError:
            raise ButlerError("unauthorized", f"No AUTH frame came within {AUTH_SECONDS:g} s.") from None
        if message["type"] == "websocket.disconnect":
            return None
        frame = read_frame(message.get("text") or "")
        if not isinstance(frame, AuthFrame) or frame.token is None:
            raise ButlerError("unauthorized", 'The first frame has to be {"type": "AUTH", "token": …}.')
        return Guest(await self._who(websocket, frame.token), frame.token, frame)

    async def _who(self, websocket: WebSocket, token: str) -> Principal:
        try:
            return await self._hub.doorkeeper.who(token)
        except ButlerError:
            self._hub.failures.take(address_of(websocket.scope))
            raise


async def turn_away(websocket: WebSocket, error: ButlerError) -> None:
    """Say why, and close; who comes too often is told to come again later (1013)."""
    with suppress(WebSocketDisconnect, OSError):
        await websocket.send_text(to_json(error_frame(error)).decode())
    await close_softly(websocket, LATER if error.code == "rate_limited" else REFUSED, error.code)


async def close_softly(websocket: WebSocket, code: int, reason: str) -> None:
    """Say goodbye to whoever still reads; a reader that does not is left without."""
    try:
        async with asyncio.timeout(1.0):
            await websocket.close(code, reason[:100])
    except (TimeoutError, RuntimeError, WebSocketDisconnect, OSError):
        return
