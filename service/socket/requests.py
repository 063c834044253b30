"""Which approval requests one connection was told of: open ones at once and to late comers, decided ones too (B6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import structlog
from sqlalchemy import Connection, select

from butler.approvals.actions import Action
from butler.approvals.show import approval
from butler.people import Principal
from butler.storage.tables import actions
from butler.types import Json
from service.approvals import encode_cursor, list_approvals
from service.butler import ButlerService
from service.runs import TROUBLE
from service.socket.outbox import Outbox

log = structlog.get_logger("butler.socket")

Who = Callable[[], Awaitable[Principal]]
"""Who is at the other end as things stand now. Raises ButlerError when nobody may be there any more."""
Send = Callable[[Json], None]

LOOK_SECONDS = 5.0
AROUND_SECONDS = 60.0
PAGE = 100
MOST_CHECKED = 400


class Requests:
    """Compares what a connection was told with the ledger, whenever something has happened and now and then.

    So no face, no other process and no passing of time can leave a connection with a request that is stale.
    """

    def __init__(self, service: ButlerService, who: Who, send: Send, outbox: Outbox) -> None:
        self._service = service
        self._who = who
        self._send = send
        self._outbox = outbox
        self._told: dict[str, str] = {}
        self._place: str | None = None
        self._role = ""
        self._around_at = 0.0
        self._changed = asyncio.Event()
        self._after: list[Json] = []

    def stir(self) -> None:
        """Something has happened that may have asked or answered."""
        self._changed.set()

    def after_requests(self, frame: Json) -> None:
        """Send this frame behind the requests that are new now."""
        self._after.append(frame)
        self._changed.set()

    async def run(self) -> None:
        """Keep the connection told, until cancelled."""
        while True:
            self._changed.clear()
            after, self._after = self._after, []
            try:
                await self._look()
            except TROUBLE as error:
                log.warning("requests_not_told", error=str(error))
            for frame in after:
                self._send(frame)
            if self._changed.is_set():
                continue
            waiting = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait([waiting], timeout=LOOK_SECONDS)
            finally:
                waiting.cancel()

    def settled(self, action: Action) -> None:
        """Tell that an action was decided, if its request was told."""
        if action.status != "pending" and self._told.pop(action.action_id, None) is not None:
            self._send(self._update(action))

    async def _look(self) -> None:
        ids = list(self._told)
        for start in range(0, len(ids), MOST_CHECKED):
            some = ids[start : start + MOST_CHECKED]
            for action in await self._service.database.read(partial(_of_ids, ids=some)):
                self.settled(action)
        if time.monotonic() >= self._around_at:
            self._around_at = time.monotonic() + AROUND_SECONDS
            self._place = None
        while True:
            person = await self._who()
            if person.role != self._role:
                # Another role may decide what was passed over before.
                self._role, self._place = person.role, None
            found, _ = await self._service.database.read(
                partial(list_approvals, person=person, status="pending", thread_id=None, limit=PAGE, cursor=self._place)
            )
            new = [one for one in found if one.may_be_decided_by(person) and not one.has_expired and self._is_new(one)]
            self._service.showings.saw(person, [one.action_id for one in new], "socket")
            for action in new:
                self._told[action.action_id] = action.requested_at
                self._send(self._request(action))
            if found:
                self._place = encode_cursor(found[-1].requested_at, found[-1].action_id)
            if len(found) < PAGE:
                return
            await self._outbox.room()

    def _is_new(self, action: Action) -> bool:
        return self._told.get(action.action_id) != action.requested_at

    def _request(self, action: Action) -> Json:
        """The ``AUTH_REQUEST``: in words as in the seed, and the whole Approval in `payload`."""
        shown = self._shown(action)
        command, reasoning = shown["title"], shown["reason"]
        if action.tool == "command_agent":
            command, reasoning = str(shown["args"].get("command")), str(shown["args"].get("reasoning"))
        return {
            "type": "AUTH_REQUEST", "action_id": action.action_id, "command": command, "reasoning": reasoning,
            "thread_id": action.thread_id, "timestamp": action.requested_at, "payload": shown,
        }  # fmt: skip

    def _update(self, action: Action) -> Json:
        shown = self._shown(action)
        return {
            "type": "AUTH_STATUS_UPDATE", "action_id": action.action_id, "approved": action.status == "approved",
            "thread_id": action.thread_id,
            "payload": {"status": action.status, "decision": shown["decision"], "tool": action.tool},
        }  # fmt: skip

    def _shown(self, action: Action) -> Json:
        return approval(action, self._service.faculties.tools, self._service.faculties.redactor)


def _of_ids(connection: Connection, ids: Sequence[str]) -> list[Action]:
    rows = connection.execute(select(actions).where(actions.c.action_id.in_(ids), actions.c.status != "pending"))
    return [Action.of_row(row) for row in rows]
