"""An agent at the socket: it answers commands and reports, and never chats or decides (B5)."""

from __future__ import annotations

from functools import partial

import structlog
from sqlalchemy import Connection

from butler.agents import directory
from butler.agents.quoting import MOST_REPORT, text_of_payload
from butler.agents.switchboard import Directive
from butler.clock import stamp
from butler.errors import ButlerError
from butler.people import Principal
from butler.storage import audit
from service.runs import TROUBLE
from service.socket.frames import AuthFrame, ChatFrame, Inbound
from service.socket.hub import Hub
from service.socket.session import Session

log = structlog.get_logger("butler.socket")
LATE = "The command is over: it was answered already, or its time ran out. Your answer was noted and not taken in."
UNKNOWN = "No command of yours has this correlation_id, so the answer was not taken in."


class AgentDesk:
    """Carries out an agent's frames."""

    def __init__(self, hub: Hub, session: Session, first: AuthFrame | None) -> None:
        self._hub = hub
        self._session = session
        self._first = first

    async def begin(self) -> None:
        """Online from here on."""
        agent = self._session.person
        was_offline = self._hub.board.connect(agent.user_id, self._session)
        capabilities = self._first.capabilities if self._first is not None else None

        def note(connection: Connection) -> None:
            directory.saw(connection, agent.user_id, capabilities)
            if was_offline:
                audit.record(connection, "agent_connected", actor=agent.name, via="socket", agent_id=agent.user_id)

        await self._hub.service.database.write(note)

    async def end(self) -> None:
        """Offline, if this was its only connection; commands under way may still be answered over another one."""
        agent_id = self._session.person.user_id
        self._hub.board.leave(agent_id, self._session)
        try:
            await self._hub.service.database.write(partial(directory.saw, agent_id=agent_id))
        except TROUBLE as error:
            log.warning("last_seen_not_kept", agent=self._session.person.name, error=str(error))

    async def take(self, frame: Inbound) -> None:
        """Carry a frame out. Raises ButlerError."""
        match frame:
            case AuthFrame():
                await self._introduce(frame)
            case ChatFrame() if frame.correlation_id is not None:
                await self._answer(frame, frame.correlation_id)
            case ChatFrame():
                await self._report(frame)
            case _:
                await self._hub.service.attempts.refused(self._session.person, "AUTH_RESPONSE", "socket")
                raise ButlerError("forbidden", "An agent never decides anything; this was written down.")

    async def _introduce(self, frame: AuthFrame) -> None:
        agent = self._session.person
        if frame.token is not None and (await self._hub.doorkeeper.who(frame.token)).user_id != agent.user_id:
            raise ButlerError("forbidden", "This connection is somebody else's; open another one.")
        await self._hub.service.database.write(
            partial(directory.saw, agent_id=agent.user_id, capabilities=frame.capabilities)
        )

    async def _answer(self, frame: ChatFrame, correlation_id: str) -> None:
        agent = self._session.person
        credited = self._hub.board.answer(agent.user_id, correlation_id, text_of_payload(frame.payload))
        if credited.credit == "taken":
            return
        if credited.directive is None:
            await self._hub.service.attempts.refused(agent, "answer to a command that is not its own", "socket")
            raise ButlerError("not_found", UNKNOWN)
        await self._hub.service.database.write(partial(_note_late, agent=agent, directive=credited.directive))
        raise ButlerError("expired", LATE)

    async def _report(self, frame: ChatFrame) -> None:
        """What an agent says unasked is kept for whoever asks for its status; it is nobody's answer."""
        text = text_of_payload(frame.payload, MOST_REPORT)
        if not text.strip():
            raise ButlerError("invalid_request", "payload: expected text that is not empty.")
        text = self._hub.service.faculties.redactor.text(text)
        await self._hub.service.database.write(
            partial(directory.reported, agent_id=self._session.person.user_id, text=text)
        )


def _note_late(connection: Connection, agent: Principal, directive: Directive) -> None:
    audit.record(
        connection, "answer_not_credited", actor=agent.name, via="socket", action_id=directive.action_id,
        thread_id=directive.thread_id, run_id=directive.run_id, correlation_id=directive.correlation_id,
        sent_at=directive.sent_at, came_at=stamp(),
    )  # fmt: skip
