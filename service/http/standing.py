"""Whether whoever began to listen to a run may still hear of it: tokens end and roles change while a turn runs (F2)."""

from __future__ import annotations

import re
import time
from typing import Any

from butler.errors import ButlerError
from butler.types import Json
from service.auth import KNOWN_SECONDS, Doorkeeper
from service.butler import ButlerService
from service.events import to_json
from service.http.security import caller, presented_token
from service.outcomes import NO_USAGE

NOT_YOURS = "You may not see this run any more; it goes on without you."
_NUMBER = re.compile(rb"^id: (\d+)$", re.MULTILINE)


class Standing:
    """The caller of one request, looked at again whenever users or tokens have changed, and each second."""

    def __init__(self, request: Any) -> None:
        doorkeeper, service = request.app.state.doorkeeper, request.app.state.service
        assert isinstance(doorkeeper, Doorkeeper)
        assert isinstance(service, ButlerService)
        self._doorkeeper, self._service = doorkeeper, service
        self._token = presented_token(request.headers)[0]
        self._person = caller(request)
        self._seen = (doorkeeper.changes, time.monotonic())

    async def check(self, run_id: str) -> None:
        """Raises ButlerError ``unauthorized``, ``forbidden`` or ``not_found`` for a run that is theirs no more."""
        changes, at = self._seen
        if changes == self._doorkeeper.changes and time.monotonic() < at + KNOWN_SECONDS:
            return
        seen = (self._doorkeeper.changes, time.monotonic())
        person = await self._doorkeeper.who(self._token)
        if person.role == "agent":
            raise ButlerError("forbidden", NOT_YOURS)
        if self._person.is_admin and not person.is_admin:
            # Raises `not_found` for a run of somebody else's thread.
            await self._service.run_outcome(person, run_id)
        self._person, self._seen = person, seen


def farewell(thread_id: str, run_id: str, told: bytes) -> bytes:
    """The last events of a stream whose reader may hear no more: why, and an `end` that says nothing of the turn.

    Args:
        told: what was sent last; its number is used again, so that nothing is missed by whoever may come back.
    """
    numbers = _NUMBER.findall(told)
    number = numbers[-1] if numbers else b"0"
    outcome: Json = {
        "thread_id": thread_id, "run_id": run_id, "status": "running", "reply": "", "approvals": [], "error": None,
        "usage": dict(NO_USAGE),
    }  # fmt: skip
    events = ((b"notice", {"text": NOT_YOURS}), (b"end", outcome))
    return b"".join(b"id: %s\nevent: %s\ndata: %s\n\n" % (number, name, to_json(data)) for name, data in events)
