"""A person at the socket: messages become turns, answers become decisions (B3, B6)."""

from __future__ import annotations

import asyncio
from functools import partial

from butler.approvals.decide import Decision
from butler.errors import ButlerError
from butler.types import Json
from service.socket.frames import AuthFrame, AuthResponseFrame, ChatFrame, Inbound, message_of
from service.socket.hub import Hub
from service.socket.session import Session
from service.socket.threads import keep_thread, thread_of
from service.tickets import Ticket

MOST_WAITING = 20


class PersonDesk:
    """Carries out a person's frames. Messages are taken in order on a lane of their own, decisions at once."""

    def __init__(self, hub: Hub, session: Session) -> None:
        self._hub = hub
        self._session = session
        self._service = hub.service
        self._said: asyncio.Queue[ChatFrame | None] = asyncio.Queue()
        self._joined = False

    async def begin(self) -> None:
        """Follow the person's own thread, and take messages in."""
        user_id = self._session.person.user_id
        thread_id = await self._service.database.read(partial(thread_of, user_id=user_id))
        if thread_id is not None:
            self._hub.relay.follow_thread(thread_id, user_id)
        self._hub.join(self._session)
        self._joined = True
        self._session.requests.stir()
        # Not ended with the connection: what has been received is taken in all the same.
        self._hub.linger(self._take_messages())

    async def end(self) -> None:
        """Nothing that was begun is cancelled."""
        if self._joined:
            self._hub.leave(self._session)
            self._said.put_nowait(None)

    async def take(self, frame: Inbound) -> None:
        """Carry a frame out. Raises ButlerError."""
        match frame:
            case AuthFrame():
                await self._same_person(frame)
            case ChatFrame():
                self._queue(frame)
            case AuthResponseFrame():
                await self._decide(frame)

    async def _same_person(self, frame: AuthFrame) -> None:
        who = await self._hub.doorkeeper.who(frame.token) if frame.token is not None else self._session.person
        if who.user_id != self._session.person.user_id:
            raise ButlerError("forbidden", "This connection is somebody else's; open another one.")

    def _queue(self, frame: ChatFrame) -> None:
        message_of(frame)
        if isinstance(frame.target_id, str) and self._hub.board.is_online(frame.target_id):
            raise ButlerError(
                "invalid_request", "People speak with Butler only. Ask it to command the agent; you approve that then."
            )
        if self._said.qsize() >= MOST_WAITING:
            raise ButlerError("rate_limited", f"{MOST_WAITING} of your messages wait already; send it later.")
        self._said.put_nowait(frame)

    async def _take_messages(self) -> None:
        while (frame := await self._said.get()) is not None:
            try:
                await self._say(frame)
            except Exception as error:
                self._session.refuse(error, frame)

    async def _say(self, frame: ChatFrame) -> None:
        person, text = self._session.person, message_of(frame)
        if frame.thread_id is not None:
            ticket = await self._service.chat(person, text, frame.thread_id, "queue")
        else:
            ticket = await self._say_in_own_thread(text)
        queued = ticket.settled is not None and ticket.settled["status"] == "queued"
        self._hub.relay.join(
            ticket.log, ticket.log.position if queued else ticket.position, thread_id=ticket.thread_id,
            user_id=person.user_id, correlation_id=frame.correlation_id,
        )  # fmt: skip
        if queued and ticket.settled is not None:
            self._session.send(_queued(ticket, ticket.settled))

    async def _say_in_own_thread(self, text: str) -> Ticket:
        person, database = self._session.person, self._service.database
        async with self._hub.lock_of(person.user_id):
            thread_id = await database.read(partial(thread_of, user_id=person.user_id))
            try:
                ticket = await self._service.chat(person, text, thread_id, "queue")
            except ButlerError as error:
                if error.code != "not_found" or thread_id is None:
                    raise
                # It was deleted: the talk goes on in a new one.
                ticket = await self._service.chat(person, text, None, "queue")
            if ticket.thread_id != thread_id:
                self._hub.relay.follow_thread(ticket.thread_id, person.user_id)
                await database.write(partial(keep_thread, user_id=person.user_id, thread_id=ticket.thread_id))
            return ticket

    async def _decide(self, frame: AuthResponseFrame) -> None:
        answer, person = frame.read(), self._session.person
        decision = Decision(
            "approve" if answer.approved else "reject", reason=answer.reason, fingerprint=answer.fingerprint
        )
        decided = await self._service.decisions.one(answer.action_id, decision, person, "socket")
        self._hub.settled(decided.actions)
        action = decided.actions[0]
        if decided.in_part:
            self._session.send(
                {
                    "type": "AUTH_STATUS_UPDATE", "action_id": action.action_id, "approved": False,
                    "thread_id": action.thread_id,
                    "payload": {"status": "pending", "approvals": len(action.approved_by or ()),
                                "approvals_needed": action.approvals_needed},
                }
            )  # fmt: skip
            return
        if person.is_admin or action.requester_id == person.user_id:
            self._hub.relay.join(
                decided.log, decided.position, thread_id=action.thread_id, user_id=person.user_id,
                name=action.action_id,
            )  # fmt: skip


def _queued(ticket: Ticket, outcome: Json) -> Json:
    waits = len(outcome["approvals"])
    why = f"{waits} approval(s) have to be decided first" if waits else "the turn before it has to end first"
    return {
        "type": "CHAT", "payload": f"Your message is kept and waits: {why}.", "thread_id": ticket.thread_id,
        "run_id": ticket.run_id,
    }  # fmt: skip
