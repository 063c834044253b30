"""All open connections, by user: who is told what, and within which limits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

import structlog

from butler.agents.switchboard import Switchboard
from butler.approvals.actions import Action
from butler.errors import ButlerError
from butler.people import Principal
from butler.types import Json
from service.auth import Doorkeeper
from service.butler import ButlerService
from service.events import RunLog
from service.http.security import RateLimit
from service.socket.relay import Relay
from service.socket.requests import Requests

logger = structlog.get_logger("butler.socket")

MOST_CONNECTIONS = 20
STIRRING = frozenset({"run", "approval", "end"})
"""Events of a run after which requests may be new or decided."""


class Connection(Protocol):
    """What the hub needs of a connection."""

    person: Principal
    requests: Requests

    def send(self, frame: Json) -> None:
        """Queue a frame."""


class Hub:
    """Knows every connection of people and passes on what concerns them; agents are on the switchboard."""

    def __init__(self, service: ButlerService, doorkeeper: Doorkeeper, failures: RateLimit) -> None:
        self.service = service
        self.doorkeeper = doorkeeper
        self.failures = failures
        self.board: Switchboard = service.faculties.agents or Switchboard()
        self.limit = RateLimit(per_second=20, burst=200)
        self.comings = {True: RateLimit(per_second=0.5, burst=20), False: RateLimit(per_second=5, burst=200)}
        """How often one user may connect: an agent (True), or a person."""
        self.relay = Relay(self.to_user, self._behind_requests, service.faculties.redactor)
        self._people: dict[str, list[Connection]] = {}
        self._admins: set[str] = set()
        self._counts: dict[str, int] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._lingering: set[asyncio.Task[Any]] = set()
        service.runs.logs.taps.append(self._hear)

    def count_in(self, person: Principal) -> None:
        """Take one more connection of a user in. Raises ButlerError ``rate_limited``."""
        try:
            self.comings[person.role == "agent"].take(person.user_id)
        except ButlerError:
            raise ButlerError("rate_limited", "You connect too often; wait a few seconds and try again.") from None
        if self._counts.get(person.user_id, 0) >= MOST_CONNECTIONS:
            raise ButlerError("rate_limited", f"You have {MOST_CONNECTIONS} open connections; close one first.")
        self._counts[person.user_id] = self._counts.get(person.user_id, 0) + 1

    def count_out(self, person: Principal) -> None:
        """The connection has ended."""
        self._counts[person.user_id] -= 1
        if not self._counts[person.user_id]:
            del self._counts[person.user_id]

    @property
    def connections(self) -> int:
        """How many connections are open, of people and agents."""
        return sum(self._counts.values())

    def join(self, connection: Connection) -> None:
        """Tell a person's connection what concerns the person, from now on, and of streams that are open."""
        if connection.person.is_admin:
            self._admins.add(connection.person.user_id)
        elif connection.person.user_id in self._admins:
            # No admin any more: other people's turns are none of its business now.
            self._admins.discard(connection.person.user_id)
            self.relay.forget(connection.person.user_id)
        self._people.setdefault(connection.person.user_id, []).append(connection)
        self.relay.catch_up(connection.person.user_id, send=lambda _, frame: connection.send(frame))

    def leave(self, connection: Connection) -> None:
        """The connection has ended; what its person began goes on."""
        user_id = connection.person.user_id
        self._people[user_id].remove(connection)
        if not self._people[user_id]:
            del self._people[user_id]

    def to_user(self, user_id: str, frame: Json) -> None:
        """Queue a frame for every connection of a user."""
        for connection in self._people.get(user_id, ()):
            connection.send(frame)

    def settled(self, actions: list[Action]) -> None:
        """Tell everyone who was asked that these were decided."""
        for connections in self._people.values():
            for connection in connections:
                for action in actions:
                    connection.requests.settled(action)

    def lock_of(self, user_id: str) -> asyncio.Lock:
        """So that two first messages of a person don't make two threads."""
        return self._locks.setdefault(user_id, asyncio.Lock())

    def linger(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work of a connection that goes on when the connection is gone."""
        task = asyncio.create_task(work)
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)
        return task

    def _hear(self, log: RunLog, event: str, data: Json) -> None:
        try:
            self.relay.hear(log, event, data)
        except Exception as error:
            # Whoever listens must not disturb the run itself.
            logger.error("relay_failed", run_id=log.run_id, exc_info=error)
        if event in STIRRING:
            for connections in self._people.values():
                for connection in connections:
                    connection.requests.stir()

    def _behind_requests(self, user_id: str, frame: Json) -> None:
        for connection in self._people.get(user_id, ()):
            connection.requests.after_requests(frame)
