"""`WS /ws` (http-api, *Agents and the socket*)."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.websockets import WebSocket

from butler.errors import ButlerError
from service.socket.agents import AgentDesk
from service.socket.door import SocketDoor, turn_away
from service.socket.hub import Hub
from service.socket.people import PersonDesk
from service.socket.session import Session


def socket_routes(hub: Hub) -> APIRouter:
    """The route of this file."""
    router = APIRouter()
    door = SocketDoor(hub)

    @router.websocket("/ws")
    async def socket(websocket: WebSocket) -> None:
        """People and agents, each with their own token."""
        guest = await door.let_in(websocket)
        if guest is None:
            return
        try:
            hub.count_in(guest.person)
        except ButlerError as error:
            await turn_away(websocket, error)
            return
        session = Session(hub, websocket, guest)
        try:
            if guest.person.role == "agent":
                await session.run(AgentDesk(hub, session, guest.frame))
            else:
                await session.run(PersonDesk(hub, session), session.requests.run)
        finally:
            hub.count_out(guest.person)

    return router
